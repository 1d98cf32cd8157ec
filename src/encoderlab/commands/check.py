"""encoderlab check: what is installed, and whether train, eval, export and predict work on a few generated rows."""

from __future__ import annotations

import csv
import io
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

from encoderlab.commands.eval import eval
from encoderlab.commands.export import export
from encoderlab.commands.predict import predict
from encoderlab.commands.train import train
from encoderlab.config.command_settings import EvalConfig, ExportConfig, RunConfig
from encoderlab.config.inference_settings import PredictConfig
from encoderlab.config.preparation_settings import CheckConfig
from encoderlab.data.files.files import FilesDataset
from encoderlab.data.tokenizers.config import WordPieceConfig
from encoderlab.errors import TrainingError, UserError, one_line
from encoderlab.model.config import ModelConfig
from encoderlab.runs.folders.folder import RunFolder
from encoderlab.runs.models.assembly import cache_folder
from encoderlab.runs.records.installation import optional_libraries, versions
from encoderlab.system.device import choose_compute
from encoderlab.tasks.config import ClassificationConfig
from encoderlab.training.config import TrainingConfig

LABELS = {"dull": "bad", "fine": "good"}  # the word in a text that decides its label
ROWS, STEPS = 240, 40
LEAST_ACCURACY = 0.9  # on the held-out rows


def check(config: CheckConfig) -> None:
    """Print what is installed, then a line for each command that works. Raises TrainingError at the first failure."""
    compute = choose_compute(config.device, "auto", config.threads, setting="device")
    print(", ".join(f"{name} {found or 'is missing'}" for name, found in versions().items()))
    print(f"device {compute.device}, {compute.threads} threads; cache_dir {_cache(config.cache_dir)}")
    print(_optional())
    with tempfile.TemporaryDirectory(prefix="encoderlab-check-") as folder:
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", f"{folder}/compiler")  # PyTorch creates it on import
        for name, command in _commands(config, Path(folder)).items():
            with _refused_as(name):
                command()
            print(f"ok  {name}", flush=True)
    print("Everything works.")


def _cache(setting: str) -> str:
    """Return the cache folder and whether it, or its nearest parent if it does not exist, is writable. Nothing is
    created.
    """
    folder = cache_folder(setting)
    there = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    return f"{folder} ({'writable' if there.is_dir() and os.access(there, os.W_OK) else 'NOT writable'})"


def _optional() -> str:
    """Return which extras are installed, and the command that installs a missing one."""
    extras = optional_libraries()
    there = [name for name, found in extras.items() if all(found.values())]
    missing = [name for name in extras if name not in there]
    install = f" (pip install 'encoderlab[{missing[0]}]')" if missing else ""
    return f"optional: found {', '.join(there) or 'none'}, not found {', '.join(missing) or 'none'}{install}"


def _commands(config: CheckConfig, folder: Path) -> dict[str, Callable[[], object]]:
    """Return the commands to try, by name and in order; each builds on the previous ones."""
    cache, run, exported = (str(folder / name) for name in ("cache", "run", "exported"))
    texts, answers = folder / "texts.txt", folder / "answers.csv"
    texts.write_text("".join(f"bando {word} kimi deru\n" for word in LABELS), encoding="utf-8")
    here = {"device": config.device, "threads": config.threads}
    evaluation = EvalConfig(cache, run=run, split="validation", run_dir=str(folder / "eval"), **here)

    def trained() -> None:
        train(
            RunConfig(
                cache_dir=cache,
                task=ClassificationConfig(name="check"),
                dataset=FilesDataset(path=str(_rows(folder)), validation_fraction=0.2),
                tokenizer=WordPieceConfig(vocabulary_size=200),
                model=ModelConfig(n_layers=1, d_model=32, n_heads=2, max_length=32),
                training=TrainingConfig(steps=STEPS, batch_size=16, learning_rate=5e-3, **here),
                run_dir=run,
            )
        )

    def evaluated() -> None:
        eval(evaluation)
        report = json.loads(RunFolder(folder / "eval").report.read_text(encoding="utf-8"))
        if (accuracy := report["splits"]["validation"]["accuracy"]) < LEAST_ACCURACY:
            raise TrainingError(f"the model learned too little: its accuracy is {accuracy:.1%}")

    def predicted() -> None:
        predict(PredictConfig(cache, run=exported, input=str(texts), output=str(answers), **here))
        with answers.open(encoding="utf-8", newline="") as file:
            found = [row["predicted"] for row in csv.DictReader(file)]
        if found != [*LABELS.values()]:
            raise TrainingError(f"the exported model predicts {found} instead of {[*LABELS.values()]}")

    return {
        "train": trained,
        "eval": evaluated,
        "export": lambda: export(ExportConfig(cache, run=run, path=exported)),
        "predict": predicted,
    }


def _rows(folder: Path) -> Path:
    """Write a csv file of texts, each containing a word that decides its label; return its path."""
    path, fillers = folder / "rows.csv", [f"{a}{b}" for a in "bdfgklmnpr" for b in ("ando", "eru", "imi")]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for row in range(ROWS):
            word = [*LABELS][row % 2]
            writer.writerow([f"{fillers[row % 29]} {word} {fillers[row % 23]} {fillers[row % 19]}", LABELS[word]])
    return path


@contextmanager
def _refused_as(name: str) -> Iterator[None]:
    """Silence what a command prints, and raise a TrainingError that names it if it fails for any reason."""
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            yield
    except Exception as error:  # anything can be wrong with an installation
        reason = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
        raise TrainingError(f"This installation cannot {name}: {one_line(reason)}") from error
