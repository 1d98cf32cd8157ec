"""encoderlab embed: writes the encoder's vectors of texts as a NumPy array, a row for each text, in their order."""

import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from numpy.lib import format as npy

from encoderlab.config.commands import EmbedConfig
from encoderlab.data.examples import Example
from encoderlab.errors import DataError, SettingError
from encoderlab.exchange.sentence_transformers import default_prompt, modules_left_out, sentence_pooling
from encoderlab.models import inputs
from encoderlab.models.folder import model_folder, open_model
from encoderlab.models.model import Model
from encoderlab.network.config import Pooling
from encoderlab.system.files import written_whole
from encoderlab.system.messages import rows_done, say
from encoderlab.tables.formats import Format
from encoderlab.tables.remote import local_file


def embed(config: EmbedConfig) -> None:
    """Write a vector for each text of a file or of standard input. Raises SettingError, DataError."""
    config = replace(config, input=None if config.input == "-" else config.input)
    output = Path(config.output)
    if output.suffix != ".npy" or output.exists():
        problem = f"output={config.output} {'already exists' if output.exists() else 'does not end in .npy'}"
        raise SettingError(problem, allowed="a new .npy file", remedy="Choose another name")
    inputs.check_sources(config)
    model = open_model(config)
    _check_modules(config)
    if config.layer is not None and config.layer > model.shape.n_layers:
        problem = f"layer={config.layer}, but the encoder has {model.shape.n_layers} layers"
        raise SettingError(problem, allowed=f"0 (the embeddings) to {model.shape.n_layers}")

    # The vectors are written as they are computed, behind a header whose number of rows is corrected at the end.
    width = model.shape.d_model
    normalize = model.config.task.normalizes_vectors if config.normalize is None else config.normalize
    examples, total = _examples(config, model)
    n_rows = n_cut = 0
    with (
        written_whole("output", output) as temporary,
        temporary.open("wb") as array,
        rows_done("embedding", total) as done,
    ):
        _write_header(array, (0, width))
        for chunk in inputs.chunks_of(examples):
            if model.network.separates_pairs and any(example.paired for example in chunk):
                problem = "A pair has no single vector: this model reads its texts separately (model.pairs=separate)"
                raise SettingError(problem, remedy="Embed a file of first texts and one of second texts")
            rows = model.rows(chunk)
            vectors = model.vectors(rows, config.pooling, normalize=normalize, layer=config.layer, done=done.update)
            array.write(vectors.astype("<f4", copy=False).data)
            n_rows += len(chunk)
            n_cut += int(rows.truncated().sum())
        array.seek(0)
        _write_header(array, (n_rows, width))  # NumPy leaves room for the number of rows
    cut = f"; {n_cut:,} text{' was' if n_cut == 1 else 's were'} truncated to {model.task.limit}" if n_cut else ""
    print(f"{n_rows:,} vectors of {width} numbers: {output}{cut}", file=sys.stderr)


def _check_modules(config: EmbedConfig) -> None:
    """Say or refuse what would make the vectors others than those of sentence-transformers: prompts, further modules.

    Raises DataError.
    """
    folder = model_folder(config.run)
    left_out = modules_left_out(folder)
    if left_out and config.pooling is None:
        problem = f"{config.run} makes its vectors by {', '.join(left_out)} after the pooling, which is not read here"
        remedy = f"Set pooling={(sentence_pooling(folder) or Pooling.mean).name} for the vectors before it"
        raise DataError(problem, remedy=remedy)
    prompt = default_prompt(folder)
    if prompt:
        say(f"{config.run} puts {prompt!r} before each text by default. Here the texts are read as they are")


def _write_header(array: BinaryIO, shape: tuple[int, int]) -> None:
    npy.write_array_header_1_0(array, {"descr": "<f4", "fortran_order": False, "shape": shape})


def _examples(config: EmbedConfig, model: Model) -> tuple[Iterable[Example], int | None]:
    """Return the texts, and how many there are if that is known.

    A file is read as the run's own rows are (pairs as pairs) unless the settings say otherwise. Lines are always single
    texts, so that any encoder, whatever it was trained on, can embed single texts.
    """
    if config.input is None:
        return inputs.standard_input_examples(model, paired=False), None
    path = local_file(config.input, config.cache)
    file = inputs.new_file(path, config, model)
    if config.text_pair_column is None and (config.text_column is not None or file.kind is Format.txt):
        file = replace(file, text_pair=None)
    return inputs.file_examples(model, file, config.cache)
