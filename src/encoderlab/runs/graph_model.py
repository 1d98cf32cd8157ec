"""An exported ONNX graph used like a model: it takes the same batches and returns the same predictions, computed by
onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import torch
from torch import Tensor, nn

from encoderlab.batch import Batch, Prediction, WindowPooling
from encoderlab.config.commands import OpenRunConfig
from encoderlab.errors import DataError, SettingError
from encoderlab.exchange.onnx import SLOWER
from encoderlab.model.heads import EncoderWithHeads
from encoderlab.model.pooling import pool_windows
from encoderlab.system.device import Compute, choose_compute
from encoderlab.system.processes import Processes
from encoderlab.training.config import Precision

if TYPE_CHECKING:
    import onnxruntime


TOKENS_AT_A_TIME = 512  # in 8 bits, 4,096 took 1.2 times as long: a layer's activations then exceed the cache


class GraphModel(nn.Module):
    """The graph at `path`, run with as many threads as PyTorch has; `shape` is the model that was exported, without
    weights.

    Raises DataError if onnxruntime cannot open it, SettingError if onnxruntime is not installed.
    """

    def __init__(self, path: Path, shape: EncoderWithHeads) -> None:
        super().__init__()
        self.path, self.separates_pairs = path, shape.separates_pairs
        self.window_pooling: WindowPooling | None = shape.window_pooling
        self.masked_token_head = None  # no task has one
        self.of_tokens = shape.token_head is not None
        self.n_parameters, self._by_part = shape.n_parameters, shape.parameters_by_part()
        self._opening = Lock()
        session = _session(path)
        self._sessions = {torch.get_num_threads(): session}
        self.inputs = [given.name for given in session.get_inputs()]

    def parameters_by_part(self) -> dict[str, int]:
        """Return the number of parameters by part, as the model that was exported had them."""
        return self._by_part

    @property
    def encoder(self) -> NoReturn:
        """Raise DataError, because a graph can only predict."""
        raise DataError(
            f"{self.path.parent} contains an ONNX graph without weights, which only predict and serve can open",
            remedy="Use the run it was exported from",
        )

    def forward(self, batch: Batch) -> Prediction:
        """Return logits for each row, or for each target position; see `EncoderWithHeads.forward`."""
        found = [self._logits(*piece) for piece in _pieces(batch)]
        if self.of_tokens:
            length = batch.input_ids.shape[1]
            padded = [nn.functional.pad(logits, (0, 0, 0, length - logits.shape[1])) for logits in found]
            return Prediction(token_logits=torch.cat(padded).flatten(0, 1).index_select(0, batch.target_positions))
        logits = torch.cat(found)
        if batch.row_of_sequence is not None and self.window_pooling is not None:
            logits = pool_windows(logits, batch.row_of_sequence, len(batch), self.window_pooling)
        return Prediction(sequence_logits=logits)

    def _logits(self, ids: np.ndarray, mask: np.ndarray, segments: np.ndarray) -> Tensor:
        columns = {"input_ids": ids, "attention_mask": mask, "token_type_ids": segments}
        (logits,) = self._opened().run(["logits"], {name: columns[name] for name in self.inputs})
        return torch.from_numpy(np.asarray(logits))

    def _opened(self) -> onnxruntime.InferenceSession:
        """Return the graph opened for PyTorch's present number of threads: alone, or one of several at a time."""
        with self._opening:
            threads = torch.get_num_threads()
            if threads not in self._sessions:
                self._sessions[threads] = _session(self.path)
            return self._sessions[threads]


def _session(path: Path) -> onnxruntime.InferenceSession:
    if find_spec("onnxruntime") is None:
        needed = f"{path.parent} needs onnxruntime, which is not installed"
        raise SettingError(needed, remedy='Run pip install "encoderlab[onnx]"')
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = torch.get_num_threads(), 3
    try:
        return onnxruntime.InferenceSession(
            path, options, providers=["CPUExecutionProvider"], disabled_optimizers=SLOWER
        )
    except Exception as error:  # of one of nine types, which have no common ancestor of onnxruntime's own
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{path} cannot be opened by onnxruntime: {reason}", remedy="Export it again") from None


def _pieces(batch: Batch) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield ids, mask and segments of a few sequences at a time, trimmed to the longest one."""
    ids, segments = batch.input_ids.long().numpy(), batch.token_type_ids.long().numpy()
    mask = np.ones_like(ids) if batch.attention_mask is None else batch.attention_mask.long().numpy()
    rows = max(TOKENS_AT_A_TIME // max(ids.shape[1], 1), 1)
    for start in range(0, len(ids), rows):
        some = slice(start, start + rows)
        longest = max(int(mask[some].sum(axis=1).max()), 1)
        yield ids[some, :longest], mask[some, :longest], segments[some, :longest]


def compute_to_answer(run: OpenRunConfig, width: int, processes: Processes, *, graph: bool) -> Compute:
    """Return device and precision for a finished run; a graph always runs on the CPU. Raises SettingError, see
    `choose_compute`.
    """
    device, precision = run.device, run.precision.value
    if graph:
        if device not in ("auto", "cpu") or run.precision is Precision.bf16:
            wrong = f"precision={precision}" if device in ("auto", "cpu") else f"device={device}"
            raise SettingError(
                f"{wrong} does not work with {run.run}, an ONNX graph", allowed="device=cpu precision=fp32"
            )
        device, precision = "cpu", "fp32"
    compute = choose_compute(device, precision, run.threads, width=width, setting="device", processes=processes)
    return replace(compute, reason="outside the ONNX graph") if graph else compute
