"""What processes compare before the first step."""

from types import SimpleNamespace

import torch

from encoderlab.errors import DataError
from encoderlab.runs.models import same_parts
from encoderlab.system.processes import Processes


def test_data_and_tokenizer_are_compared_before_precision_and_threads(monkeypatch):
    compared = []
    monkeypatch.setattr(
        same_parts,
        "check_agreement",
        lambda processes, facts, remedy, error=None: compared.append((list(facts.values()), error)),
    )
    compute = SimpleNamespace(device=torch.device("cpu"), precision=torch.bfloat16, threads=3)
    assembly = SimpleNamespace(processes=Processes(0, 2), compute=compute, tokenizer=SimpleNamespace(fingerprint="abc"))
    same_parts.check_same_parts(assembly, {"train": "123", "validation": "456"})
    assert compared == [(["123", "456"], DataError), (["abc"], DataError), (["cpu", "bfloat16", 3], None)]
