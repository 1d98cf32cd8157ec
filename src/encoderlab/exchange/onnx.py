"""A model as an ONNX graph, compared with the model itself; its 8-bit version; and such a graph used like a model.

On one core with AVX-512 VNNI, a text of 34 tokens takes the shipped encoder 2.1 ms in our own fp32, 1.0 with
onnxruntime's quantizer and 2.3 with torchao's.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.onnx.errors import OnnxExporterError

from encoderlab.batch import Batch, Prediction
from encoderlab.errors import DataError, SettingError
from encoderlab.network.config import WindowPooling
from encoderlab.network.heads import EncoderWithHeads, pool_windows
from encoderlab.network.packing import FIRST_TOKENS, attendable

if TYPE_CHECKING:
    import onnx
    import onnxruntime

# Read by onnxruntime since 1.17 (2024). This opset is the first with Gelu, without which 8 bits took 1.3 times as long;
# PyTorch's exporter writes version 10 of the file format, which 1.17 refuses, and uses nothing of it.
OPSET = 20
IR_VERSION = 9
SCOPES = "pkg.torch.onnx.name_scopes"  # PyTorch's exporter notes in it which modules a node belongs to
# The product that stays at 32 bits among 8-bit ones: its inputs have outliers, which leave the others few of the 256
# steps. From mini-en, it caused half or more of the error (benchmarks/results/int8.md).
EXACT = "layers.0.feed_forward.outer"
TOLERANCE = 1e-4  # the largest difference allowed, relative to the largest output, or to 1 if all outputs are smaller
SLOWER = ["SkipLayerNormFusion"]  # an optimization of onnxruntime's that takes longer than what it replaces
LARGEST_GRAPH = 2**31 - 2**24  # bytes of weights: a file of protobuf has less than 2 GiB, more is stored next to it
QUANTIZED = ["MatMul", "Gemm", "Gather"]  # matrix products with weights, and tables of embeddings
BATCH_SIZES = (1, 2, 5)  # that are compared
TOKENS_AT_A_TIME = 512  # in 8 bits, 4,096 took 1.2 times as long: a layer's activations then exceed the cache
EXAMPLE = (2, 2)  # batch and length for tracing the graph: neither may be 1, which would be treated as fixed


class WholeModel(nn.Module):
    """All outputs of a model for a batch, as tensors, with logits of every token, not only of target tokens.

    A model of one question gives `logits`: [batch, classes] or [batch, length, classes]. A pretrained one gives
    `last_hidden_state` [batch, length, d_model], `logits` [batch, length, vocabulary] and, where it was trained on
    pairs, `sequence_logits` [batch, classes]; one without a head the first of these alone. Masks are 1 at real tokens.
    One that classifies texts also gives the `vectors` that its head reads, [batch, d_model], if asked `with_vectors`.
    """

    def __init__(self, model: EncoderWithHeads, *, with_vectors: bool = False) -> None:
        super().__init__()
        self.model = model
        is_pretrained = model.masked_token_head is not None
        reads_texts = model.sequence_head is not None
        self.outputs = ["logits"] if reads_texts or model.token_head is not None else ["last_hidden_state"]
        if is_pretrained:
            self.outputs = ["last_hidden_state", "logits", *(["sequence_logits"] if reads_texts else [])]
        self.answer = self.outputs[-1]  # what the task asks for
        if with_vectors:
            self.outputs.append("vectors")
        self.n_segments = 2 if model.separates_pairs else model.encoder.n_segments
        self.inputs = ["input_ids", "attention_mask", *(["token_type_ids"] if self.n_segments else [])]

    def forward(
        self,
        input_ids: Int[Tensor, "batch length"],
        attention_mask: Int[Tensor, "batch length"],
        token_type_ids: Int[Tensor, "batch length"] | None = None,
    ) -> tuple[Tensor, ...]:
        """Return the tensors of `outputs`, in that order."""
        model = self.model
        mask = attention_mask.bool()
        segments = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        if model.separates_pairs:
            return (model.pair_logits(input_ids, segments, mask),)
        reads_texts_only = self.outputs[0] == "logits" and model.sequence_head is not None
        needs_first_only = reads_texts_only and model.first_token_suffices
        hidden = model.encoder.encode(input_ids, segments, mask, selection=FIRST_TOKENS if needs_first_only else None)
        fields = {"last_hidden_state": hidden}
        if model.token_head is not None:
            fields["logits"] = model.token_head(model.transform(hidden))
        if model.masked_token_head is not None:
            fields["logits"] = model.masked_token_head(hidden, model.encoder.token_table)
        if model.sequence_head is not None and model.pool is not None:
            fields["vectors"] = model.transform(model.pool(hidden, attendable(mask)))
            fields[self.answer] = model.sequence_head(fields["vectors"])
        return tuple(fields[name] for name in self.outputs)


def write_graph(whole: WholeModel, path: Path) -> None:
    """Write the model, in evaluation mode on a CPU, as an ONNX graph whose batch and length are free.

    Raises DataError for an encoder of transformers whose code PyTorch cannot trace, as of those that pad texts inside.
    """
    assert not whole.training
    example = tuple(torch.ones(EXAMPLE, dtype=torch.int64) for _ in whole.inputs)
    # PyTorch's exporter warns about libraries that are not needed here and about its own deprecated code.
    with _quiet(logging.getLogger("torch.onnx")), torch.no_grad():
        try:
            program = torch.onnx.export(
                whole,
                example,
                dynamo=True,
                dynamic_shapes=dict.fromkeys(whole.inputs, {0: "batch", 1: "length"}),
                input_names=whole.inputs,
                output_names=whole.outputs,
                opset_version=OPSET,
                verbose=False,
            )
        except OnnxExporterError:
            problem = "PyTorch cannot write this encoder as an ONNX graph, because of how transformers computes it"
            raise DataError(problem, remedy="Use encoderlab serve, or finetune an encoder of another type") from None
        weights = sum(weight.numel() * weight.element_size() for weight in whole.state_dict().values())
        assert program is not None
        for node in program.model.graph:  # the exporter's stack traces name folders of this machine
            for note in node.metadata_props.keys() - {SCOPES}:
                del node.metadata_props[note]
        program.model.ir_version = IR_VERSION
        program.save(path, external_data=weights > LARGEST_GRAPH)


def largest_difference(whole: WholeModel, path: Path, max_length: int, vocabulary_size: int) -> float:
    """Return the largest difference between the outputs of graph and model over several sizes, relative like TOLERANCE.

    Raises DataError if it exceeds TOLERANCE or is not a number.
    """
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    largest = 0.0
    generator = torch.Generator().manual_seed(0)
    for rows in BATCH_SIZES:
        for length in sorted({1, min(2, max_length), -(-max_length // 3), max_length}):
            tensors = _drawn(rows, length, vocabulary_size, whole.n_segments, generator)
            with torch.no_grad():
                expected = [output.numpy() for output in whole(*tensors)]
            arrays = dict(zip(whole.inputs, (tensor.numpy() for tensor in tensors), strict=True))
            pairs = zip(expected, map(np.asarray, session.run(whole.outputs, arrays)), strict=True)
            differences = [np.abs(one - other).max() / max(1.0, np.abs(one).max()) for one, other in pairs]
            off = float(np.max(differences))  # unlike max(), keeps NaN
            if not off <= TOLERANCE:
                raise DataError(
                    f"The ONNX graph is wrong: for {rows} rows of {length} tokens its outputs are off by {off:.2g}",
                    allowed=f"at most {TOLERANCE:g} of the largest output",
                    remedy="Nothing was written; try other versions of onnx, onnxscript and onnxruntime",
                )
            largest = max(largest, off)
    return largest


def _drawn(rows: int, length: int, vocabulary_size: int, n_segments: int, generator: torch.Generator) -> list[Tensor]:
    """Return random tokens and segments; all rows but the first end in padding of any length."""
    shape = (rows, length)
    kept = torch.randint(1, length + 1, (rows, 1), generator=generator)
    kept[0] = length
    ids = torch.randint(vocabulary_size, shape, generator=generator)
    tensors = [ids, (torch.arange(length) < kept).long()]
    return [*tensors, torch.randint(n_segments, shape, generator=generator)] if n_segments else tensors


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Suppress warnings and what `logger` logs below an error."""
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logger.setLevel(level)


