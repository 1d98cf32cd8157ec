"""Each command loads nothing heavy that it does not use, so that it starts at once."""

import subprocess
import sys

import pytest

COMPILER = {"torch._dynamo", "torch._inductor", "sympy", "triton"}
STATISTICS = {"sklearn", "scipy", "pandas"}
DRAWING = {"matplotlib", "jinja2"}
WINDOWS = {"matplotlib.pyplot"}  # figures are written to files, without the state and the backends that pyplot manages
SOURCES = {"pyarrow", "datasets", "transformers", "huggingface_hub", "nltk"}
SETTINGS = {"torch", "hydra", "omegaconf", "numpy", "tokenizers", "yaml"}  # what takes 0.3 s and more
HEAVY = COMPILER | STATISTICS | DRAWING | WINDOWS | SOURCES
LINE = """
import sys
from encoderlab.cli.main import run
run({arguments!r})
print("loaded", *sorted({heavy!r} & set(sys.modules)))
"""


def loaded_by(*arguments, heavy=HEAVY):
    """Return the heavy modules that a command loads, directly or not, in a new process."""
    code = LINE.format(arguments=list(arguments), heavy=heavy)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split()[1:])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return a run and the modules that training it loaded."""
    run = tmp_path_factory.mktemp("loaded") / "run"
    rows = [f"dataset.{split}_rows=16" for split in ("train", "validation", "test")]
    sizes = [
        "model.n_layers=1",
        "model.d_model=16",
        "training.steps=2",
        "training.precision=fp32",
        "training.threads=1",
    ]
    return run, loaded_by("train", "task=brackets", "training=smoke", *rows, *sizes, f"run_dir={run}")


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["list"]], ids=" ".join)
def test_commands_that_only_read_settings_load_nothing_heavy(arguments):
    assert loaded_by(*arguments, heavy=HEAVY | SETTINGS) == set()


@pytest.mark.slow
def test_predict_and_embed_load_pytorch_and_little_else(trained, tmp_path):
    run, _ = trained
    assert loaded_by("predict", f"run={run}", "text=()()") == set()
    (tmp_path / "texts.txt").write_text("()()\n")
    embedded = loaded_by("embed", f"run={run}", f"input={tmp_path / 'texts.txt'}", f"output={tmp_path / 'vectors.npy'}")
    assert embedded <= {"pyarrow"}


@pytest.mark.slow
def test_training_loads_no_compiler_if_nothing_is_compiled(trained):
    _, loaded = trained
    assert loaded & (COMPILER | WINDOWS) == set()
    assert loaded & {"transformers", "nltk"} == set()
    assert loaded >= STATISTICS | DRAWING, "the baselines and the report need them: the names are still right"


def test_serving_holds_no_reader_of_tables_in_memory():
    line = f"import sys, encoderlab.apps.serving.serve; print('loaded', *sorted({HEAVY!r} & {{*sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True)
    assert {*done.stdout.split()[1:]} <= {"jinja2"}
