#!/usr/bin/env bash
# Version: spacy 3.8.7, click 8.1.8 (which it does not bring along)
# Guess: offsets_to_biluo_tags raises an error for an entity that ends within a word.
# Seen: it gives that word the tag `-`, with a warning on standard error. A file of such tags has a class `-`, and is no valid
#       BILUO: a scorer that goes by the prefixes counts words instead of entities.
# Here: data/labels.py reads - as O beside tags of entities, and says so; tests/tables/test_conll_files.py.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet spacy==3.8.7 click==8.1.8
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import spacy
from spacy.training import offsets_to_biluo_tags

doc = spacy.blank("en")("Anna saw Rome-based Bob")
tags = offsets_to_biluo_tags(doc, [(0, 2, "PER"), (9, 13, "LOC")])
print([token.text for token in doc], tags)
assert tags == ["-", "O", "U-LOC", "O", "O", "O"], "spaCy behaves otherwise now"
PYTHON
