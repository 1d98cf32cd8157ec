"""encoderlab explain: shows which words support a model's prediction, and which count against it."""

import sys

from encoderlab.config.commands import ExplainConfig
from encoderlab.models.explain import selected_examples, word_importance
from encoderlab.models.folder import open_model
from encoderlab.reports.blocks import show, write_html_json
from encoderlab.reports.explanation import explanation_blocks
from encoderlab.runs.record import record_start
from encoderlab.runs.run import Run, check_free


def explain(config: ExplainConfig) -> Run:
    """Print each word with its score, and write page and scores. Raises SettingError, DataError."""
    check_free(config.run_dir)
    model = open_model(config)
    examples = selected_examples(config, model)
    labels = None if config.label is None else [config.label] * len(examples)
    explained = word_importance(model, list(examples.values()), labels)
    explanations = dict(zip(examples, explained, strict=True))
    blocks = explanation_blocks(explanations)
    content = [explanation.as_dict(name) for name, explanation in explanations.items()]
    with Run.new(config.run_dir, config.command, model.task_name) as run:
        record_start(run.folder, config, model.compute)
        write_html_json(run.explanation_file, f"Explanations of {model.task_name}", blocks, content)
        show(blocks, sys.stdout)
    print(f"Page: {run.explanation_file}", file=sys.stderr)
    return run
