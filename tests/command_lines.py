"""Runs command lines one after another in one process, in the folder it is started in: loading PyTorch takes longer than a tiny run.

    echo '["train", "task=brackets"]' | python tests/command_lines.py

Standard input has a line for each, as JSON; standard output gets one for each, null or what went wrong, and then the next is run.
"""

import json
import sys
import traceback
from contextlib import redirect_stdout


def outcome(arguments: list[str]) -> str | None:
    """Run a command; what it fails with, None where it does not."""
    from encoderlab.cli import main as cli

    try:
        with redirect_stdout(sys.stderr):
            cli.run(arguments)
    except Exception:
        return traceback.format_exc()
    return None


if __name__ == "__main__":
    for line in sys.stdin.read().splitlines():
        print(json.dumps(outcome(json.loads(line))), flush=True)