def write_int8(graph: Path, path: Path) -> None:
    """Write the 32-bit `graph` to `path` with 8-bit weights and a scale for each channel.

    Activations are quantized dynamically, with one scale for each tensor, so a prediction depends a little on the other
    rows of its batch. The weights use 7 of the 8 bits: sums of two products then fit into 16 bits, where processors
    without VNNI keep them. In our own encoder, those of `EXACT` keep 32 bits.
    """
    import onnx
    from onnxruntime.quantization import quantize_dynamic

    model = onnx.load(graph)
    del model.graph.value_info[:]  # PyTorch's exporter leaves outdated shapes in it, which the quantizer would refuse
    exact = [node.name for node in model.graph.node if EXACT in _scopes(node)]
    for node in model.graph.node:
        del node.metadata_props[:]
    with _quiet(logging.getLogger()):  # it recommends a preparation that a graph from PyTorch does not need
        quantize_dynamic(
            model,
            path,
            op_types_to_quantize=QUANTIZED,
            nodes_to_exclude=exact,
            per_channel=True,
            reduce_range=True,
        )


def _scopes(node: onnx.NodeProto) -> str:
    """Return the names of the modules that a node belongs to, in one string; "" if the exporter noted none."""
    return next((note.value for note in node.metadata_props if note.key == SCOPES), "")


