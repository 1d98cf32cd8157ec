"""Every command line in README.md and docs/ runs, and the generated pages are up to date."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.typed_lines import SHOWN_FILE, arguments_of, typed_lines

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
ADDING = ROOT / "docs" / "adding.md"  # its lines need what it adds
FROM_HUB = re.compile(
    r"task=(sst2|amazon_polarity|wikipedia)|dataset=(sst2|wikipedia|hub)|experiment=(sst2|notebook_sst2|pretrain_mini)|google-bert"
    r"|tokenizer=(?!pretrained tokenizer\.name=mini-en)"
)
FROM_GLUE = re.compile(r"task=(cola|mrpc|stsb|qqp|mnli|qnli|rte|wnli)\b")

WITH_LINES = [page for page in PAGES if typed_lines(page) and page != ADDING]
OF_GLUE = {page for page in WITH_LINES if any(FROM_GLUE.search(line) for line in typed_lines(page))}
OF_HUB = {page for page in WITH_LINES if any(FROM_HUB.search(line) for line in typed_lines(page))}


def typed(pages, folder, **environment):
    """Run each page's lines and return by page what went wrong, or None."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "typed_lines.py"), *map(str, pages)],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "2"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(zip(pages, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.fixture(scope="module")
def without_hub(tmp_path_factory, built_in_cache):
    return typed(
        [page for page in WITH_LINES if page not in OF_HUB | OF_GLUE],
        tmp_path_factory.mktemp("pages"),
        ENCODERLAB_CACHE=str(built_in_cache),
    )


@pytest.fixture(scope="module")
def with_hub(tmp_path_factory, built_in_cache, hub):
    folder = tmp_path_factory.mktemp("pages_of_hub")
    return typed(
        sorted(OF_HUB), folder, ENCODERLAB_CACHE=str(built_in_cache), HF_ENDPOINT=hub, HF_HOME=str(folder / "hub")
    )


@pytest.fixture(scope="module")
def with_glue(tmp_path_factory, built_in_cache, glue_hub):
    folder = tmp_path_factory.mktemp("pages_of_glue")
    return typed(
        sorted(OF_GLUE), folder, ENCODERLAB_CACHE=str(built_in_cache), HF_ENDPOINT=glue_hub, HF_HOME=str(folder / "hub")
    )


def test_no_page_needs_two_hubs():
    assert not OF_GLUE & OF_HUB


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_LINES, ids=lambda page: page.name)
def test_every_command_line_of_a_page_runs(page, request):
    failed = request.getfixturevalue(
        "with_glue" if page in OF_GLUE else "with_hub" if page in OF_HUB else "without_hub"
    )[page]
    assert failed is None, failed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_line_begins_with_a_known_command(page):
    for line in typed_lines(page):
        arguments_of(line)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    assert [target for target in links_of(page) if not target.exists()] == []


def test_every_page_is_reached_from_the_readme():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for page in [*PAGES[1:], ROOT / "docs" / "from_attention_to_training.ipynb"]:
        assert f"docs/{page.name}" in text, page.name


def links_of(page):
    """Return the project's files that a page links to."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    targets = {
        target.partition("#")[0]
        for target in re.findall(r"\]\(([^)]+)\)", text)
        if not target.startswith(("https://", "#"))
    }
    return {(page.parent / target).resolve() for target in targets}


@pytest.mark.parametrize("code", ["model/attention.py", "model/encoder.py", "training/loop.py"])
def test_the_readme_leads_to_the_code_readers_look_for(code):
    assert ROOT / "src" / "encoderlab" / code in links_of(ROOT / "README.md")


def test_the_settings_page_is_up_to_date():
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "settings_page")], capture_output=True, text=True, check=True
    )
    assert (ROOT / "docs" / "settings.md").read_text(encoding="utf-8") == done.stdout, (
        "run scripts/settings_page > docs/settings.md"
    )


@pytest.mark.slow
def test_the_notebook_runs_from_top_to_bottom(tmp_path, built_in_cache):
    cells = json.loads((ROOT / "docs" / "from_attention_to_training.ipynb").read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    short = "import encoderlab as e, functools as f; whole = e.compose\n"
    short += "e.compose = lambda *settings: whole(*settings, 'training.steps=2', 'dataset.limit=200')\n"
    (tmp_path / "cells.py").write_text(short + "\n".join(code), encoding="utf-8")
    environment = os.environ | {"ENCODERLAB_CACHE": str(built_in_cache), "MPLBACKEND": "agg"}
    done = subprocess.run(
        [sys.executable, "cells.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "largest difference: " in done.stdout


@pytest.mark.slow
def test_the_python_page_runs_from_top_to_bottom(tmp_path):
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    short = (
        "import encoderlab.api as api; whole, shorter = api.compose, ('training.steps=2', 'training.batch_size=8')\n"
    )
    short += "api.compose = lambda *settings, **command: whole(*settings, *shorter, **command)\n"
    short += "from tests.typed_lines import make_files; make_files()\n"
    (tmp_path / "page.py").write_text(
        short + "".join(re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    )
    environment = os.environ | {"ENCODERLAB_CACHE": str(tmp_path / "cache"), "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    done = subprocess.run(
        [sys.executable, "page.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "['five' 'one']" in done.stdout and "learning_rate" in done.stdout


@pytest.mark.slow
def test_the_worked_examples_apply_to_the_project_and_run(tmp_path, built_in_cache):
    copy = tmp_path / "project"
    for folder in ("src", "configs"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    text = ADDING.read_text(encoding="utf-8")
    for name, content in SHOWN_FILE.findall(text):
        (copy / name).write_text(content, encoding="utf-8")
    for change in re.findall(r"^```diff\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        apply(change, copy)
    work = tmp_path / "work"
    work.mkdir()
    failed = typed([ADDING], work, ENCODERLAB_CACHE=str(built_in_cache), PYTHONPATH=str(copy / "src"))[ADDING]
    assert failed is None, failed
    assert (work / "adding" / "outputs" / "swiglu" / "report.json").exists()


def apply(change, project):
    """Apply each hunk at the one place where its old lines occur."""
    for target, hunks in re.findall(r"^\+\+\+ b/(\S+)\n(.*?)(?=^--- |\Z)", change, re.MULTILINE | re.DOTALL):
        text = (project / target).read_text(encoding="utf-8")
        for hunk in re.split(r"^@@.*@@\n", hunks, flags=re.MULTILINE)[1:]:
            lines = [
                line if line.strip() else " \n" for line in hunk.splitlines(keepends=True)
            ]  # editors trim blank lines
            old, new = ("".join(line[1:] for line in lines if line[0] != other) for other in "+-")
            assert text.count(old) == 1, f"{target} has {text.count(old)} places for\n{old}"
            text = text.replace(old, new)
        (project / target).write_text(text, encoding="utf-8")
