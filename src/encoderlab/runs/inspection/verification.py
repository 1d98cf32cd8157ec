"""Verifies a run: its files are as written, its numbers are finite, and config, data and weights match."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from encoderlab.config.command_settings import DistillConfig
from encoderlab.config.schemas import COMMAND_CONFIGS
from encoderlab.errors import DataError, UserError
from encoderlab.runs.corpora.corpus import Corpus
from encoderlab.runs.corpora.document_corpus import DocumentCorpus
from encoderlab.runs.distillation.teacher_files import teacher_fingerprints
from encoderlab.runs.folders.folder import RunFolder
from encoderlab.runs.folders.graph_files import GRAPH_FILES, is_graph
from encoderlab.runs.folders.resume import changed_files, changed_rows, read_record, read_settings
from encoderlab.runs.models.assembly import assemble, build_model, cache_folder
from encoderlab.runs.models.pretrained import load_pretrained
from encoderlab.runs.models.saved_model import HASHED, check_shapes, read_model
from encoderlab.system.device import choose_compute
from encoderlab.system.manifest import MANIFEST, differing_files
from encoderlab.tasks.config import DocumentTaskConfig
from encoderlab.training.checkpoint import checkpoints, read_state, read_weights

Shapes = Mapping[str, torch.Size]


@dataclass(frozen=True, slots=True)
class Finding:
    """The finding about one part of a run, in words, and whether it is good."""

    part: str
    words: str
    good: bool = True


def findings(folder: RunFolder, cache_dir: str) -> Iterator[Finding]:
    """Yield a finding for each part of the run in `folder`: its records, its data, its model, each of its checkpoints.

    For a model folder without a run, yield that of the model. Raises DataError if there is neither.
    """
    if not folder.config.exists() and all((folder.root / name).is_file() for name in ("config.json", MANIFEST)):
        yield _model(folder.root)[1]
        return
    command = read_record(folder)["command"]
    config = read_settings(folder, COMMAND_CONFIGS[command])
    yield Finding("config.yaml", f"the settings of encoderlab {command}")
    if config.folds is not None:
        yield from _folds(folder, config.folds, cache_dir)
        return
    corpus = None
    try:
        corpus = _corpus(config, cache_dir)
        yield _data(folder, corpus)
    except UserError as error:
        yield Finding("data", str(error), good=False)
    if isinstance(config, DistillConfig) and not folder.finished:
        yield _teacher(folder, config)
    shapes: Shapes | None = None
    if folder.finished or folder.model.is_dir():
        shapes, finding = _model(folder.model)
        yield finding
    elif corpus is not None:
        shapes = _shapes_to_be(config, corpus)
    good = 0
    for checkpoint in checkpoints(folder.checkpoints):
        finding = _checkpoint(checkpoint, shapes)
        if finding.good or checkpoint.exists():  # otherwise a run in progress has deleted it
            yield finding
        good += finding.good
    for set_aside in sorted(folder.checkpoints.glob("corrupt-*")):
        yield Finding(
            f"checkpoints/{set_aside.name}", "was set aside and is not used", good=bool(good) or folder.finished
        )


def _folds(folder: RunFolder, folds: int, cache_dir: str) -> Iterator[Finding]:
    """Yield the findings of each fold of a cross-validation."""
    for number in range(1, folds + 1):
        fold = RunFolder(folder.fold(number))
        if not fold.config.is_file():
            yield Finding(fold.root.name, "has not begun", good=not folder.finished)
            continue
        yield from (replace(finding, part=f"{fold.root.name}, {finding.part}") for finding in findings(fold, cache_dir))


def _corpus(config: Any, cache_dir: str) -> Corpus | DocumentCorpus:
    cache = cache_folder(cache_dir)
    if isinstance(config.task, DocumentTaskConfig):
        return DocumentCorpus.load(config.dataset, config.task, cache)
    return Corpus.load(config.dataset, cache, config.task.target)


def _data(folder: RunFolder, corpus: Corpus | DocumentCorpus) -> Finding:
    changed = changed_rows(folder, corpus.fingerprints())
    if changed:
        return Finding("data", f"the rows have changed since the run was started: {', '.join(changed)}", good=False)
    return Finding("data", f"the rows the run was started with: {', '.join(corpus.fingerprints())}")


def _teacher(folder: RunFolder, config: DistillConfig) -> Finding:
    """Return whether an unfinished run's teacher is unchanged."""
    try:
        found = teacher_fingerprints(config)
    except UserError as error:
        return Finding("teacher", str(error), good=False)
    if changed := changed_files(folder, found):
        return Finding("teacher", f"the files have changed since the run was started: {', '.join(changed)}", good=False)
    return Finding("teacher", f"the files the run was started with: {', '.join(found)}")


def _shapes_to_be(config: Any, corpus: Corpus | DocumentCorpus) -> Shapes | None:
    """Return the weights' shapes of a run that has not written a model yet; None if the model it started from is
    missing.
    """
    init_from, taught_by = (getattr(config, name, None) for name in ("init_from", "teacher"))
    try:
        pretrained = None if init_from is None else load_pretrained(init_from)
        teacher = None if taught_by is None or pretrained is not None else load_pretrained(taught_by, "teacher")
        assembly = assemble(config, choose_compute("cpu", "fp32"), corpus, pretrained, teacher=teacher)
    except UserError:
        return None
    return _shapes(assembly.model.state_dict())


def _model(folder: Path) -> tuple[Shapes | None, Finding]:
    has_graph = is_graph(folder)
    if differing := differing_files(folder, GRAPH_FILES if has_graph else HASHED):
        words = f"{', '.join(differing)}: missing, or different from {MANIFEST}"
        return None, Finding("model", words, good=False)
    try:
        saved = read_model(folder, or_graph=True)
        if has_graph:
            saved.model()
            return None, Finding("model", "hashes are good, and onnxruntime opens it")
        check_shapes(saved, str(folder))
        task = saved.task()
        shapes = _shapes(build_model(saved.config, saved.tokenizer, task, weights=False).state_dict())
    except UserError as error:
        return None, Finding("model", str(error), good=False)
    return shapes, _weights("model", saved.weights, shapes)


def _checkpoint(checkpoint: Path, shapes: Shapes | None) -> Finding:
    name = f"checkpoints/{checkpoint.name}"
    try:
        weights, _ = read_weights(checkpoint), read_state(checkpoint)
    except DataError as error:
        return Finding(name, str(error), good=False)
    return _weights(name, weights, shapes)


def _weights(part: str, weights: Mapping[str, Tensor], shapes: Shapes | None) -> Finding:
    infinite = [name for name, tensor in weights.items() if not torch.isfinite(tensor).all()]
    if infinite:
        return Finding(part, f"there are numbers that are not finite in {', '.join(infinite)}", good=False)
    if shapes is None:
        return Finding(part, "hashes and numbers are good; shapes cannot be compared")
    if _shapes(weights) != shapes:
        wrong = sorted(
            name for name in weights.keys() | shapes.keys() if _shapes(weights).get(name) != shapes.get(name)
        )
        return Finding(part, f"does not match the config: {', '.join(wrong)}", good=False)
    return Finding(part, "hashes, numbers and shapes are good")


def _shapes(weights: Mapping[str, Tensor]) -> Shapes:
    return {name: tensor.shape for name, tensor in weights.items()}
