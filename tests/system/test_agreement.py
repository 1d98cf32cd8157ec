"""Processes that differ are refused with a line that names the machine, the same in every process."""

import pytest

from encoderlab.errors import DataError
from encoderlab.system.processes import SINGLE_PROCESS, check_agreement
from tests.torchrun import torchrun

SCRIPT = """
import sys
from encoderlab.errors import DataError
from encoderlab.system.processes import check_agreement
from encoderlab.system.processes import join, placed
processes = join(placed())
check_agreement(processes, {"threads": 1, "train.batch_size": 8}, "Never said.")
note = open(f"{processes.rank}.txt", "w")
try:
    check_agreement(processes, {"rows": 7, "labels": 2 if processes.rank == 0 else "y" * 99}, "Mend it.", DataError)
except DataError as error:
    print(error, file=note)
note.close()
processes.leave()
processes.end(0)
"""


@pytest.mark.slow
def test_all_processes_name_the_first_difference(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    code, _, errors = torchrun(3, "script.py", folder=tmp_path)
    assert code == 0, "\n".join(errors)
    messages = [(tmp_path / f"{rank}.txt").read_text() for rank in range(3)]
    assert messages[0] == messages[1] == messages[2]
    assert f"(processes 1 and 2 of 3) has labels {'y' * 60}..., and " in messages[0]
    assert messages[0].endswith(" 2. Mend it.\n")


def test_one_process_agrees_with_itself():
    check_agreement(SINGLE_PROCESS, {"threads": 1}, "", DataError)
