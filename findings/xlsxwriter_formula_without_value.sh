#!/usr/bin/env bash
# Version: XlsxWriter 3.3.1, openpyxl 3.1.5, python-calamine 0.9.1
# Guess: a formula that is written without a value has no value in the file, as openpyxl writes it.
# Seen: XlsxWriter writes the value 0. Whatever reads values finds the class 0.0 in each row of a column of such labels, where
#       the file of openpyxl has none.
# Here: tables/xlsx_parts.py takes a column whose formulas are all 0 as not calculated, and such labels are refused;
#       tests/tables/test_workbook_cells.py.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet XlsxWriter==3.3.1 openpyxl==3.1.5 python-calamine==0.9.1
cd "$folder"
venv/bin/python - <<'PYTHON'
import openpyxl
import python_calamine
import xlsxwriter

FORMULA = '=IF(1,"billing","other")'
book = xlsxwriter.Workbook("xlsxwriter.xlsx")
sheet = book.add_worksheet()
sheet.write("A1", "label")
sheet.write_formula("A2", FORMULA)
book.close()
book = openpyxl.Workbook()
book.active.append(["label"])
book.active.append([FORMULA])
book.save("openpyxl.xlsx")

names = ("xlsxwriter.xlsx", "openpyxl.xlsx")
seen = {name: python_calamine.load_workbook(name).get_sheet_by_index(0).to_python() for name in names}
print(seen)
assert seen == {"xlsxwriter.xlsx": [["label"], [0.0]], "openpyxl.xlsx": [["label"]]}, "the programs behave otherwise now"
PYTHON
