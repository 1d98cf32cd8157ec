"""Fixtures of several test files: command lines in a temporary folder, finished runs to share, and the stand-in hub."""

import copy
import gc
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from hypothesis import settings
from omegaconf import OmegaConf

from tests.experiment_models import BRACKETS_MODEL, REVERSE_MODEL

# Tests run beside one another, and a thread of OpenMP that has nothing to do would keep a processor busy by waiting:
# two runs of two threads each took three times as long. It is read when PyTorch is loaded, here and in the processes
# that tests start.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# Nor does what else the machine does decide how many threads a test has, and so the last digits of its scores.
os.environ.setdefault(
    "OMP_NUM_THREADS", str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count())
)
# Property tests try the same examples in every run, so that what fails has been changed; those of a seed where one is
# given, as scripts/faults does, and `scripts/test -m hypothesis --hypothesis-seed=1`: Hypothesis would heed none
# otherwise. No deadline, no check of health for slowness: a busy machine is no failure. That is Hypothesis's own
# profile for CI, named, so that a desk gets it as well, and a seed is heeded in CI too, where `CI` in the environment
# makes that profile the one that others are made from.
settings.register_profile("repeat", settings.get_profile("ci"))
settings.register_profile("of a seed", settings.get_profile("ci"), derandomize=False)
settings.load_profile("repeat")
SHARED = Path(__file__).resolve().parents[2] / "shared"


def pytest_configure(config):
    """Collect garbage as rarely as `main` does, which most tests do not call: it costs one second in fifteen."""
    from encoderlab.cli.main import GARBAGE_EVERY

    gc.set_threshold(GARBAGE_EVERY)
    if config.getoption("--hypothesis-seed") is not None:
        settings.load_profile("of a seed")


def pytest_collection_finish():
    """Exempt the millions of objects of libraries and tests from every later collection, as a fit does."""
    gc.freeze()


def pytest_sessionfinish():
    """Exempt what the tests have left from the last collections, which take seconds, as `main` does at its end."""
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def signals_as_a_shell_gives_them():
    """Restore signal handling: under `nohup` or in the background of a script, a process starts out ignoring signals,
    and so do its children.
    """
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


