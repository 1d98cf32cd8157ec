"""Files of tensors in the format of safetensors, written one tensor after another; and tensors that nothing reads for a
while, kept in a file meanwhile.

`safetensors.torch.save` holds all of them in memory twice more, which is a gigabyte of a model of a hundred languages;
its `save_file` does not, but names no error of the system, such as a full disk, and replaces what the path leads to.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
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
WORTH_SETTING_ASIDE = 2**26  # bytes


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors on the CPU and wait until the file is on the disk. Raises OSError."""
    # Wider numbers come first, so that each tensor begins at a multiple of the size of its own.
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    with path.open("wb") as file:
        header = _header(tensors, order, metadata)
        file.write(len(header).to_bytes(8, "little"))
        file.write(header)
        for name in order:
            file.write(_bytes_of(tensors[name]))
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


def set_aside(tensors: Mapping[str, Tensor], folder: Path) -> dict[str, Tensor]:
    """Return the same tensors as parts of a mapped file in `folder`, which takes memory only as they are read.

    The file has no name and ends with the process. What is written to a tensor is in memory again. Few bytes, tensors
    on another device than the CPU, and those for which the disk has no room stay as they are.
    """
    if sum(tensor.nbytes for tensor in tensors.values()) < WORTH_SETTING_ASIDE:
        return dict(tensors)
    if any(tensor.device.type != "cpu" for tensor in tensors.values()):
        return dict(tensors)
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            begins = {}
            for name, tensor in tensors.items():
                begins[name] = file.tell()
                file.write(_bytes_of(tensor))
                file.write(bytes(-file.tell() % ALIGNMENT))
            file.flush()
            content = torch.from_numpy(np.memmap(file, np.uint8, "c"))
    except OSError:
        return dict(tensors)
    parts = {}
    for name, tensor in tensors.items():
        part = content[begins[name] : begins[name] + tensor.nbytes]
        parts[name] = part.view(tensor.dtype).view(tensor.shape)
    return parts


def _bytes_of(tensor: Tensor) -> memoryview:
    return tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().data
