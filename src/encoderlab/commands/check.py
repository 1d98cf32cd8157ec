"""encoderlab check: the other commands themselves, tried on generated rows: training, resuming, scoring, predicting, exporting."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch

from encoderlab.commands.eval import eval
from encoderlab.commands.export import export
from encoderlab.commands.finetune import finetune
from encoderlab.commands.predict import predict
from encoderlab.commands.pretrain import pretrain
from encoderlab.commands.train import train
from encoderlab.config.as_pretrained import AsPretrained
from encoderlab.config.command_settings import (
    EvalConfig,
    ExportConfig,
    FinetuneConfig,
    OpenRunConfig,
    PredictConfig,
    PretrainConfig,
    RunConfig,
)
from encoderlab.config.preparation_settings import CheckConfig
from encoderlab.data.examples import TextExample
from encoderlab.data.files.files import FilesDataset
from encoderlab.data.tokenizers.config import AsPretrainedTokenizer, WordPieceConfig
from encoderlab.errors import TrainingError, UserError, one_line
from encoderlab.model.config import ModelConfig
from encoderlab.runs.folders.folder import RunFolder
from encoderlab.runs.inference.inputs import encoded_rows
from encoderlab.runs.inspection.verification import findings
from encoderlab.runs.models.assembly import cache_folder, reopen
from encoderlab.runs.records.installation import optional_libraries, versions
from encoderlab.system.device import choose_compute
from encoderlab.tasks.config import ClassificationConfig, PretrainingConfig
from encoderlab.training.checkpoint import checkpoints, step_of
from encoderlab.training.config import Precision, TrainingConfig

STEPS, HALF, ROWS = 40, 20, 240
LEAST_RIGHT = 0.9  # of held-out rows that one word decides
LARGEST_DIFFERENCE = 1e-4  # between two programs' logits in float32
COMPILER_FOLDER = "TORCHINDUCTOR_CACHE_DIR"  # an environment variable of PyTorch's
MODEL: dict[str, Any] = {"n_layers": 1, "d_model": 32, "n_heads": 2, "max_length": 32}


class _WrongError(Exception):
    """A step ran to its end, and what came out is not what it should be."""


def check(config: CheckConfig) -> None:
    """Print what is installed, and a line for each step. Raises TrainingError where one failed, SettingError."""
    compute = choose_compute(config.device, "auto", config.threads, setting="device")
    print(", ".join(f"{name} {found or 'is missing'}" for name, found in versions().items()))
    print(f"device {compute.device}, {compute.threads} threads; cache_dir {_cache(config.cache_dir)}")
    print(_optional())
    with tempfile.TemporaryDirectory(prefix="encoderlab-check-") as folder, _compiler_within(Path(folder)):
        failed = _Trial(config, Path(folder), on_gpu=compute.device.type == "cuda").failed()
    if failed:
        raise TrainingError(f"This installation cannot {', '.join(failed)}", remedy="The lines above say what went wrong")
    print("All of it works.")


@contextmanager
def _compiler_within(folder: Path) -> Iterator[None]:
    """Have PyTorch's compiler, which makes a folder of its own as soon as it is imported, make it in there."""
    before = os.environ.get(COMPILER_FOLDER)
    os.environ[COMPILER_FOLDER] = str(folder / "compiler")
    try:
        yield
    finally:
        os.environ.pop(COMPILER_FOLDER)
        os.environ |= {} if before is None else {COMPILER_FOLDER: before}


def _cache(setting: str) -> str:
    """The cache folder, and whether it can be written to: it, or the folder that it would be made in. It is not made here."""
    folder = cache_folder(setting)
    there = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    return f"{folder} ({'can' if there.is_dir() and os.access(there, os.W_OK) else 'CANNOT'} be written to)"


def _optional() -> str:
    """Which extras are there, and what installs the others."""
    extras = optional_libraries()
    there = [name for name, found in extras.items() if all(found.values())]
    missing = [name for name in extras if name not in there]
    install = f"pip install 'encoderlab[{missing[0]}]'" if missing else ""
    extras_found = [f"found {', '.join(there) or 'none'}", f"not found {', '.join(missing) or 'none'}"]
    return f"optional: {', '.join(extras_found)}{f' ({install})' if install else ''}"


@dataclass(frozen=True, slots=True)
class _Step:
    """What is tried, the step that it builds on, and a function that tries it and says what came out."""

    name: str
    needs: str | None
    action: Callable[[], str]


