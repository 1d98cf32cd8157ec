#!/usr/bin/env bash
# Version: conllu 6.0.0
# Guess: the length of a parsed CoNLL-U sentence is its number of syntactic words.
# Seen: it counts multiword tokens (1-2) and empty nodes (2.1) too, with a tuple as their id. Four "words" stand for two, and
#       a list of UPOS made of all of them has `_` as a class.
# Here: tables/conll_layout.py leaves both out and a line counts them; tests/tables/test_conll_files.py.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet conllu==6.0.0
"$folder/venv/bin/python" - <<'PYTHON'
import conllu

empty = "\t".join("_" * 6)
rows = [f"1-2\tal\t_\t_\t{empty}", f"1\ta\ta\tADP\t{empty}", f"2\tel\tel\tDET\t{empty}", f"2.1\tva\tir\tVERB\t{empty}"]
(sentence,) = conllu.parse("\n".join(rows) + "\n\n")
seen = len(sentence), [token["upos"] for token in sentence], [token["id"] for token in sentence]
print(seen)
assert seen == (4, ["_", "ADP", "DET", "VERB"], [(1, "-", 2), 1, 2, (2, ".", 1)]), "conllu behaves otherwise now"
PYTHON
