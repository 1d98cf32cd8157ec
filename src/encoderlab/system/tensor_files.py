"""Files of tensors in the format of safetensors, written one tensor after another.

`safetensors.torch.save` holds all of them in memory twice more, which is a gigabyte of a model of a hundred languages;
its `save_file` does not, but names no error of the system, such as a full disk, and replaces what the path leads to.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
ALIGNMENT = 8  # bytes: the tensors begin at a multiple of it


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors on the CPU and wait until the file is on the disk. Raises OSError."""
    # Wider numbers come first, so that each tensor begins at a multiple of the size of its own.
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    with path.open("wb") as file:
        header = _header(tensors, order, metadata)
        file.write(len(header).to_bytes(8, "little"))
        file.write(header)
        for name in order:
            file.write(tensors[name].detach().contiguous().view(-1).view(torch.uint8).numpy().data)
        file.flush()
        os.fsync(file.fileno())


def _header(tensors: Mapping[str, Tensor], order: list[str], metadata: Mapping[str, str] | None) -> bytes:
    """Return the JSON that says of each tensor its type, its shape, and between which bytes it lies."""
    content: dict[str, object] = {} if metadata is None else {"__metadata__": dict(metadata)}
    end = 0
    for name in order:
        tensor = tensors[name]
        begin = end
        end += tensor.nbytes
        content[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
    encoded = json.dumps(content).encode()
    return encoded + b" " * (-len(encoded) % ALIGNMENT)
