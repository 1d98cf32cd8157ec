"""Checks that all processes of a run read the same rows with the same tokenizer, and compute alike."""

from __future__ import annotations

from collections.abc import Mapping

from encoderlab.errors import DataError
from encoderlab.runs.models.assembly import Assembly
from encoderlab.system.processes import check_agreement

PRECISION_AND_THREADS = (
    "Set training.threads and training.precision (eval: threads, precision) to what every machine supports"
)


def check_same_parts(assembly: Assembly, fingerprints: Mapping[str, str]) -> None:
    """Compare data (`fingerprints` has a hash for each split), tokenizer, precision and threads.

    All processes call it. Raises DataError or SettingError, naming the machine, if one of them differs from the main
    process.
    """
    processes, compute = assembly.processes, assembly.compute
    rows = {f"other {split} data, with hash": fingerprint for split, fingerprint in fingerprints.items()}
    check_agreement(processes, rows, "Copy the same files to every machine", DataError)
    tokenizer = {"another tokenizer, with hash": assembly.tokenizer.fingerprint}
    check_agreement(processes, tokenizer, "Empty the cache (cache_dir) of that machine", DataError)
    kind = {"device": compute.device.type, "precision": str(compute.precision).removeprefix("torch.")}
    check_agreement(processes, {**kind, "threads": compute.threads}, PRECISION_AND_THREADS)
