"""encoderlab attention: what each token attends to, as heat maps and arrays."""

from __future__ import annotations

import sys

import numpy as np
import torch

from encoderlab.config.commands import AttentionConfig
from encoderlab.data.examples import Example
from encoderlab.errors import SettingError
from encoderlab.reports.plots import attention_plot, write_png
from encoderlab.runs.assembly import Assembly, reopen
from encoderlab.runs.explain import selected_examples
from encoderlab.runs.folder import RunFolder, check_free
from encoderlab.runs.predict import encoded_rows
from encoderlab.runs.records import record_start


def attention(config: AttentionConfig) -> RunFolder:
    """Plot attention maps of a text or of rows into a new run folder. Raises SettingError, DataError."""
    check_free(config.run_dir)
    assembly = reopen(config)
    assembly.task.windows = None  # a map covers one sequence: texts are truncated
    examples = selected_examples(config, assembly)
    _check_joint(assembly)
    with RunFolder.new(config.run_dir, "attention", assembly.config.task.name) as folder:
        record_start(folder, "attention", config, assembly.compute)
        for name, example in examples.items():
            weights, ids = _weights(assembly, example)
            _draw(assembly, weights, ids, name, folder)
    print(f"Attention maps (layer-*.png) and arrays (weights.npz): {folder.attention}", file=sys.stderr)
    return folder


def _check_joint(assembly: Assembly) -> None:
    """Raise SettingError if the model reads the texts of a pair separately, because no map then covers both."""
    if assembly.model.separates_pairs:
        raise SettingError(
            "This model reads the texts of a pair separately (model.pairs=separate), but attention maps show one "
            "sequence",
            remedy="Train with model.pairs=joint, or use encoderlab explain",
        )


def _weights(assembly: Assembly, example: Example) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights, [layer, head, query, key], and the token ids; of a long text, of its beginning."""
    rows = encoded_rows(assembly, [example])
    if rows.truncated().any():
        print(f"The maps show the beginning of the text, {assembly.task.limit}", file=sys.stderr)
    batch = next(assembly.scoring_batches(rows))
    with torch.inference_mode():
        maps = assembly.model.encoder.attention_maps(batch.input_ids, batch.token_type_ids, batch.attention_mask)
    return np.stack([layer[0].float().cpu().numpy() for layer in maps]), batch.input_ids[0].cpu().numpy()


def _draw(assembly: Assembly, weights: np.ndarray, ids: np.ndarray, name: str, folder: RunFolder) -> None:
    """Write one plot per layer with all its heads, and the weights with their tokens."""
    tokens, task = assembly.tokenizer.pieces(ids.tolist()), assembly.config.task.name
    into = folder.attention / name
    into.mkdir(parents=True)
    np.savez_compressed(into / "weights.npz", weights=weights, tokens=np.array(tokens))
    for number, layer in enumerate(weights, start=1):
        title = f"{task}, {name}, layer {number} of {len(weights)}"
        write_png(attention_plot(layer, tokens, title), into / f"layer-{number}.png")
