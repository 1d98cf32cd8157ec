"""Sweeps: every job runs even if one fails, finished runs are not repeated, unfinished ones resume bit for bit."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from encoderlab.errors import SettingError, UserError
from encoderlab.system.processes import Interrupted
from tests.apps.comparing.conftest import TINY
from tests.run_files import report_of


def settings_of(run):
    """Return the settings in a run's config.yaml."""
    return yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))


@pytest.fixture
def sweep_with_a_failure(sweep, capfd):
    """Run a sweep of which one job fails, and return what it printed to people."""
    with pytest.raises(UserError) as ended:
        sweep("seed=1", "model.n_heads=1,5")
    assert ended.value.exit_code == 2
    return capfd.readouterr().err


def test_a_failed_job_is_named_and_tried_again_and_the_other_runs_once(sweep, sweep_with_a_failure, capfd):
    assert "model.n_heads=5" in sweep_with_a_failure and "Traceback" not in sweep_with_a_failure
    (run,) = Path("sweep").glob("*/report.json")
    before = run.stat().st_mtime_ns
    runs = sweep("seed=1", "model.n_heads=1,2")
    assert {settings_of(one)["model"]["n_heads"] for one in runs} == {1, 2}
    assert run.stat().st_mtime_ns == before
    printed = capfd.readouterr().err
    assert f"finished before: {run.parent}" in printed
    assert "Token accuracy of 2 runs of reverse" in printed
    assert all(Path(f"sweep/compare.{kind}").is_file() for kind in ("html", "json"))


def test_each_failed_job_has_a_line_and_hydra_adds_none(sweep, capfd):
    with pytest.raises(UserError) as ended:
        sweep("seed=1", "training.epochs=-1,1,-2", "training.steps=null")
    printed = capfd.readouterr().err
    assert ended.value.exit_code == 2 and "epochs=-1" in str(ended.value) and "epochs=-2" in str(ended.value)
    for value in ("-1", "-2"):
        assert any(f"training.epochs={value}: failed" in line for line in printed.splitlines())
    assert "Error executing job" not in printed and len(list(Path("sweep").glob("*/report.json"))) == 1


