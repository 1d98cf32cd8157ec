"""Run command lines one after another in one process, in the current folder: loading PyTorch takes longer than a tiny
run.

    echo '["train", "task=brackets"]' | python tests/command_lines.py

Standard input has one JSON line per command; after each, standard output gets a line: null or what went wrong.
"""

import json
import sys
import traceback
from contextlib import redirect_stdout


def outcome(arguments: list[str]) -> str | None:
    """Run a command and return its error, or None if it succeeds."""
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
