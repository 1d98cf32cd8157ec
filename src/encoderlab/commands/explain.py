"""encoderlab explain: shows which words support a model's prediction, and which count against it."""

from __future__ import annotations

import json
import sys

from encoderlab.config.commands import ExplainConfig, ImportanceMethod
from encoderlab.data.examples import Example
from encoderlab.errors import SettingError
from encoderlab.reports.interpretation.explanation import Explanation, show_explanation, write_explanations
from encoderlab.runs.assembly import Assembly, reopen
from encoderlab.runs.folder import RunFolder, check_free
from encoderlab.runs.inference.chosen import check_chosen, chosen_examples
from encoderlab.runs.inference.importance import METHODS, check_answers, token_importance
from encoderlab.runs.inference.inputs import reads_words
from encoderlab.runs.records import record_start
from encoderlab.system.files import atomic_write_text


def explain(config: ExplainConfig) -> RunFolder:
    """Print each word with its score, and write the page and the figures to a run folder. Raises SettingError,
    DataError.
    """
    check_free(config.run_dir)
    check_chosen(config)
    assembly = reopen(config)
    check_answers(assembly)
    if config.word is not None and not reads_words(assembly):
        raise SettingError(
            f"word={config.word} selects a word, but this model labels whole texts", remedy="Remove word"
        )
    examples = chosen_examples(config, assembly)
    explanations = _explanations(config, assembly, examples)
    with RunFolder.new(config.run_dir, "explain", assembly.config.task.name) as folder:
        record_start(folder, "explain", config, assembly.compute)
        figures = [explanation.as_dict() for explanation in explanations]
        atomic_write_text(folder.explanation_figures, json.dumps(figures, indent=2, ensure_ascii=False) + "\n")
        write_explanations(folder.explanation, assembly.config.task.name, explanations)
        for explanation in explanations:
            show_explanation(explanation, sys.stdout)
    print(f"Page: {folder.explanation}", file=sys.stderr)
    return folder


def _explanations(config: ExplainConfig, assembly: Assembly, examples: dict[str, Example]) -> list[Explanation]:
    methods = list(METHODS) if config.method is ImportanceMethod.both else [config.method.value]
    some = list(examples.values())
    labels = None if config.label is None else [config.label] * len(some)
    words = None if config.word is None else [config.word] * len(some)
    by_method = [token_importance(assembly, some, method, labels=labels, words=words) for method in methods]
    return [Explanation(name, list(found)) for name, found in zip(examples, zip(*by_method, strict=True), strict=True)]
