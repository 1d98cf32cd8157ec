"""encoderlab explain: shows which words support a model's prediction, and which count against it."""

from __future__ import annotations

import json
import sys
from typing import Any

from encoderlab.config.commands import ExplainConfig
from encoderlab.data.examples import Example
from encoderlab.errors import SettingError
from encoderlab.reports.explanation import explanation_of, show_explanations, write_explanations
from encoderlab.runs.assembly import Assembly, reopen
from encoderlab.runs.explain import check_explainable, check_selection, selected_examples, token_importance
from encoderlab.runs.folder import RunFolder, check_free
from encoderlab.runs.inputs import reads_words
from encoderlab.runs.records import record_start
from encoderlab.system.files import atomic_write_text


def explain(config: ExplainConfig) -> RunFolder:
    """Print each word with its score, and write the page and the scores to a run folder. Raises SettingError,
    DataError.
    """
    check_free(config.run_dir)
    check_selection(config)
    assembly = reopen(config)
    check_explainable(assembly)
    if config.word is not None and not reads_words(assembly):
        raise SettingError(
            f"word={config.word} selects a word, but this model labels whole texts", remedy="Remove word"
        )
    examples = selected_examples(config, assembly)
    explanations = _explanations(config, assembly, examples)
    with RunFolder.new(config.run_dir, "explain", assembly.config.task.name) as folder:
        record_start(folder, "explain", config, assembly.compute)
        atomic_write_text(folder.explanation_figures, json.dumps(explanations, indent=2, ensure_ascii=False) + "\n")
        write_explanations(folder.explanation, assembly.config.task.name, explanations)
        show_explanations(explanations, sys.stdout)
    print(f"Page: {folder.explanation}", file=sys.stderr)
    return folder


def _explanations(config: ExplainConfig, assembly: Assembly, examples: dict[str, Example]) -> list[dict[str, Any]]:
    """Return the explanation of each example, as explain.json holds it."""
    some = list(examples.values())
    labels = None if config.label is None else [config.label] * len(some)
    words = None if config.word is None else [config.word] * len(some)
    explained = token_importance(assembly, some, labels=labels, words=words)
    return [explanation_of(name, one) for name, one in zip(examples, explained, strict=True)]