@pytest.fixture(scope="session", autouse=True)
def temporary_files_end_with_the_tests(tmp_path_factory):
    """Remove the folders torchrun and killed processes leave. Not in `tmp_path`, whose path is too long for a socket."""
    tmp_path_factory.getbasetemp()  # where failed tests are kept: outside
    with (
        tempfile.TemporaryDirectory(prefix="tests-", ignore_cleanup_errors=True) as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", None)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk():
    """Do not wait until files are on the disk, 4 ms for each of a run's dozens; trials in `faults` lose power, the
    tests do not.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def cheap_composition():
    """Parse each YAML file once, and do not copy the store of schemas before each of a thousand compositions.

    Hydra does both for every command line, which takes a third of the time of composing it. It changes only copies of
    what is in the store, and here it gets a copy of what a file says, too.
    """
    from hydra.core.config_store import ConfigStore

    parse, parsed = OmegaConf.load, {}

    def load(file):
        try:
            state = os.fstat(file.fileno())
        except (AttributeError, OSError):  # a path, or no file of the system
            return parse(file)
        key = (state.st_dev, state.st_ino, state.st_mtime_ns, state.st_size)
        if key not in parsed:
            parsed[key] = parse(file)
        return copy.deepcopy(parsed[key])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ConfigStore, "__deepcopy__", lambda store, _: store, raising=False)
        patch.setattr(OmegaConf, "load", staticmethod(load))
        yield


@pytest.fixture(autouse=True)
def denormal_numbers():
    """Start each test with IEEE floats, whatever an earlier run in this process chose (device.py)."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_flush_denormal(False)


@pytest.fixture(scope="module")
def same_threads():
    """Restore the number of threads after each test file: it is global to the process."""
    import torch

    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def one_thread(same_threads):
    """Use one thread: models as small as those of the tests lose more by waiting for a second than they gain."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def plots_not_laid_out():
    """Draw plots without fitting their parts to one another, which takes half of the time; tests/reports looks at whole
    plots.
    """
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ConstrainedLayoutEngine, "execute", lambda engine, figure: None)
        yield


@pytest.fixture(scope="session")
def start_hub():
    """Return a function that starts a stand-in hub from its script, which serves the folders beside it, and returns its
    endpoint.
    """
    started = []

    def start(script, *options):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        started.append(subprocess.Popen([sys.executable, str(script), "--port", str(port), *options]))
        endpoint = f"http://127.0.0.1:{port}"
        for _ in range(100):
            try:
                urllib.request.urlopen(endpoint, timeout=5).close()
                return endpoint
            except urllib.error.URLError:
                time.sleep(0.1)
        raise AssertionError(f"{script} does not answer")

    yield start
    for process in started:
        process.terminate()
        process.wait()


@pytest.fixture(scope="session")
def hub_script():
    """Return the path of the stand-in hub's script."""
    script = SHARED / "hub" / "serve.py"
    if not script.is_file():
        pytest.skip("no stand-in hub: ../shared/hub/serve.py is not there")
    return script


@pytest.fixture(scope="session")
def hub(start_hub, hub_script):
    """Return the endpoint of the stand-in hub: SST-2, Amazon polarity, Wikipedia. Libraries read HF_ENDPOINT once, when
    imported.
    """
    return start_hub(hub_script)


@pytest.fixture
def no_network(monkeypatch):
    """Make any attempt to open a network connection fail, even to this machine."""

    def refuse(*_, **__):
        raise OSError(101, "Network is unreachable")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture(scope="module")
def symbolic_sizes():
    """Let sizes be symbolic, as during tracing: the shape checks do not accept symbols as numbers."""
    import jaxtyping

    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="session")
def stand_in_encoders(tmp_path_factory):
    """Return a folder of encoders with a tiny mini-en of random weights, written like the real one."""
    import torch

    from encoderlab.config.commands import RunConfig
    from encoderlab.data.built_in import BracketsDataset
    from encoderlab.data.tokenizer_config import WordPieceConfig
    from encoderlab.models.folder import encoder_alone, write_model
    from encoderlab.models.model import UNASSIGNED, Model, Provenance
    from encoderlab.network.config import HeadSizes, ModelConfig, Pairs
    from encoderlab.network.heads import EncoderWithHeads
    from encoderlab.tasks.classification import ClassificationConfig
    from encoderlab.training.config import TrainingConfig

    folder = tmp_path_factory.mktemp("encoders")
    (folder / "mini-en").mkdir()
    texts = ["a warm and witty film, number 7 of ten", "a dull empty mess: ( ) and nothing else"]
    wordpiece = WordPieceConfig(vocabulary_size=200, min_frequency=1)
    tokenizer = wordpiece.build(lambda: texts, tmp_path_factory.mktemp("tokenizer"))
    model = ModelConfig(n_layers=1, d_model=16, n_heads=2, max_length=32, pairs=Pairs.separate)
    task = ClassificationConfig(name="films")
    torch.manual_seed(0)
    network = EncoderWithHeads(model, tokenizer.vocabulary_size, tokenizer.pad_id, HeadSizes(sequence_classes=2))
    built = task.build(tokenizer, ["a", "b"], model.reach)
    config = RunConfig(str(folder), task, BracketsDataset(), wordpiece, model, TrainingConfig())
    provenance = Provenance({"step": 7, "chosen_by": "accuracy", "chosen_on": "validation"}, True, {"train": "0"})
    encoder = encoder_alone(Model(config, built, network, UNASSIGNED, provenance), "mini-en")
    write_model(folder / "mini-en", encoder, encoder.weights, {"format": "pt"})
    card = "---\nlicense: cc-by-sa-4.0\n---\n# mini-en\n\nA stand-in of drawn weights.\n"
    (folder / "mini-en" / "README.md").write_text(card, encoding="utf-8")
    return folder


