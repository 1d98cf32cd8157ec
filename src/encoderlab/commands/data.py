"""encoderlab data: what a dataset contains, how long its texts are, how they are tokenized, and which rows are odd."""

from __future__ import annotations

import json
import sys
from typing import Any

from encoderlab.config.commands import DataConfig, TableFormat
from encoderlab.model.config import ModelConfig
from encoderlab.reports.preparation import show_documents, show_rows
from encoderlab.reports.tables import json_safe
from encoderlab.runs.assembly import cache_folder, with_length
from encoderlab.runs.corpus import Corpus
from encoderlab.runs.data_facts import document_facts, example_facts
from encoderlab.runs.document_corpus import DocumentCorpus
from encoderlab.runs.task import build_task, settled_task
from encoderlab.tasks.config import DocumentTaskConfig
from encoderlab.tasks.pretraining import Pretraining
from encoderlab.tasks.teacher_vectors import TeacherVectors


def data(config: DataConfig) -> None:
    """Print the facts of the dataset. Raises DataError if it cannot be read as the task needs, SettingError."""
    model = config.model.resolve(None)
    task = config.task
    is_documents = isinstance(task, DocumentTaskConfig)
    facts = _of_documents(config, task, model) if is_documents else _of_examples(config, model)
    if config.format is TableFormat.json:
        print(json.dumps(json_safe(facts), indent=2, ensure_ascii=False))
    else:
        (show_documents if is_documents else show_rows)(facts, sys.stdout)


def _of_examples(config: DataConfig, model: ModelConfig) -> dict[str, Any]:
    corpus = Corpus.load(config.dataset, cache_folder(config.cache_dir), config.task.target)
    tokenizer = config.tokenizer.build(corpus.training_texts, corpus.cache)
    task = settled_task(config.task, corpus)
    model = with_length(model, task, tokenizer, corpus)
    return example_facts(corpus, task, tokenizer, model.reach, config.examples)


def _of_documents(config: DataConfig, task_config: DocumentTaskConfig, model: ModelConfig) -> dict[str, Any]:
    corpus = DocumentCorpus.load(config.dataset, task_config, cache_folder(config.cache_dir))
    tokenizer = config.tokenizer.build(corpus.training_texts, corpus.cache)
    model = with_length(model, task_config, tokenizer, corpus)
    task = build_task(task_config, tokenizer, corpus.labels, model.reach)
    assert isinstance(task, Pretraining | TeacherVectors)
    rows = {name: corpus.rows(name, task) for name in corpus.fingerprints()}
    return document_facts(corpus, task, rows, config.examples)
