"""The scripts for shells, and the answers to them: quoted as each shell needs it, and the same in a real bash."""

import os
import shutil
import subprocess
import sys

import pytest

from encoderlab.cli.completion import SCRIPTS, answer, completion, words_of
from encoderlab.cli.main import config_folder, run
from encoderlab.errors import SettingError

BREAKS = " \t\n\"'@><=;|&(:"  # of bash, unless the user changes them


@pytest.fixture
def folder(tmp_path, tmp_path_factory, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENCODERLAB_CACHE", str(tmp_path_factory.getbasetemp() / "completion_cache"))
    (tmp_path / "a run (1)").mkdir()
    (tmp_path / "a=b:c").mkdir()
    (tmp_path / "what is new.csv").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("line", "words", "quoted"),
    [
        ("encoderlab", [], False),
        ("encoderlab tr", ["tr"], False),
        ("encoderlab train ", ["train", ""], False),
        ("bin/encoderlab  train\tseed=1", ["train", "seed=1"], False),
        ("OMP_NUM_THREADS=1 encoderlab train", ["train"], False),
        (r"encoderlab predict run=a\ r", ["predict", "run=a r"], False),
        ("encoderlab predict run='a r", ["predict", "run=a r"], True),
        ('encoderlab predict run="a r', ["predict", "run=a r"], True),
        ("encoderlab predict text='It''s' ", ["predict", "text=Its", ""], False),
        ("encoderlab predict run=a\\", ["predict", "run=a"], False),
    ],
)
def test_a_line_is_split_as_a_shell_splits_it(line, words, quoted):
    assert words_of(line) == (words, quoted)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("encoderlab tr", ["train "]),
        ("encoderlab train training.lea", ["training.learning_rate="]),
        ("encoderlab train task=ss", ["sst2 "]),
        ("encoderlab predict run=a\\ r", ["a\\ run\\ \\(1\\)/"]),
        ("encoderlab predict run='a r", []),
        ('encoderlab predict "run=a r', []),
        ('encoderlab predict run="a run (1)/"', []),
        ("encoderlab predict run='a run'\\ ", []),
        ("encoderlab predict text='It is' input=wh", ["what\\ is\\ new.csv "]),
        ("encoderlab predict input=wh", ["what\\ is\\ new.csv "]),
        ("encoderlab predict run=a=", ["b:c/"]),
        ("encoderlab predict run=a=b:", ["c/"]),
        ("encoderlab", []),
    ],
)
def test_bash_gets_the_replacement_for_the_last_part_of_a_word(folder, line, expected):
    assert [*answer("bash", line, BREAKS, config_folder())] == expected


def test_bash_without_word_breaks_at_equals_signs_gets_whole_words(folder):
    assert [*answer("bash", "encoderlab train task=ss", " \t\n", config_folder())] == ["task=sst2 "]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_zsh_and_fish_get_whole_words_with_a_line_of_help(folder, shell):
    assert [*answer(shell, "encoderlab tr", "", config_folder())] == ["train\tTrain an encoder and report its scores."]
    assert [*answer(shell, "encoderlab predict input=wh", "", config_folder())] == ["input=what is new.csv\t"]


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_script_for_a_shell_names_that_shell(shell, capsys):
    run(["completion", shell])
    printed = capsys.readouterr().out
    assert f"completion {shell}" in printed
    assert printed == SCRIPTS[shell] + "\n"


def test_without_a_shell_the_ways_to_install_are_shown_and_another_shell_is_refused(capsys):
    completion(config_folder(), [])
    shown = capsys.readouterr().out
    assert all(f"encoderlab completion {shell}" in shown for shell in SCRIPTS)
    with pytest.raises(SettingError, match=r"No completion for tcsh\. Allowed: bash, zsh, fish\."):
        completion(config_folder(), ["tcsh"])


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_a_real_bash_completes_lines(folder):
    program = folder / "bin" / "encoderlab"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m encoderlab "$@"\n')
    program.chmod(0o755)
    script = """
    eval "$(encoderlab completion bash)"
    complete -p encoderlab
    for COMP_LINE in 'encoderlab tr' 'encoderlab train task=ss' 'encoderlab predict run=a\\ r'; do
        COMP_POINT=${#COMP_LINE}
        _encoderlab encoderlab
        printf '[%s]' "${COMPREPLY[@]}"
    done
    """
    environment = os.environ | {"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert done.stderr == ""
    assert (
        done.stdout == "complete -o default -o nospace -F _encoderlab encoderlab\n[train ][sst2 ][a\\ run\\ \\(1\\)/]"
    )