@pytest.fixture
def shipped(stand_in_encoders, tmp_path_factory, monkeypatch):
    """Return a copy of the stand-in that a test can damage; encoderlab ships it for the length of the test."""
    copy = shutil.copytree(stand_in_encoders, tmp_path_factory.mktemp("shipped") / "encoders")
    monkeypatch.setattr("encoderlab.shipped.FOLDER", copy)
    return copy / "mini-en"


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """One cache for the whole session."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def command(tmp_path, monkeypatch, cache):
    """Run a command line in a temporary folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENCODERLAB_CACHE", str(cache))
    return run


def run(*arguments):
    """Run one command line."""
    from encoderlab.cli import main as cli

    before = sys.argv
    try:
        cli.run([str(argument) for argument in arguments])
    finally:
        sys.argv = before


@pytest.fixture
def printed(command, capsys):
    """Run a command line and return the JSON that it prints."""

    def read(*arguments):
        capsys.readouterr()
        command(*arguments)
        return json.loads(capsys.readouterr().out)

    return read


@pytest.fixture(scope="session")
def run_in():
    """Run a command line with a cache folder, for fixtures that outlive a test."""

    def run_with(cache, *arguments):
        os.environ["ENCODERLAB_CACHE"] = str(cache)
        run(*arguments)

    return run_with


def trained(folder, cache, *arguments):
    """A finished run in `folder`."""
    os.environ["ENCODERLAB_CACHE"] = str(cache)
    run("train", *arguments, "training.threads=1", f"run_dir={folder}")
    return folder


@pytest.fixture(scope="session")
def brackets_run(tmp_path_factory, cache):
    """A finished run that classifies whole texts."""
    folder = tmp_path_factory.mktemp("runs") / "brackets"
    return trained(folder, cache, "task=brackets", *BRACKETS_MODEL, "training=smoke", "dataset.limit=300")


@pytest.fixture(scope="session")
def reverse_run(tmp_path_factory, cache):
    """A finished run that labels each word."""
    folder = tmp_path_factory.mktemp("runs") / "reverse"
    return trained(folder, cache, "task=reverse", *REVERSE_MODEL, "training=smoke", "dataset.limit=300")


@pytest.fixture(scope="session")
def pairs_run(tmp_path_factory, cache):
    """A finished run on pairs of texts from a file."""
    folder = tmp_path_factory.mktemp("runs")
    rows = [f'"title {n}","body {n % 7}",{("up", "down")[n % 2]}' for n in range(80)]
    (folder / "rows.csv").write_text("\n".join(["title,body,way", *rows]) + "\n", encoding="utf-8")
    columns = ("dataset.text=title", "dataset.text_pair=body", "dataset.label=way", "tokenizer.vocabulary_size=120")
    arguments = (
        "task=classification",
        "dataset=files",
        f"dataset.path={folder / 'rows.csv'}",
        *columns,
        "training=smoke",
    )
    return trained(folder / "pairs", cache, *arguments, "model=tiny", "dataset.test_fraction=0.2")


@pytest.fixture
def stop_after(monkeypatch):
    """Return a function that makes runs receive SIGTERM during a step."""
    from encoderlab.runs.journal import Journal
    from encoderlab.system import processes as interruption

    count = Journal.step

    def stop(step):
        interruption._Received.number = None

        def interrupted(self, done):
            count(self, done)
            interruption._Received.number = signal.SIGTERM if done.number == step else None

        monkeypatch.setattr(Journal, "step", interrupted)

    yield stop
    interruption._Received.number = None


@pytest.fixture
def stopped(command, stop_after):
    """Return a function that starts a training run and stops it after a step."""
    from encoderlab.system.processes import Interrupted

    def start(*arguments, step=5):
        stop_after(step)
        with pytest.raises(Interrupted):
            command("train", *arguments)
        stop_after(-1)

    return start
