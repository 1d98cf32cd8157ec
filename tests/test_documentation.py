"""Every command line of README.md and docs/ runs, every link leads somewhere, and the page of settings is up to date."""

import csv
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from encoderlab.cli import main as cli
from encoderlab.tables.formats import KINDS, Format

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN_FILE = re.compile(r"^`([^`\n]+)`:\n\n```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL)
OF_HUB = re.compile(
    r"task=(sst2|amazon_polarity|wikipedia|cola|rte|mnli)|dataset=(wikipedia|hub)|google-bert|owner/name"
)
SHORT = {"baselines": "false", "training.steps": "2", "training.batch_size": "8", "dataset.limit": "120"}
NARROW = {"model.n_layers": "1", "model.d_model": "16", "model.n_heads": "2"}


def command_lines(page):
    """Return our command lines in a page's blocks without a language, with continued ones joined."""
    blocks = [block for language, block in FENCED.findall(page.read_text(encoding="utf-8")) if not language]
    lines = [line.strip() for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [line for line in lines if line.startswith(("encoderlab ", "torchrun "))]


def python_blocks(page):
    return [block for language, block in FENCED.findall(page.read_text(encoding="utf-8")) if language == "python"]


def shortened(line):
    """Return the arguments for a run of seconds, and the file that is standard input; what needs a hub is composed."""
    words = shlex.split(line, comments=True)
    words = words[words.index("encoderlab") + 1 :]
    source = words[words.index("<") + 1] if "<" in words else None
    words = words[: words.index("<") if "<" in words else None]
    words = [
        word.split(",")[0] if OF_HUB.search(line) and word.startswith(("task=", "seed=")) else word for word in words
    ]
    if words[0] in ("serve", "label") or OF_HUB.search(line):
        return [*(word for word in words if word != "-m"), "--cfg", "job"], None
    starts = words[0] in ("train", "pretrain", "finetune", "distill") and not {"--help", "--cfg"} & {*words}
    if not starts or any(word.startswith("resume=outputs") for word in words):
        return words, source
    pretrained = words[0] == "finetune" or {"model=as_pretrained", "init_from=mini-en"} & {*words}
    added = SHORT | ({} if pretrained else NARROW)
    if "dataset.streaming=true" in words:  # a stream has no limit
        del added["dataset.limit"]
    names = {word.partition("=")[0] for word in words}
    kept = [word for word in words if not word.startswith("training.budget=")]
    swept = "-m" in words
    return kept + [f"{name}={value}" for name, value in added.items() if not (swept and name in names)], source


def write_files():
    """Write the files that pages mention."""
    good, bad = ("a gorgeous witty film", "warm and wise"), ("a dull empty mess", "cold and long")
    rows = [(f"{(good, bad)[n % 2][n // 2 % 2]}, number {n}", ("5", "1")[n % 2], f"about film {n}") for n in range(120)]
    topics = [("sun and rain all day", "weather"), ("a goal in the rain", "sport|weather"), ("nothing to report", "")]
    pairs = [("a man plays a guitar", "a man plays music", 4.2), ("a dog runs", "a car stops", 1.1)]
    long = [("rain fell and the wind rose " * 30, "weather"), ("they ran and a goal was shot " * 30, "sport")]
    tables = {
        "reviews.csv": [("review", "stars", "title"), *rows],
        "more_reviews.csv": [("review", "stars", "title"), *rows[40:]],
        "train.csv": [("review", "stars", "title"), *rows[:80]],
        "test.csv": [("review", "stars", "title"), *rows[80:]],
        "questions.csv": [("question", "intent"), *[(text, of) for text, of, _ in rows]],
        "new.csv": [("review",), *[(text,) for text, *_ in rows[:25]]],
        "topics.csv": [("text", "topics"), *[(f"{text}, day {n}", of) for n in range(40) for text, of in topics]],
        "pairs.csv": [("first", "second", "score"), *[(f"{a} {n}", b, of) for n in range(40) for a, b, of in pairs]],
        "articles.csv": [("text", "section"), *[(f"{text} {n}", of) for n in range(40) for text, of in long]],
    }
    for name, lines in tables.items():
        with Path(name).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(lines)
    Path("texts.txt").write_text("".join(f"{text}\n" for text, *_ in rows[:7]), encoding="utf-8")
    said = "The {} sentence of document {} says nothing that matters."
    documents = [" ".join(said.format(word, n) for word in ("first", "second", "third")) for n in range(80)]
    Path("articles.txt").write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    names = "".join(f"Anna\tB-PERSON\nSmith\tI-PERSON\nsaw\tO\nBerlin\tB-PLACE\n{n}\tO\n\n" for n in range(60))
    Path("names.conll").write_text(names, encoding="utf-8")


@pytest.mark.slow
@pytest.mark.usefixtures("symbolic_sizes")  # an export to ONNX traces the model
@pytest.mark.parametrize("page", [page for page in PAGES if command_lines(page)], ids=lambda page: page.name)
def test_every_command_line_of_a_page_runs(page, tmp_path, monkeypatch, cache):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENCODERLAB_CACHE", str(cache))
    write_files()
    for name, content in SHOWN_FILE.findall(page.read_text(encoding="utf-8")):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(content, encoding="utf-8")
    for line in command_lines(page):
        arguments, source = shortened(line)
        stdin = io.TextIOWrapper(io.BytesIO(Path(source).read_bytes() if source else b""))
        monkeypatch.setattr(sys, "stdin", stdin)
        try:
            cli.run(arguments)
        except Exception as error:
            raise AssertionError(f"encoderlab {shlex.join(arguments)}") from error
    if page.name == "README.md":  # its Python opens what its commands have trained
        for block in python_blocks(page):
            exec(block, {})  # noqa: S102


@pytest.mark.slow
def test_the_python_of_the_page_on_deploying_runs(tmp_path, cache):
    code = "".join(python_blocks(ROOT / "docs" / "deploy.md"))
    write = "from tests.test_documentation import write_files; write_files()\n"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "ENCODERLAB_CACHE": str(cache)}
    command = [sys.executable, "-c", write + code]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.slow
def test_the_change_on_the_page_on_extending_can_be_applied_and_trains(tmp_path, cache):
    for folder in ("src", "configs"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    blocks = FENCED.findall(_page("extend"))
    (change,) = (block for language, block in blocks if language == "diff")
    applied = subprocess.run(["git", "apply"], cwd=tmp_path, input=change, capture_output=True, text=True, check=False)
    assert applied.returncode == 0, applied.stderr
    model = next(block for language, block in blocks if language == "yaml" and "swiglu" in block)
    (tmp_path / "configs" / "model" / "modern_swiglu.yaml").write_text(model, encoding="utf-8")
    line = ["train", "model=modern_swiglu", "task=brackets", "run_dir=run"]
    line += [f"{name}={value}" for name, value in (SHORT | NARROW).items()]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src"), "ENCODERLAB_CACHE": str(cache)}
    command = [sys.executable, "-m", "encoderlab", *line]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "activation: swiglu" in (tmp_path / "run" / "config.yaml").read_text(encoding="utf-8")


def _page(name):
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", [*PAGES, *ROOT.glob("[A-Z]*.md"), *ROOT.glob("benchmarks/**/*.md")], ids=str)
def test_every_link_leads_somewhere(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    targets = {target.partition("#")[0] for target in re.findall(r"\]\(([^)]+)\)", text) if "://" not in target}
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_every_measurement_that_code_and_configs_cite_is_on_a_page_of_the_index():
    index = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    pages = {page.name for page in (ROOT / "benchmarks" / "results").glob("*.md")}
    assert {name for name in pages if f"results/{name}" not in index} == set()
    for path in [*ROOT.glob("src/**/*.py"), *ROOT.glob("configs/**/*.yaml"), *ROOT.glob("benchmarks/*.py")]:
        cited = set(re.findall(r"results/(\w+\.md)", path.read_text(encoding="utf-8")))
        assert cited <= pages, path


def test_the_pages_are_short_and_found_from_the_readme():
    words = {page.name: len(page.read_text(encoding="utf-8").split()) for page in PAGES}
    assert words["README.md"] <= 900
    guides = [name for name in words if name not in ("README.md", "settings.md")]
    assert len(guides) <= 10 and sum(words[name] for name in guides) <= 10_000
    index = (ROOT / "README.md").read_text(encoding="utf-8") + _page("train_on_your_data")
    assert [name for name in guides if name not in index] == []


def test_the_table_of_formats_has_what_is_read():
    page = (ROOT / "docs" / "train_on_your_data.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|((?: \.\w+)*) \| (\S+) \| \S.* \|$", page, re.MULTILINE)
    assert [(name, tuple(endings.split()), library) for name, endings, library in rows] == [
        (kind.format.value, kind.suffixes, kind.library) for kind in KINDS
    ]
    assert {kind.format for kind in KINDS} == {*Format} - {Format.auto}


def test_the_page_of_settings_is_up_to_date():
    script = [sys.executable, str(ROOT / "scripts" / "settings_page")]
    done = subprocess.run(script, capture_output=True, text=True, check=True)
    assert _page("settings") == done.stdout, "run scripts/settings_page > docs/settings.md"


@pytest.mark.slow
def test_the_months_script_keeps_the_old_model_where_the_new_one_is_worse(tmp_path, monkeypatch, cache):
    monkeypatch.chdir(tmp_path)
    write_files()
    shown = dict(SHOWN_FILE.findall(_page("deploy")))
    Path("monthly.sh").write_text(shown["monthly.sh"], encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "ENCODERLAB_CACHE": str(cache), "PATH": path}

    def run(*command):
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    data = ("dataset=files", "dataset.path=train.csv", "dataset.text=review", "dataset.label=stars")
    first = run("encoderlab", "finetune", "task=classification", *data, "training.steps=20", "run_dir=runs/first")
    assert first.returncode == 0, first.stderr
    Path("current").symlink_to("runs/first")

    # Someone has swapped the labels: the new model is worse on the same rows, and nothing is put in its place.
    good = Path("reviews.csv").read_text(encoding="utf-8")
    Path("reviews.csv").write_text(good.translate(str.maketrans({"5": "1", "1": "5"})), encoding="utf-8")
    worse = run("sh", "monthly.sh")
    assert worse.returncode == 1 and "allowed_drop=0.01" in worse.stderr
    assert Path("current").readlink() == Path("runs/first") and not Path("previous").exists()

    # With the right labels it takes the old one's place, which is kept to roll back to.
    Path("reviews.csv").write_text(good, encoding="utf-8")
    Path("monthly.sh").write_text(shown["monthly.sh"].replace("%d", "%d-again"), encoding="utf-8")
    better = run("sh", "monthly.sh")
    assert better.returncode == 0, better.stderr
    assert Path("current").readlink().name.endswith("-again") and Path("previous").readlink() == Path("runs/first")
