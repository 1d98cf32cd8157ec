"""encoderlab attention: what each token attends to, as a page of heat maps, and as arrays."""

import sys
from dataclasses import replace

import numpy as np
import torch

from encoderlab.config.commands import AttentionConfig
from encoderlab.data.examples import Example
from encoderlab.errors import SettingError
from encoderlab.models.explain import selected_examples
from encoderlab.models.folder import open_model
from encoderlab.models.model import Model
from encoderlab.reports.blocks import Block, Heading, Plot, write_html
from encoderlab.reports.plots import attention_plot, write_png
from encoderlab.runs.record import record_start
from encoderlab.runs.run import Run, check_free
from encoderlab.tasks.rows import ExampleRows


def attention(config: AttentionConfig) -> Run:
    """Plot attention maps of a text or of rows into a new run folder: a page with all layers, and a file for each.

    Layers and heads are counted from 1. Raises SettingError, DataError.
    """
    check_free(config.run_dir)
    model = open_model(config)
    examples = selected_examples(config, model)
    if model.network.separates_pairs:
        problem = "This model reads the texts of a pair separately (model.pairs=separate), and a map shows one sequence"
        raise SettingError(problem, remedy="Train with model.pairs=joint, or use encoderlab explain")
    with Run.new(config.run_dir, config.command, model.task_name) as run:
        record_start(run.folder, config, model.compute)
        blocks: list[Block] = []
        for name, example in examples.items():
            blocks.append(Heading(name))
            weights, tokens = _weights(model, example)
            into = run.attention_folder / name
            into.mkdir(parents=True)
            np.savez_compressed(into / "weights.npz", weights=weights, tokens=np.array(tokens))
            for number, layer in enumerate(weights, start=1):
                title = f"{model.task_name}, {name}, layer {number} of {len(weights)}"
                plot = Plot(attention_plot(layer, tokens, title), f"Attention weights: {title}.")
                write_png(plot.figure, into / f"layer-{number}.png")
                blocks.append(plot)
        write_html(run.attention_page, f"What tokens attend to: {model.task_name}", blocks)
    print(f"Attention maps: {run.attention_page}", file=sys.stderr)
    print(f"Plots (layer-*.png) and arrays (weights.npz): {run.attention_folder}", file=sys.stderr)
    return run


def _weights(model: Model, example: Example) -> tuple[np.ndarray, list[str]]:
    """Return the weights, [layer, head, query, key], and the tokens; of a long text, of its beginning."""
    rows = model.rows([example])
    # A map covers one sequence: a text that would be read in windows is truncated.
    rows = ExampleRows(rows.store, replace(rows.format, windows=None))
    if rows.truncated().any():
        print(
            f"The maps show the beginning of the text, model.max_length={model.task.max_length} tokens", file=sys.stderr
        )
    batch = next(model.scoring_batches(rows))
    with torch.inference_mode():
        maps = model.network.encoder.attention_maps(batch.input_ids, batch.token_type_ids, batch.attention_mask)
    tokens = model.tokenizer.pieces(batch.input_ids[0].tolist())
    return np.stack([layer[0].float().cpu().numpy() for layer in maps]), tokens
