"""Run the command lines of documentation pages one after another, as a reader would, in a new folder for each page.

    python tests/typed_lines.py docs/own_data.md docs/first_run.md

Each line runs as it stands, except that fewer rows, fewer steps and a smaller model are appended. The files that pages
mention (reviews.csv, ...) are written first, and so are those that a page shows under their names. A line that fails
ends its page. Standard output gets a JSON line for each page: null, or what went wrong. One process serves many pages,
because loading PyTorch takes longer than most of them.
"""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import sys
import traceback
from contextlib import chdir, redirect_stdout
from pathlib import Path

NOT_OURS = (
    "pip ",
    "scripts/",
    "python -m benchmarks",
    "python -m faults",
    "python3 -m venv",
    "source ",
    "sbatch ",
    "git ",
    "cd ",
    "curl ",
    "export ",
)
ANSWERING = ("serve",)  # go on until they are stopped: their settings are looked at, and tests of their own start them
SHORT = {"training.steps": "2", "training.batch_size": "8", "dataset.limit": "120"}
NARROW = {"model.n_layers": "1", "model.d_model": "16", "model.n_heads": "2"}
SHOWN_FILE = re.compile(r"^`([^`\n]+)`:\n\n```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def typed_lines(page: Path) -> list[str]:
    """Return the lines of the page's fenced blocks without a language: continued ones joined, comments and other
    programs removed.
    """
    blocks = FENCED.findall(page.read_text(encoding="utf-8"))
    lines = [
        line.strip() for language, block in blocks if not language for line in block.replace("\\\n", " ").splitlines()
    ]
    return [line for line in lines if line and not line.startswith(("#", *NOT_OURS))]


def arguments_of(line: str) -> tuple[list[str], str | None]:
    """Return what follows `encoderlab` (or torchrun's `-m encoderlab`) in a line, and the file it reads as standard
    input.
    """
    words = shlex.split(line, comments=True)
    if words[0] == "torchrun":
        words = words[words.index("-m") + 1 :]
    assert words[0] == "encoderlab", f"neither a command of ours nor a known one: {line}"
    source = words[words.index("<") + 1] if "<" in words else None
    return words[1 : words.index("<") if "<" in words else None], source


def shortened(arguments: list[str]) -> list[str]:
    """Return the arguments for a run of seconds: added ones come last, and so override the typed ones."""
    starts = [command for command in ("train", "pretrain", "finetune", "distill") if command in arguments[:2]]
    flags = {"--help", "--cfg"} & set(arguments)
    if not starts or flags or any(argument.startswith("resume=outputs") for argument in arguments):
        return arguments
    kept = [argument for argument in arguments if not argument.startswith("training.budget=")]
    typed = {argument.partition("=")[0] for argument in arguments}
    given = "finetune" in starts or {"model=as_pretrained", "init_from=mini-en"} & set(arguments)
    added = SHORT | ({} if given else NARROW)
    if "dataset.streaming=true" in arguments:  # a stream has no limit
        added = {name: value for name, value in added.items() if name != "dataset.limit"}
    swept = {"-m", "--multirun"} & set(arguments) or arguments[0] == "search"
    return kept + [f"{name}={value}" for name, value in added.items() if not (swept and name in typed)]


def make_files() -> None:
    """Write the files that pages mention."""
    good, bad = ("a gorgeous witty film", "warm and wise"), ("a dull empty mess", "cold and long")
    rows = [
        (f"{(good, bad)[n % 2][n // 2 % 2]}, number {n}", ("five", "one")[n % 2], f"about film {n}") for n in range(120)
    ]
    for name, some in {
        "reviews.csv": rows,
        "train.csv": rows[:80],
        "test.csv": rows[80:],
        "more_reviews.csv": rows[40:],
    }.items():
        with Path(name).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("review", "stars", "title"), *some])
    with Path("new.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("review",), *[(text,) for text, _, _ in rows[:7]]])
    Path("texts.txt").write_text("".join(f"{text}\n" for text, _, _ in rows[:7]), encoding="utf-8")
    sentence = "The {} sentence of document {} says nothing that matters."
    documents = [
        "\n".join(" ".join(sentence.format(w, n) for w in ("first", "second", "third")) for _ in "ab")
        for n in range(40)
    ]
    Path("articles.txt").write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    topics = [("sun and rain all day", "weather"), ("a goal in the rain", "sport|weather"), ("nothing to report", "")]
    pairs = [
        ("a man plays a guitar", "a man plays music", 4.2),
        ("a dog runs", "a car stops", 1.1),
        ("they sing", "people sing", 4.6),
    ]
    long = [("rain fell and the wind rose " * 30, "weather"), ("they ran and a goal was shot " * 30, "sport")]
    tables = {
        "topics.csv": (("text", "topics"), topics),
        "pairs.csv": (("first", "second", "score"), pairs),
        "articles.csv": (("text", "section"), long),
    }
    for name, (head, some) in tables.items():
        with Path(name).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([head, *((f"{row[0]}, day {n}", *row[1:]) for n in range(40) for row in some)])
    words = "".join(f"Anna\tB-PERSON\nSmith\tI-PERSON\nsaw\tO\nBerlin\tB-PLACE\n{n}\tO\n\n" for n in range(60))
    Path("names.conll").write_text(words, encoding="utf-8")
    treebank = "".join(f"1\tAnna\tAnna\tPROPN\n2\tsaw\tsee\tVERB\n3\t{n}\t{n}\tNUM\n\n" for n in range(60))
    Path("treebank.conllu").write_text(treebank, encoding="utf-8")


def outcome(page: Path) -> str | None:
    """Run the lines of a page and return the error of the first that fails, or None."""
    from encoderlab.cli import main as cli

    make_files()
    for name, content in SHOWN_FILE.findall(page.read_text(encoding="utf-8")):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(content, encoding="utf-8")
    for line in typed_lines(page):
        arguments, source = arguments_of(line)
        arguments = shortened(arguments)
        if arguments[0] in ANSWERING:
            arguments += ["--cfg", "job"]
        sys.stdin = io.TextIOWrapper(io.BytesIO(Path(source).read_bytes() if source else b""))
        try:
            with redirect_stdout(sys.stderr):
                cli.run(arguments)
        except Exception:
            return f"$ encoderlab {shlex.join(arguments)}\n{traceback.format_exc()}"
    return None


def main(pages: list[Path]) -> None:
    """Run the lines of each page in a subfolder named after it."""
    for page in pages:
        Path(page.stem).mkdir()
        with chdir(page.stem):
            failure = outcome(page)
        print(json.dumps(failure), flush=True)
        if failure is None:  # the weights of all pages' runs are 9 GB
            for weights in [*Path(page.stem).rglob("*.safetensors"), *Path(page.stem).rglob("*.pt")]:
                weights.unlink()


if __name__ == "__main__":
    main([Path(name).resolve() for name in sys.argv[1:]])
