"""encoderlab attention: heat maps of where each token looks, one figure per layer, and the arrays behind them."""

from __future__ import annotations

import sys

import numpy as np
import torch

from encoderlab.command_settings import AttentionConfig
from encoderlab.data.examples import Example
from encoderlab.reports.attention_maps import plot_attention
from encoderlab.runs.assembly import Assembly, reopen
from encoderlab.runs.chosen import check_chosen, chosen_examples
from encoderlab.runs.folder import RunFolder, check_free
from encoderlab.runs.records import record_start
from encoderlab.tasks.rows import hold_encoded


def attention(config: AttentionConfig) -> RunFolder:
    """Draw the maps of a text, or of rows of a split, into a run folder of their own. Raises SettingError, DataError."""
    check_free(config.run_dir)
    check_chosen(config)
    assembly = reopen(config)
    examples = chosen_examples(config, assembly)
    with RunFolder.new(config.run_dir, "attention", assembly.config.task.name) as folder:
        record_start(folder, "attention", config, assembly.compute)
        for name, example in examples.items():
            _draw(assembly, example, name, folder)
    print(f"Attention maps (layer-*.png) and arrays (weights.npz): {folder.attention}", file=sys.stderr)
    return folder


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
