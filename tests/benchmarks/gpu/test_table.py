"""The page of a measurement on a GPU: agreement, resuming, speeds, and what is missing."""

from benchmarks.gpu.measure import what_is_wrong
from benchmarks.gpu.table import gpu_table

MADE = {
    "date": "2030-01-02",
    "machine": {"processor": "Abacus", "cores": 1},
    "versions": {},
    "git": {"commit": None, "dirty": False},
    "device": "NVIDIA H100",
    "minutes": 8.0,
}
FP32 = {
    "name": "fp32",
    "steps": 12,
    "first_loss": 9e-7,
    "loss": 3e-6,
    "gradient_norm": 2e-3,
    "first_bound": 2e-5,
    "bound": 1e-4,
}
RESUMED = {"name": "resumed", "steps": 6, "losses_equal": True, "weights_equal": False, "passed": False}
SPEED = {
    "name": "mini_128, padded, compiled with CUDA graphs",
    **{"model": "mini", "length": 128, "batch_size": 1024, "packed": False, "compile": "cuda_graphs"},
    **{"tokens_per_second": 2.5e6, "padding": 0.08, "first_step_seconds": 31.0, "roof": 6e14, "mfu": 0.123},
}
RESULT = {
    **MADE,
    "agreement": [{**FP32, "passed": True}],
    "resume": [RESUMED],
    "speeds": [SPEED, {**SPEED, "packed": True, "compile": "never"}],
    "failed": [{"name": "base_128, packed, compiled", "reason": "Out of memory."}],
    "dropped": ["base_512, padded, compiled"],
}


def test_the_tables_show_agreement_exactness_and_speed():
    lines = gpu_table(RESULT).splitlines()
    assert "| fp32 | 9.0e-07 (at most 2e-05) | 3.0e-06 (at most 1e-04) | 0.2% | agrees |" in lines
    assert "| resumed | bit-identical | different | **failed** |" in lines
    speeds = [line for line in lines if line.startswith("| mini, 128")]
    assert (
        speeds[0] == "| mini, 128 | no | with CUDA graphs | 1,024 | 2,500,000 | 8.0% | 31 s | 600.00 TFLOP/s | 12.3% |"
    )
    assert speeds[1].startswith("| mini, 128 | yes | no |")


def test_failed_and_dropped_rows_are_named():
    table = gpu_table(RESULT)
    assert "**base_128, packed, compiled failed**: Out of memory." in table
    assert "Dropped, because 8 minutes were not enough: base_512, padded, compiled." in table
    assert what_is_wrong(RESULT) == ["resumed", "base_128, packed, compiled"]
    assert "Dropped" not in gpu_table({**RESULT, "dropped": []})
