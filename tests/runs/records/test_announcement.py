"""What a run prints before it begins."""

from encoderlab.runs.records.announcement import announce


def test_each_line_begins_with_a_capital_letter_and_goes_to_standard_error(capsys):
    announce(["device cpu", "7 epochs"])
    assert capsys.readouterr() == ("", "Device cpu\n7 epochs\n")
