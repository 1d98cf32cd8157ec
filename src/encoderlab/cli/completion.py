"""encoderlab completion: the script for a shell, and the candidates that this script asks for, as the shell reads them."""

from __future__ import annotations

import io
import re
import shlex
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from encoderlab.cli.candidates import SHELLS, Candidate, candidates
from encoderlab.errors import SettingError

USAGE = """encoderlab completion: complete commands, settings, their values and paths with TAB

usage: encoderlab completion SHELL

  eval "$(encoderlab completion bash)"     for bash: add this line to ~/.bashrc
  eval "$(encoderlab completion zsh)"      for zsh: add this line to ~/.zshrc, below compinit
  encoderlab completion fish | source      for fish: add this line to ~/.config/fish/config.fish"""
BASH = r"""_encoderlab() {
    local candidate
    COMPREPLY=()
    while IFS= read -r candidate; do
        COMPREPLY+=("$candidate")
    done < <("${1/#\~/$HOME}" completion bash "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null)
}
complete -o nospace -o default -F _encoderlab encoderlab"""
ZSH = r"""#compdef encoderlab
_encoderlab() {
    local line word help
    local -a finished finished_shown unfinished unfinished_shown
    for line in ${(f)"$(${~words[1]} completion zsh "${(j: :)words[1,CURRENT-1]} $PREFIX" 2>/dev/null)"}; do
        word=${line%%$'\t'*}
        help=${line#*$'\t'}
        if [[ $word == *[=./] ]]; then
            unfinished+=("$word")
            unfinished_shown+=("$word${help:+  -- $help}")
        else
            finished+=("$word")
            finished_shown+=("$word${help:+  -- $help}")
        fi
    done
    compadd -l -d finished_shown -- $finished
    compadd -l -S '' -d unfinished_shown -- $unfinished
}
if [[ $funcstack[1] == _encoderlab ]]; then
    _encoderlab
else
    compdef _encoderlab encoderlab
fi"""
FISH = r"""function __encoderlab_candidates
    set -l words (commandline -opc)
    $words[1] completion fish (commandline -cp | string collect) 2>/dev/null
end
complete -c encoderlab -f -a '(__encoderlab_candidates)'"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
BASH_BREAKS = "=:@"  # characters at which bash may break a word: it replaces only what follows the last one
END = "\0"  # of the line: cannot be typed
LONGEST_HELP = 60  # characters of a line of help beside a candidate


def completion(configs: Path, arguments: list[str]) -> None:
    """Print the script for the shell that `arguments` name, or the candidates for a line, if one follows; configs are
    in `configs`.

    bash also gives the characters at which it breaks words. Raises SettingError for an unknown shell.
    """
    shell, *line = arguments or ["--help"]
    if shell in ("--help", "-h"):
        print(USAGE)
    elif shell not in SCRIPTS:
        raise SettingError(
            f"No completion for {shell}", allowed=", ".join(SHELLS), remedy="See encoderlab completion --help"
        )
    elif not line:
        print(SCRIPTS[shell])
    else:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="surrogateescape")  # a file's name may be any bytes
        print(*answer(shell, line[0], "".join(line[1:]), configs), sep="\n")


def answer(shell: str, line: str, breaks: str, configs: Path) -> Iterator[str]:
    """Yield the candidates for the end of a line, as the shell reads them: quoted for bash, with their help for zsh and
    fish.

    For a word with quotes in it, bash gets none, and completes file names by itself: where it would put a candidate
    depends on the quotes, and in double quotes a file's name could run commands.
    """
    words, quoted = words_of(line)
    if shell == "bash" and (quoted or re.search(r"""["'](?:\\.|[^\s\\])*$""", line)):
        return iter(())
    found = [candidate for candidate in candidates(words, configs) if "\n" not in candidate.word] if words else []
    if shell != "bash":
        return (f"{one.word}\t{textwrap.shorten(one.help, LONGEST_HELP, placeholder=' ...')}" for one in found)
    cut = max((words[-1].rfind(one) + 1 for one in BASH_BREAKS if one in breaks), default=0) if words else 0
    return (_for_bash(one, cut) for one in found)


def _for_bash(candidate: Candidate, cut: int) -> str:
    return re.sub(r"([^\w@%+=:,./~-])", r"\\\1", candidate.word[cut:]) + (
        "" if candidate.word.endswith(("=", ".", "/")) else " "
    )


def words_of(line: str) -> tuple[list[str], bool]:
    """Return the words of a line after the program's name, without their quotes, and whether the last one is in quotes.

    The last word is empty after a blank.
    """
    for closing in ("", "'", '"'):
        try:
            words = shlex.split(f"{line}{END}{closing}")
        except ValueError:  # the line ends in quotes
            continue
        while words and re.match(r"\w+=", words[0]):  # a variable of the environment
            words.pop(0)
        return [word.replace(END, "") for word in words[1:]], bool(closing)
    return [], False
