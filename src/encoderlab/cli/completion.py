"""What TAB completes in a shell: the name of a command, and then, by Hydra, its settings.

eval "$(encoderlab -sc install=bash)"
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from encoderlab.errors import SettingError

FLAGS = {"-sc", "--shell-completion"}
LINE = "COMP_LINE"  # the environment variable in which a shell, by Hydra's functions, hands over what is typed
PROGRAM = "encoderlab"


def complete(arguments: Sequence[str], commands: Sequence[str]) -> None:
    """Print the functions that a shell installs, or what may follow the line in COMP_LINE.

    `arguments` are those of encoderlab, with a flag of FLAGS. Raises SettingError unless they say what to do.
    """
    from encoderlab.config.commands import COMMAND_CONFIGS
    from encoderlab.config.composing import CommandLine, run_hydra

    wishes = [word for word in arguments if word.partition("=")[0] in ("install", "uninstall", "query")]
    if len(wishes) != 1:
        wrong = f"{' '.join(arguments)} does not say what to complete"
        raise SettingError(wrong, allowed=f"{PROGRAM} -sc install=bash, or uninstall=bash")
    command = "train"  # any: the functions are the same for all
    if wishes[0].startswith("query="):
        typed = os.environ.get(LINE, "").split(" ")[1:]
        if len(typed) < 2:
            print(*[name for name in commands if name.startswith("".join(typed))])
            return
        command, *settings = typed
        if command not in COMMAND_CONFIGS:  # `list`, or none
            return
        os.environ[LINE] = " ".join([PROGRAM, *settings])
    run_hydra(CommandLine(command, wishes, ["-sc"]), lambda _: None, PROGRAM)
