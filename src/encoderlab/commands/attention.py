"""encoderlab attention: heat maps of where each token looks, one figure per layer, and the arrays behind them."""

from __future__ import annotations

import sys
from itertools import islice

import numpy as np
import torch

from encoderlab.command_settings import AttentionConfig
from encoderlab.data.examples import Example
from encoderlab.errors import DataError, SettingError
from encoderlab.reports.attention_maps import plot_attention
from encoderlab.runs.assembly import Assembly, cache_folder, check_paired, own_dataset, reopen
from encoderlab.runs.corpus import Corpus
from encoderlab.runs.folder import RunFolder, check_free
from encoderlab.runs.inputs import example_of, reads_words, split_examples
from encoderlab.runs.records import record_start
from encoderlab.tasks.config import PretrainingConfig
from encoderlab.tasks.rows import hold_encoded


def attention(config: AttentionConfig) -> RunFolder:
    """Draw the maps of a text, or of rows of a split, into a run folder of their own. Raises SettingError, DataError."""
    check_free(config.run_dir)
    _check_settings(config)
    assembly = reopen(config)
    examples = _examples(config, assembly)
    with RunFolder.new(config.run_dir, "attention", assembly.config.task.name) as folder:
        record_start(folder, "attention", config, assembly.compute)
        for name, example in examples.items():
            _draw(assembly, example, name, folder)
    print(f"Attention maps (layer-*.png) and arrays (weights.npz): {folder.attention}", file=sys.stderr)
    return folder


def _check_settings(config: AttentionConfig) -> None:
    """Refuse what contradicts itself, before a model is loaded."""
    if config.text is not None and (config.split is not None or config.rows is not None):
        raise SettingError("text is given together with rows of a split", allowed="one of them")
    if config.text_pair is not None and config.text is None:
        raise SettingError("text_pair is given without text", remedy="Type text=... text_pair=...")
    if config.rows == []:
        raise SettingError("rows is empty", allowed="a list such as [0,7]", remedy="Leave it out for the first row")


def _examples(config: AttentionConfig, assembly: Assembly) -> dict[str, Example]:
    pretrained = isinstance(assembly.config.task, PretrainingConfig)  # reads whatever it is given
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
        split = Corpus.load(own_dataset(assembly), cache_folder(config.cache_dir)).split(name)
    for row in rows:
        if not 0 <= row < len(split):
            raise DataError(f"rows={rows}: the split {name} has no row {row}", allowed=f"0 to {len(split) - 1}")
    return {f"{name}-{row}": split[row] for row in rows}


def _draw(assembly: Assembly, example: Example, name: str, folder: RunFolder) -> None:
    """One figure per layer with all heads, and the weights as [layer, head, query, key] beside their tokens."""
    task = assembly.task
    rows = hold_encoded(task.encode([example]), task.tokenizer.vocabulary_size, tokens_asked=task.heads.asks_tokens)
    batch = next(assembly.scoring_batches(rows))
    with torch.inference_mode():
        maps = assembly.model.encoder.attention_maps(batch.input_ids, batch.token_type_ids, batch.attention_mask)
    weights = np.stack([layer[0].float().cpu().numpy() for layer in maps])
    tokens = assembly.tokenizer.pieces(batch.input_ids[0].tolist())
    into = folder.attention / name
    into.mkdir(parents=True)
    np.savez_compressed(into / "weights.npz", weights=weights, tokens=np.array(tokens))
    for number, layer in enumerate(weights, start=1):
        plot_attention(
            layer, tokens, f"{assembly.config.task.name}, {name}, layer {number} of {len(weights)}", into / f"layer-{number}.png"
        )
