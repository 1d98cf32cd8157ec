"""encoderlab attention: what each token attends to, as heat maps and arrays."""

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
    if assembly.model.separates_pairs:
        wrong = "This model reads the texts of a pair separately (model.pairs=separate), and a map shows one sequence"
        raise SettingError(wrong, remedy="Train with model.pairs=joint, or use encoderlab explain")
    with RunFolder.new(config.run_dir, "attention", assembly.config.task.name) as folder:
        record_start(folder, "attention", config, assembly.compute)
        for name, example in examples.items():
            weights, tokens = _weights(assembly, example)
            into = folder.attention / name
            into.mkdir(parents=True)
            np.savez_compressed(into / "weights.npz", weights=weights, tokens=np.array(tokens))
            for number, layer in enumerate(weights, start=1):
                title = f"{assembly.config.task.name}, {name}, layer {number} of {len(weights)}"
                write_png(attention_plot(layer, tokens, title), into / f"layer-{number}.png")
    print(f"Attention maps (layer-*.png) and arrays (weights.npz): {folder.attention}", file=sys.stderr)
    return folder


def _weights(assembly: Assembly, example: Example) -> tuple[np.ndarray, list[str]]:
    """Return the weights, [layer, head, query, key], and the tokens; of a long text, of its beginning."""
    rows = encoded_rows(assembly, [example])
    if rows.truncated().any():
        print(f"The maps show the beginning of the text, {assembly.task.limit}", file=sys.stderr)
    batch = next(assembly.scoring_batches(rows))
    with torch.inference_mode():
        maps = assembly.model.encoder.attention_maps(batch.input_ids, batch.token_type_ids, batch.attention_mask)
    tokens = assembly.tokenizer.pieces(batch.input_ids[0].tolist())
    return np.stack([layer[0].float().cpu().numpy() for layer in maps]), tokens
