#!/usr/bin/env bash
# Version: label-studio-sdk 2.1.2
# Guess: in a csv export, the cell of a question with several choices is a list, or the choices with commas between them.
# Seen: a text with one choice has that choice, and a text with several has a JSON object, in the same column. Read as they are,
#       an object is one more class.
# Here: tables/annotation_tools.py knows the export, and tables/label_columns.py reads both as labels; tests/tables/test_annotations.py.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet label-studio-sdk==2.1.2
cd "$folder"
venv/bin/python - <<'PYTHON'
import csv
import json

from label_studio_sdk.converter import Converter

CONFIG = """
<View>
  <Text name="text" value="$text"/>
  <Choices name="topic" toName="text" choice="multiple"><Choice value="delivery"/><Choice value="billing"/></Choices>
</View>
"""


def task(number, text, choices):
    answer = {"from_name": "topic", "to_name": "text", "type": "choices", "value": {"choices": choices}}
    return {"id": number, "data": {"text": text}, "annotations": [{"id": number, "result": [answer]}]}


tasks = [task(1, "a late parcel", ["delivery"]), task(2, "late, and too dear", ["delivery", "billing"])]
with open("tasks.json", "w") as file:
    json.dump(tasks, file)
Converter(config=CONFIG, project_dir=None).convert("tasks.json", "out", "CSV", is_dir=False)
with open("out/result.csv") as file:
    cells = [row["topic"] for row in csv.DictReader(file)]
print(cells)
assert cells == ["delivery", '{"choices":["delivery","billing"]}'], "the converter behaves otherwise now"
PYTHON