class GraphModel(nn.Module):
    """The graph at `path`, run with as many threads as PyTorch has; `shape` is the exported model, without weights.

    Raises DataError if onnxruntime cannot open it, SettingError if onnxruntime is not installed.
    """

    def __init__(self, path: Path, shape: EncoderWithHeads) -> None:
        super().__init__()
        self.n_parameters = shape.n_parameters
        self.parameters_by_part = shape.parameters_by_part
        self.labels_tokens = shape.token_head is not None
        self.window_pooling: WindowPooling | None = shape.window_pooling
        self.session = lru_cache(maxsize=4)(lambda threads: _session(path, threads))
        session = self.session(torch.get_num_threads())
        self.inputs = [one.name for one in session.get_inputs()]
        self.outputs = [one.name for one in session.get_outputs()]

    def forward(self, batch: Batch) -> Prediction:
        """Return logits for each row, or for each target position; see `EncoderWithHeads.forward`."""
        pieces = [self._outputs(*piece) for piece in _pieces(batch)]
        all_logits = [piece["logits"] for piece in pieces]
        if self.labels_tokens:
            length = batch.input_ids.shape[1]
            padded = [nn.functional.pad(logits, (0, 0, 0, length - logits.shape[1])) for logits in all_logits]
            return Prediction(token_logits=torch.cat(padded).flatten(0, 1).index_select(0, batch.target_positions))
        logits = torch.cat(all_logits)
        vectors = torch.cat([piece["vectors"] for piece in pieces]) if "vectors" in self.outputs else None
        if batch.row_of_sequence is not None and self.window_pooling is not None:
            logits = pool_windows(logits, batch.row_of_sequence, len(batch), self.window_pooling)
            if vectors is not None:
                vectors = pool_windows(vectors, batch.row_of_sequence, len(batch), "mean")
        return Prediction(sequence_logits=logits, sequence_vectors=vectors)

    def _outputs(self, ids: np.ndarray, mask: np.ndarray, segments: np.ndarray) -> dict[str, Tensor]:
        columns = {"input_ids": ids, "attention_mask": mask, "token_type_ids": segments}
        session = self.session(torch.get_num_threads())  # with fewer if several batches are computed at a time
        values = session.run(self.outputs, {name: columns[name] for name in self.inputs})
        return {name: torch.from_numpy(np.asarray(value)) for name, value in zip(self.outputs, values, strict=True)}


def _session(path: Path, threads: int) -> onnxruntime.InferenceSession:
    if find_spec("onnxruntime") is None:
        needed = f"{path.parent} needs onnxruntime, which is not installed"
        raise SettingError(needed, remedy='Run pip install "encoderlab[onnx]"')
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(
            path, options, providers=["CPUExecutionProvider"], disabled_optimizers=SLOWER
        )
    except Exception as error:  # of one of nine types, which have no common ancestor of onnxruntime's own
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{path} cannot be opened by onnxruntime: {reason}", remedy="Export it again") from None


def _pieces(batch: Batch) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield ids, mask and segments of a few sequences at a time, trimmed to the longest one."""
    ids = batch.input_ids.long().numpy()
    segments = batch.token_type_ids.long().numpy()
    mask = np.ones_like(ids) if batch.attention_mask is None else batch.attention_mask.long().numpy()
    rows = max(TOKENS_AT_A_TIME // max(ids.shape[1], 1), 1)
    for start in range(0, len(ids), rows):
        some = slice(start, start + rows)
        longest = max(int(mask[some].sum(axis=1).max()), 1)
        yield ids[some, :longest], mask[some, :longest], segments[some, :longest]
