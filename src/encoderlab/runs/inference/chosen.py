"""The few examples that a command inspects closely: one given text, or some rows of a split."""

from __future__ import annotations

from itertools import islice

from encoderlab.config.commands import AttentionConfig, ExplainConfig
from encoderlab.data.examples import Example
from encoderlab.errors import DataError, SettingError
from encoderlab.runs.assembly import Assembly, cache_folder, check_paired, own_dataset
from encoderlab.runs.corpora.corpus import Corpus
from encoderlab.runs.inference.inputs import example_of, reads_words, split_examples
from encoderlab.tasks.config import DocumentTaskConfig


def check_chosen(config: AttentionConfig | ExplainConfig) -> None:
    """Raise SettingError for settings that contradict each other, before a model is loaded."""
    if config.text is not None and (config.split is not None or config.rows is not None):
        raise SettingError("text is given together with rows of a split", allowed="one of them")
    if config.text is not None and not config.text.strip():
        raise SettingError("text is empty", allowed="a text with at least one word")
    if config.text_pair is not None and config.text is None:
        raise SettingError("text_pair is given without text", remedy="Set text=... too")
    if config.rows == []:
        raise SettingError("rows is empty", allowed="a list such as [0,7]", remedy="Remove it for the first row")


def chosen_examples(config: AttentionConfig | ExplainConfig, assembly: Assembly) -> dict[str, Example]:
    """Return the examples by name: `text`, or <split>-<row>. Raises DataError if they do not exist."""
    pretrained = isinstance(assembly.config.task, DocumentTaskConfig)  # reads single texts as well as pairs
    if config.text is not None:
        if not pretrained:
            check_paired(assembly, config.text_pair is not None)
        return {"text": example_of(config.text, config.text_pair, reads_words(assembly))}
    name = config.split or "validation"
    rows = config.rows or [0]
    if pretrained:
        examples, _ = split_examples(assembly, name, config.cache_dir)
        split = list(islice(examples, max(rows) + 1))
    else:
        split = Corpus.load(own_dataset(assembly), cache_folder(config.cache_dir), assembly.config.task.target).split(
            name
        )
    for row in rows:
        if not 0 <= row < len(split):
            raise DataError(f"rows={rows}: the split {name} has no row {row}", allowed=f"0 to {len(split) - 1}")
    return {f"{name}-{row}": split[row] for row in rows}
