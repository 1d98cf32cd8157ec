"""A trial of a workbook in a process of its own, whose memory is limited.

python-calamine makes a grid as large as the farthest cell of a sheet, and ends its process if there is no memory for
it. The XML of xlsx files is looked at before (xlsx_parts.py); the other formats are tried.
"""

from __future__ import annotations

import subprocess
import sys
from functools import lru_cache
from pathlib import Path

from encoderlab.errors import DataError

_MOST = 2**32  # bytes: a grid of 100 million cells
_TRIAL = """
import sys
import python_calamine
try:
    import resource
except ImportError:  # Windows
    sys.exit()
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]),) * 2)
try:
    with python_calamine.load_workbook(sys.argv[1]) as book:
        for name in book.sheet_names:
            book.get_sheet_by_name(name)
except (python_calamine.CalamineError, OSError):  # which the reader of the file explains
    pass
"""


def refuse_without_memory(path: Path) -> None:
    """Raise DataError for a workbook whose sheets take more memory than one that a person has made."""
    stat = path.stat()
    if not _fits(path, stat.st_size, stat.st_mtime_ns):
        problem = f"{path} is damaged, or has cells so far apart that its sheets take more than {_MOST / 1e9:.1f} GB"
        raise DataError(problem, remedy="Delete the rows and columns between them, or save it as csv")


@lru_cache(maxsize=64)  # a workbook is opened several times
def _fits(path: Path, size: int, modified: int) -> bool:  # noqa: ARG001
    tried = subprocess.run([sys.executable, "-c", _TRIAL, str(path), str(_MOST)], capture_output=True, check=False)
    return tried.returncode == 0
