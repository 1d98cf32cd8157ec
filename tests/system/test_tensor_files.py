"""Files of tensors: what is written is read back by safetensors, and an error names what the system refused."""

import errno
from pathlib import Path

import pytest
import safetensors
import torch
from safetensors.torch import load_file

from encoderlab.system.tensor_files import DTYPES, write_tensors


def test_safetensors_reads_every_type_and_shape(tmp_path):
    tensors = {f"of {dtype}": torch.ones(3, 2).to(dtype) for dtype in DTYPES}
    tensors |= {'a "name"': torch.zeros(0, 4), "number": torch.tensor(2.5, dtype=torch.float64)}
    tensors["transposed"] = torch.arange(6.0).view(2, 3).T
    write_tensors(tmp_path / "file.safetensors", tensors, {"format": "pt"})
    read = load_file(tmp_path / "file.safetensors")
    assert read.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert read[name].dtype is tensor.dtype and torch.equal(read[name], tensor), name
    with safetensors.safe_open(tmp_path / "file.safetensors", framework="pt") as opened:
        assert opened.metadata() == {"format": "pt"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a device that is always full")
def test_a_full_disk_is_named():
    with pytest.raises(OSError, match="No space left") as raised:
        write_tensors(Path("/dev/full"), {"a": torch.zeros(100_000)})
    assert raised.value.errno == errno.ENOSPC
