"""pyproject.toml is the only source of the version: everything else that states one agrees."""

import re
import tomllib
from pathlib import Path

import pytest

import encoderlab
from encoderlab.cli.main import run
from encoderlab.runs.records import installed_version

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def stated():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


def test_the_command_line_prints_it(stated, capsys):
    run(["--version"])
    assert capsys.readouterr().out.strip() == stated, "the environment is out of date: run scripts/setup"


def test_the_package_has_it(stated):
    assert encoderlab.__version__ == stated


def test_saved_runs_record_it(stated):
    assert installed_version("encoderlab") == stated


def test_the_citation_names_it(stated):
    assert f"version: {stated}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_it_is_the_newest_version_in_the_changelog(stated):
    assert (
        re.findall(r"^## \[(\d[^]]*)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)[0] == stated
    )
