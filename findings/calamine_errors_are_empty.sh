#!/usr/bin/env bash
# Version: python-calamine 0.9.1, XlsxWriter 3.3.1
# Guess: a cell with an error, such as #N/A of a lookup that found nothing, comes as a value that says so.
# Seen: it comes as the empty text, the same as a blank cell. Rows whose label could not be looked up seem to have none.
# Here: tables/xlsx_parts.py finds these cells, and tables/workbooks.py names the error and the row; tests/tables/test_workbook_cells.py.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet python-calamine==0.9.1 XlsxWriter==3.3.1
cd "$folder"
venv/bin/python - <<'PYTHON'
import python_calamine
import xlsxwriter

book = xlsxwriter.Workbook("rows.xlsx")
sheet = book.add_worksheet()
sheet.write_row(0, 0, ["text", "label"])
for row, error in enumerate(("#N/A", "#DIV/0!", "#REF!"), start=1):
    sheet.write(row, 0, "a parcel")
    sheet.write_formula(row, 1, "=VLOOKUP(9,C1:D2,2,0)", None, error)
sheet.write_row(4, 0, ["a parcel with a blank label"])
sheet.write(5, 1, "billing")
book.close()

rows = python_calamine.load_workbook("rows.xlsx").get_sheet_by_index(0).to_python()
print(rows)
assert [row[1] for row in rows] == ["label", "", "", "", "", "billing"], "calamine behaves otherwise now"
PYTHON