def test_the_line_that_repeats_a_job_has_what_the_sweep_set(sweep, command):
    widths = "model.d_model=16,32"
    run = sweep(widths, "model.n_heads=1", "training.precision=auto")[0]
    line = json.loads((run / "environment.json").read_text())["overrides"]
    command("train", *line, "run_dir=alone")
    settings = [settings_of(one)["training"] for one in (run, Path("alone"))]
    assert settings[0] == settings[1] and settings[0]["measure"] is False
    assert "training.measure=false" in (run / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(("varied", "weight"), [("model.n_layers=1,2", 0), ("seed=1,2", None)])
def test_jobs_that_differ_in_the_network_have_no_linear_model_beside_it(command, varied, weight):
    smallest = ("model=tiny", "model.d_model=16", "model.n_heads=1", "dataset.limit=60", "training.steps=2")
    line = ("task=intents", "training=smoke", *smallest, "training.threads=1", "baselines=false")
    command("train", "-m", *line, varied, "sweep_dir=sweep")
    folders = [path.parent for path in Path("sweep").glob("*/report.json")]
    assert [settings_of(folder)["task"]["linear_weight"] for folder in folders] == [weight, weight]


def test_a_job_whose_report_is_cut_off_is_named_in_one_line(sweep, capfd):
    run = sweep("seed=1,2")[0]
    report = (run / "report.json").read_text(encoding="utf-8")
    (run / "report.json").write_text(report[: len(report) // 2], encoding="utf-8")
    capfd.readouterr()
    with pytest.raises(UserError) as ended:
        sweep("seed=1,2")
    assert ended.value.exit_code == 3
    printed = capfd.readouterr().err
    assert "Traceback" not in printed and any(str(run / "report.json") in line for line in printed.splitlines())


def test_what_only_watches_a_run_makes_it_no_other_job(sweep, capfd):
    (run,) = sweep("seed=1")
    capfd.readouterr()
    watching = ("tensorboard=true", "training.log_every=1", "training.checkpoint_every=2", "training.keep_state=true")
    assert sweep("seed=1", *watching) == [run]
    assert f"finished before: {run}" in capfd.readouterr().err
    assert len(sweep("seed=1", "training.learning_rate=0.01")) == 2


@pytest.mark.slow
def test_a_sweep_may_begin_from_a_run(sweep, command):
    (run,) = sweep("seed=1")
    command("train", "-m", f"config={run}", "seed=1,2", "sweep_dir=further")
    runs = sorted(Path("further").glob("*/config.yaml"))
    assert [settings_of(path.parent)["training"]["steps"] for path in runs] == [4, 4]


@pytest.mark.slow
def test_a_sweep_prints_a_line_for_each_job_and_one_table(sweep, capfd):
    runs = sweep("seed=1,2")
    printed = capfd.readouterr()
    assert printed.out == ""
    lines = [line for line in printed.err.splitlines() if line.startswith("encoderlab: seed=")]
    assert [line.partition(":")[2].split()[0] for line in lines] == ["seed=1:", "seed=2:"]
    for run in runs:
        score = report_of(run)["splits"]["test"]["token_accuracy"]
        assert any(f"{score:.4g} on test" in line and str(run) in line for line in lines)
    assert printed.err.count("95% interval") == 2, "of the column and of the difference, in one table"
    logs = [log.read_text(encoding="utf-8") for log in Path("sweep/logs").iterdir()]
    assert len(logs) == 2 and all("run folder" in log.lower() for log in logs)


@pytest.mark.slow
def test_an_interrupted_sweep_resumes_its_run_bit_for_bit(sweep, command, stop_after, capfd):
    command("train", *TINY, "seed=1", "run_dir=whole")
    stop_after(2)
    with pytest.raises(Interrupted):
        sweep("seed=1,2")
    stop_after(-1)
    assert "Resume with: encoderlab train -m" in (printed := capfd.readouterr().err) and "sweep_dir=sweep" in printed
    first, second = sorted(sweep("seed=1,2"), key=lambda run: report_of(run)["seed"])
    assert report_of(second)["seed"] == 2
    weights = "model/model.safetensors"
    assert (first / weights).read_bytes() == Path("whole", weights).read_bytes()


@pytest.mark.slow
def test_jobs_run_in_parallel_processes_with_a_log_each(sweep, capfd):
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher", reason="pip install 'encoderlab[parallel]'")
    with pytest.raises(UserError):
        sweep("hydra/launcher=parallel", "hydra.launcher.n_jobs=2", "model.n_heads=1,2,5")
    assert len(list(Path("sweep").glob("*/report.json"))) == 2
    assert "Token accuracy of 2 runs of" in capfd.readouterr().err
    assert any("on test" in log.read_text() for log in Path("sweep/logs").glob("*.log"))


@pytest.mark.slow
def test_a_sweep_of_dry_runs_writes_nothing(command, tmp_path, capfd):
    command("train", *TINY, "-m", "seed=1,2", "dry_run=true")
    assert capfd.readouterr().out.count("only the cache is written") == 2
    assert not list(tmp_path.iterdir())


def test_a_launcher_and_a_callback_of_ones_own_are_called_as_in_any_hydra_project(tmp_path, cache):
    (tmp_path / "hydra_plugins").mkdir()  # the only package in which Hydra looks for launchers
    (tmp_path / "hydra_plugins" / "mine.py").write_text(
        "from hydra.experimental.callback import Callback\n"
        "from hydra._internal.core_plugins.basic_launcher import BasicLauncher\n"
        "class Shouting(Callback):\n"
        "    def on_job_start(self, config, **_): print('CALLED', config.seed)\n"
        "class Own(BasicLauncher):\n"
        "    def launch(self, job_overrides, initial_job_idx):\n"
        "        print('LAUNCHED', len(job_overrides))\n"
        "        return super().launch(job_overrides, initial_job_idx)\n"
    )
    arguments = [
        "+hydra.callbacks.mine._target_=hydra_plugins.mine.Shouting",
        "hydra.launcher._target_=hydra_plugins.mine.Own",
    ]
    line = [sys.executable, "-m", "encoderlab", "train", "-m", *TINY, "training.epochs=-1", "seed=3,4", *arguments]
    environment = {"PYTHONPATH": ":".join([str(tmp_path), *sys.path]), "ENCODERLAB_CACHE": str(cache)}
    done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2, "refused, after they were called"
    assert [word in done.stdout for word in ("LAUNCHED 2", "CALLED 3", "CALLED 4")] == [True] * 3


def test_a_refused_sweep_leaves_the_folders_that_were_there(command, tmp_path):
    (tmp_path / "mine" / "multirun").mkdir(parents=True)
    with pytest.raises(SettingError):
        command("train", "-m", *TINY, "seed=1,2", "model.n_headss=1", "sweep_dir=mine/multirun/new")
    assert (tmp_path / "mine" / "multirun").is_dir() and not (tmp_path / "mine" / "multirun" / "new").exists()