class _Trial:
    """A run and what is done with it, in a folder that is empty before."""

    def __init__(self, config: CheckConfig, folder: Path, *, on_gpu: bool) -> None:
        self.config, self.folder, self.on_gpu = config, folder, on_gpu
        self.cache = str(folder / "cache")
        self.run, self.resumed, self.pretrained = (folder / name for name in ("run", "resumed", "pretrained"))

    def failed(self) -> list[str]:
        """Try all steps, with a line for each; the names of those that failed, or could not be tried."""
        steps = (
            _Step("train", None, self._train),
            _Step("resume", "train", self._resume),
            _Step("verify", "train", self._verify),
            _Step("eval", "train", self._eval),
            _Step("predict", "train", self._predict),
            _Step("export", "train", self._export),
            _Step("pretrain", None, self._pretrain),
            _Step("finetune", "pretrain", self._finetune),
        )
        failed: list[str] = []
        for step in steps:
            if step.needs in failed:
                outcome, words, seconds = "skipped", f"{step.needs} failed", 0.0
            else:
                outcome, words, seconds = _tried(step.action)
            print(f"{outcome:<8}{step.name:<10}{words} ({seconds:.1f} s)", flush=True)
            failed += [step.name] if outcome != "ok" else []
        return failed

    def _training(self, steps: int) -> TrainingConfig:
        return TrainingConfig(
            steps=steps,
            batch_size=16,
            learning_rate=5e-3,
            checkpoint_every=HALF,
            evaluate_every=STEPS,
            device=self.config.device,
            threads=self.config.threads,
            deterministic=self.on_gpu,  # to compare weights; a CPU has no other kernels
        )

    def _rows(self) -> FilesDataset:
        """Texts of which one word decides the label, in a csv file."""
        path, draw = self.folder / "rows.csv", np.random.default_rng(0)
        if not path.exists():
            fillers = [f"{a}{b}" for a in "bdfgklmnpr" for b in ("ando", "eru", "imi")]
            with path.open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(["text", "label"])
                for row in range(ROWS):
                    words = [str(draw.choice(fillers)) for _ in range(draw.integers(3, 9))]
                    words.insert(int(draw.integers(len(words))), ("dull", "fine")[row % 2])
                    writer.writerow([" ".join(words), ("bad", "good")[row % 2]])
        return FilesDataset(path=str(path), validation_fraction=0.2)

    def _run_config(self, folder: Path, resume: str | None = None) -> RunConfig:
        return RunConfig(
            cache_dir=self.cache,
            task=ClassificationConfig(name="check"),
            dataset=self._rows(),
            tokenizer=WordPieceConfig(vocabulary_size=200),
            model=ModelConfig(**MODEL),
            training=self._training(STEPS),
            run_dir=None if resume else str(folder),
            resume=resume,
        )

    def _train(self) -> str:
        train(self._run_config(self.run))
        scores = self._report()["splits"]["validation"]
        if scores["accuracy"] < LEAST_RIGHT:
            raise _WrongError(f"the model learned too little: {scores['accuracy']:.1%} of the held-out rows are right")
        return f"a model learns from a csv file: {scores['accuracy']:.1%} of {scores['n']} held-out rows right after {STEPS} steps"

    def _resume(self) -> str:
        """Go on with a copy that has lost its second half, and come to the same weights."""
        shutil.copytree(self.run, self.resumed)
        (self.resumed / "report.json").unlink()
        shutil.rmtree(self.resumed / "model")
        for path in checkpoints(self.resumed / "checkpoints"):
            if step_of(path) > HALF:
                shutil.rmtree(path)
        train(self._run_config(self.resumed, resume=str(self.resumed)), explicit={"resume"})
        ours, theirs = (safetensors.torch.load_file(one / "model" / "model.safetensors") for one in (self.run, self.resumed))
        if not all(torch.equal(weight, theirs[name]) for name, weight in ours.items()):
            raise _WrongError("the weights are not those of the run that was not stopped")
        return f"a run that stopped after {HALF} of {STEPS} steps goes on to the same weights, bit for bit"

    def _verify(self) -> str:
        found = list(findings(RunFolder(self.run), self.cache))
        if bad := [one for one in found if not one.good]:
            raise _WrongError(f"{bad[0].part}: {bad[0].words}")
        return f"all {len(found)} parts of the run are as they were written"

    def _eval(self) -> str:
        folder = self.folder / "eval"
        eval(EvalConfig(self.cache, run=str(self.run), split="validation", run_dir=str(folder), **self._opened()))
        before, now = (self._report(one)["splits"]["validation"]["accuracy"] for one in (self.run, folder))
        if before != now:
            raise _WrongError(f"the reloaded model has an accuracy of {now}, and had {before}")
        return "the reloaded model has the same accuracy"

    def _predict(self) -> str:
        texts, output = self.folder / "texts.txt", self.folder / "answers.csv"
        texts.write_text("fine bando\ndull bando\n", encoding="utf-8")
        predict(PredictConfig(self.cache, run=str(self.run), input=str(texts), output=str(output), **self._opened()))
        with output.open(encoding="utf-8", newline="") as file:
            answers = [row["predicted"] for row in csv.DictReader(file)]
        if answers != ["good", "bad"]:
            raise _WrongError(f"the answers to two new texts are {answers}, and should be ['good', 'bad']")
        return "two new texts are answered rightly"

    def _export(self) -> str:
        """Export, open it with transformers, and compare what both say of some texts."""
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        path = self.folder / "exported"
        export(ExportConfig(self.cache, run=str(self.run), path=str(path)))
        model = AutoModelForSequenceClassification.from_pretrained(path, local_files_only=True).eval()
        texts = ["fine bando kimi", "dull deru", "lando fine meru nimi"]
        inputs = AutoTokenizer.from_pretrained(path, local_files_only=True)(texts, padding=True, return_tensors="pt")
        ours = reopen(
            OpenRunConfig(self.cache, run=str(self.run), device="cpu", precision=Precision.fp32, threads=self.config.threads)
        )
        rows = encoded_rows(ours, [TextExample(text) for text in texts])
        with torch.inference_mode():
            theirs = model(**inputs).logits
            mine = ours.model(rows.gather(np.arange(len(texts)), ours.tokenizer.pad_id)).sequence_logits
        difference = float((theirs - mine).abs().max())
        if not difference < LARGEST_DIFFERENCE:
            raise _WrongError(f"transformers' logits differ from ours by {difference:.2g}")
        return f"transformers opens it and answers the same, to {difference:.0e}"

    def _pretrain(self) -> str:
        path = self.folder / "documents.txt"
        sentence = "Number {} is the {}th word of line {} in this paragraph."  # Punkt trained on it takes no number for an ordinal
        lines = [" ".join(sentence.format(n * k % 11, n % 7, k) for k in range(6)) for n in range(40)]
        path.write_text("\n\n".join(lines), encoding="utf-8")
        pretrain(
            PretrainConfig(
                cache_dir=self.cache,
                task=PretrainingConfig(name="check"),
                dataset=FilesDataset(path=str(path), validation_fraction=0.2),
                tokenizer=WordPieceConfig(vocabulary_size=200),
                model=ModelConfig(**MODEL),
                training=self._training(HALF),
                run_dir=str(self.pretrained),
            )
        )
        return f"an encoder is pretrained on documents: {HALF} steps of masked tokens and sentence pairs"

    def _finetune(self) -> str:
        config = FinetuneConfig(
            cache_dir=self.cache,
            task=ClassificationConfig(name="check"),
            dataset=self._rows(),
            tokenizer=AsPretrainedTokenizer(),
            model=AsPretrained(),
            training=self._training(HALF),
            run_dir=str(self.folder / "finetuned"),
            baselines=False,
            init_from=str(self.pretrained),
        )
        finetune(config)
        return "and finetuned on the rows"

    def _opened(self) -> dict[str, Any]:
        return {"device": self.config.device, "threads": self.config.threads}

    def _report(self, folder: Path | None = None) -> dict:
        return json.loads(RunFolder(folder or self.run).report.read_text(encoding="utf-8"))


def _tried(action: Callable[[], str]) -> tuple[str, str, float]:
    """Whether it went well, what there is to say, and the seconds it took; what it prints is kept from the screen."""
    started = time.perf_counter()
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            outcome, words = "ok", action()
    except (_WrongError, UserError) as error:
        outcome, words = "FAILED", str(error)
    except Exception as error:  # whatever is wrong with an installation: the next step is tried all the same
        outcome, words = "FAILED", one_line(f"{type(error).__name__}: {error}")
    return outcome, words, time.perf_counter() - started
