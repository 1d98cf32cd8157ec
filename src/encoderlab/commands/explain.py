"""encoderlab explain: shows which words support a model's prediction, and which count against it."""

import sys

from encoderlab.config.commands import ExplainConfig
from encoderlab.reports.blocks import show, write_html_json
from encoderlab.reports.explanation import explanation_blocks
from encoderlab.runs.assembly import reopen
from encoderlab.runs.explain import selected_examples, word_importance
from encoderlab.runs.folder import RunFolder, check_free
from encoderlab.runs.records import record_start


def explain(config: ExplainConfig) -> RunFolder:
    """Print each word with its score, and write page and scores. Raises SettingError, DataError."""
    check_free(config.run_dir)
    assembly = reopen(config)
    examples = selected_examples(config, assembly)
    labels = None if config.label is None else [config.label] * len(examples)
    explained = word_importance(assembly, list(examples.values()), labels)
    explanations = dict(zip(examples, explained, strict=True))
    blocks = explanation_blocks(explanations)
    content = [one.as_dict(name) for name, one in explanations.items()]
    with RunFolder.new(config.run_dir, "explain", assembly.config.task.name) as folder:
        record_start(folder, "explain", config, assembly.compute)
        write_html_json(folder.explanation, f"Explanations of {assembly.config.task.name}", blocks, content)
        show(blocks, sys.stdout)
    print(f"Page: {folder.explanation}", file=sys.stderr)
    return folder
