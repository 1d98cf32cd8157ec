"""What docs/evaluate_and_compare.md promises: the same weights, bit for bit, from any process on the same build, instructions
and threads.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from encoderlab.system.device import set_up_compute
from tests.golden.runs import CASES, known

RUNS = Path(__file__).parent / "golden" / "runs.py"


def started(*arguments):
    return subprocess.Popen([sys.executable, str(RUNS), *arguments], stdout=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def found():
    """Return the hashes of four processes, run two at a time."""
    pairs = {
        "1 thread": [("--threads", "1")] * 2,
        "2 threads": [("--threads", "2"), ("--threads", "2", "training.deterministic=true")],
    }
    printed = {}
    for name, arguments in pairs.items():
        processes = [started(*each) for each in arguments]
        printed[name] = [json.loads(process.communicate()[0]) for process in processes]
    return printed


@pytest.mark.slow
@pytest.mark.parametrize("case", [" ".join(case) for case in CASES])
def test_two_processes_train_the_same_weights(found, case):
    first, second = found["1 thread"]
    assert first["hashes"][case] == second["hashes"][case]


@pytest.mark.slow
@pytest.mark.parametrize("case", [" ".join(case) for case in CASES])
def test_two_threads_train_the_same_weights_where_the_usual_kernels_are_deterministic(found, case):
    first, second = found["2 threads"]
    assert first["hashes"][case] == second["hashes"][case]


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_the_weights_match_the_record_for_this_build_instruction_set_and_threads(found, threads):
    first = found[f"{threads} thread{'s' * (threads > 1)}"][0]
    recorded = known().get(first["depends_on"])
    if recorded is None:
        pytest.skip(
            f"nothing is recorded for {first['depends_on']}: python tests/golden/runs.py --threads {threads} --record adds it"
        )
    assert first["hashes"] == recorded


@pytest.fixture
def process_settings():
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(False)
    torch.backends.cudnn.deterministic = False


def test_the_setting_reaches_pytorch_and_is_reported(process_settings):
    compute = set_up_compute("cpu", "fp32", 1, deterministic=True)
    assert torch.are_deterministic_algorithms_enabled()
    assert torch.backends.cudnn.deterministic
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"], "importing encoderlab sets it"
    assert str(compute).endswith(", 1 thread, deterministic kernels")
    assert "deterministic" not in str(set_up_compute("cpu", "fp32", 1))
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no CUDA card here: what is promised on one is tried where there is one"
)
def test_two_processes_train_the_same_weights_on_a_gpu():
    runs = [started("training.deterministic=true", "training.device=cuda") for _ in range(2)]
    first, second = (json.loads(process.communicate()[0]) for process in runs)
    assert first["hashes"] == second["hashes"]
