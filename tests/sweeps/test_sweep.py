"""Sweeps: every job runs even if one fails, finished jobs are not repeated, unfinished ones resume, a search knows its
trials.
"""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins

from encoderlab.cli import main as cli
from encoderlab.config.commands import RunConfig
from encoderlab.errors import DataError, SettingError
from encoderlab.runs.folder import RunFolder
from encoderlab.runs.folders.sweep import FAILED, FINISHED, RUNNING, STOPPED, JobRecord, SweepError, SweepFolder
from encoderlab.runs.journal import Journal
from encoderlab.sweeps.sweep import Sweep, is_finished
from encoderlab.system import signals as interruption
from encoderlab.system.signals import Interrupted
from tests.sweeps.conftest import TINY


@pytest.mark.slow
def test_a_sweep_of_dry_runs_tries_each_job_out_and_writes_nothing(tmp_path, sweep, capsys):
    with pytest.raises(SweepError, match=r"^1 of 3 jobs failed. Fix it and run the same line.$"):
        sweep("seed=1,2,-1 dry_run=true")
    printed = capsys.readouterr()
    assert printed.out.count("dry run: only the cache is written") == 2 and "not compared" not in printed.err
    assert not list(tmp_path.iterdir())
    with pytest.raises(SettingError, match="no score to search by"):
        sweep("training.learning_rate=log(1e-4,1e-2) dry_run=true trials=2")


def test_a_failed_job_is_listed_with_its_reason_and_the_others_run(sweep, commands, capsys):
    called, raised = commands
    raised[2], raised[3] = DataError("There are no rows"), ValueError("a bug")
    with pytest.raises(SweepError) as ended:
        sweep("seed=1,2,3")
    assert [config.seed for config in called] == [1, 2, 3]
    assert ended.value.exit_code == DataError.exit_code
    assert str(ended.value).startswith("2 of 3 jobs failed. ")
    errors = capsys.readouterr().err
    assert "encoderlab: job 1 failed: seed=2" in errors and "There are no rows." in errors
    assert "ValueError: a bug" in errors
    raised.clear()
    records = sweep("seed=1,2,3")
    assert [config.seed for config in called] == [1, 2, 3, 2, 3]
    assert {record.state for record in records} == {FINISHED}
    assert {record.error for record in records} == {None}


@pytest.mark.slow
def test_a_sweep_without_its_failed_values_succeeds(sweep, commands):
    _, raised = commands
    raised[2] = DataError("There are no rows")
    with pytest.raises(SweepError):
        sweep("seed=1,2")
    assert [record.state for record in sweep("seed=1,3")] == [FINISHED, FAILED, FINISHED]


def test_refused_settings_are_a_failed_job_too(sweep, commands):
    with pytest.raises(SweepError) as ended:
        sweep("training.learning_rate=-1,1e-3")
    assert ended.value.exit_code == SettingError.exit_code
    failed, finished = SweepFolder(Path("sweep")).records()
    assert (failed.state, finished.state) == (FAILED, FINISHED)
    assert failed.error.startswith("training.learning_rate is -1.0")


@pytest.mark.slow
def test_an_interrupted_sweep_resumes_the_same_run_and_ends_with_a_table(sweep, monkeypatch, capsys):
    count = Journal.step

    def interrupted(self, done):
        count(self, done)
        interruption._Received.number = signal.SIGTERM if done.number == 2 else None

    monkeypatch.setattr(Journal, "step", interrupted)
    with pytest.raises(Interrupted):
        sweep("seed=1,2")
    interruption._Received.number = None
    assert (
        "Resume with: encoderlab train -m seed=1,2 " in (errors := capsys.readouterr().err)
        and "sweep_dir=sweep" in errors
    )
    (stopped,) = SweepFolder(Path("sweep")).records()
    assert stopped.state == STOPPED
    monkeypatch.setattr(Journal, "step", count)
    first, second = sweep("seed=1,2")
    assert (first.folder, first.state, second.state) == (stopped.folder, FINISHED, FINISHED)
    steps = [json.loads(line)["step"] for line in RunFolder(first.folder).metrics.read_text().splitlines()]
    assert steps == sorted(steps)
    assert "Token accuracy of 2 runs of reverse" in capsys.readouterr().err
    assert all(Path(f"sweep/compare.{kind}").is_file() for kind in ("html", "md", "csv", "json"))
    assert [record.folder for record in sweep("seed=1,2")] == [first.folder, second.folder]
    errors = capsys.readouterr().err
    assert "job 0 was finished before" in errors and "job 1 was finished before" in errors
    assert "Token accuracy of 2 runs of reverse" in errors


def test_a_job_whose_process_was_killed_after_its_report_is_finished(tmp_path):
    folder = RunFolder(tmp_path)
    record = JobRecord("a", 0, [], RUNNING, folder.root)
    assert not is_finished(record)
    folder.report.write_text("{}")
    assert is_finished(record)


def test_jobs_started_in_the_same_second_have_separate_folders(sweep, commands):
    called, _ = commands
    sweep("seed=range(3)")
    assert len({config.run_dir for config in called}) == 3


@pytest.mark.slow
def test_a_named_sweep_runs_its_values(sweep, commands):
    called, _ = commands
    sweep("sweep=seeds")
    assert [config.seed for config in called] == [0, 1, 2, 3, 4]


def test_explicit_values_override_those_of_a_named_sweep(sweep, commands):
    called, _ = commands
    sweep("sweep=seeds seed=7,8")
    assert [config.seed for config in called] == [7, 8]


def test_an_empty_sweep_dir_is_refused():
    with pytest.raises(SettingError, match="sweep_dir is empty"):
        cli.run(["train", "-m", "seed=1,2", "sweep_dir="])


def config_of(**training):
    from tests.test_configs import composed

    return composed(*(f"training.{name}={value}" for name, value in training.items()))


@pytest.mark.parametrize(
    ("cores", "jobs", "at_once", "threads"),
    [(8, 8, 8, 1), (8, 2, 8, 4), (2, 5, 4, 1), (8, 1, 8, None), (8, 4, 1, None)],
)
def test_parallel_jobs_share_the_cores(tmp_path, monkeypatch, cores, jobs, at_once, threads):
    monkeypatch.setattr("encoderlab.system.device.available_cores", lambda: cores)
    sweep = Sweep("train", SweepFolder(tmp_path), lambda *_: None, at_once=at_once)
    sweep.composed.update((str(number),) for number in range(jobs + 1))
    with sweep._share_of_the_machine(config_of(), 0) as settings:
        assert isinstance(settings, RunConfig)
        assert settings.training.threads == threads
    with sweep._share_of_the_machine(config_of(threads=3), 0) as settings:
        assert settings.training.threads == 3


def test_parallel_jobs_have_a_gpu_each_unless_a_device_is_set(tmp_path, monkeypatch):
    monkeypatch.setattr("encoderlab.system.device.count_gpus", lambda: 2)
    sweep = Sweep("train", SweepFolder(tmp_path), lambda *_: None, at_once=2)
    sweep.folder.jobs.mkdir()
    sweep.composed.update([("0",), ("1",), ("2",)])
    with sweep._share_of_the_machine(config_of(), 0) as first, sweep._share_of_the_machine(config_of(), 2) as second:
        assert [first.training.device, second.training.device] == ["cuda:0", "cuda:1"]
    with sweep._share_of_the_machine(config_of(device="cpu"), 0) as settings:
        assert settings.training.device == "cpu"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("seed=range(1,1000000000)", "These values make more than 10,000 runs. Use fewer values in one sweep."),
        ("seed=range(0,101) model.n_layers=range(1,101)", "These values make more than 10,000 runs"),
        ("training.learning_rate=range(0,inf,1.0)", "These values make more than 10,000 runs"),
        ("training.learning_rate=range(nan,2.0)", r"training.learning_rate=range\(nan,2.0\) has no values"),
        (
            "seed=range(5,1)",
            r"seed=range\(5,1\) has no values. Use range\(FROM,TO\) with FROM below TO, or values such as 1,2,3.",
        ),
    ],
)
def test_values_that_make_no_run_or_too_many_are_refused_at_once(sweep, tmp_path, values, message):
    with pytest.raises(SettingError, match=message):
        sweep(values)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("launcher", "extra"), [("parallel", "parallel"), ("slurm", "slurm"), ("local_jobs", "slurm")])
def test_a_launcher_that_is_not_installed_is_refused_with_its_extra(sweep, tmp_path, monkeypatch, launcher, extra):
    Plugins.instance()  # those that are installed register their launchers
    installed = ConfigStore.instance().repo["hydra"]["launcher"]
    for name in ("joblib", "submitit_slurm", "submitit_local"):
        monkeypatch.delitem(installed, f"{name}.yaml", raising=False)
    with pytest.raises(SettingError) as refused:
        sweep(f"hydra/launcher={launcher} seed=1,2")
    wanted = f"hydra/launcher={launcher} needs a launcher that is not installed. Run pip install 'encoderlab[{extra}]'."
    assert str(refused.value) == wanted
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_jobs_run_in_parallel_processes_and_are_found_again(sweep, capfd):
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher", reason="pip install 'encoderlab[parallel]'")
    with pytest.raises(SweepError):
        sweep("hydra/launcher=parallel hydra.launcher.n_jobs=2 model.n_heads=1,5")
    records = SweepFolder(Path("sweep")).records()
    assert [record.state for record in records] == [FINISHED, FAILED]
    errors = capfd.readouterr().err
    assert "Token accuracy of 1 run of" in errors
    assert "on test" in Path(f"sweep/jobs/{records[0].key}.log").read_text()


@pytest.fixture
def parallel_jobs(sweep):
    """A sweep of three long jobs in separate processes, two at a time; it is yielded once two of them train."""
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher", reason="pip install 'encoderlab[parallel]'")
    line = [
        "seed=1,2,3",
        "hydra/launcher=parallel",
        "hydra.launcher.n_jobs=2",
        "training.log_every=1",
        "sweep_dir=sweep",
    ]
    arguments = [sys.executable, "-m", "encoderlab", "train", "-m", *TINY.split(), "training.steps=1000000", *line]
    process = subprocess.Popen(
        arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while sum(path.stat().st_size > 0 for path in Path("sweep").glob("runs/*/metrics.jsonl")) < 2:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    yield process
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.slow
def test_stopped_parallel_jobs_save_and_the_last_never_starts(parallel_jobs):
    parallel_jobs.send_signal(signal.SIGTERM)
    _, errors = parallel_jobs.communicate()
    records = SweepFolder(Path("sweep")).records()
    assert (parallel_jobs.returncode, [record.state for record in records]) == (143, [STOPPED, STOPPED])
    assert "SIGTERM: each job saves after its step; send it again to stop at once" in errors
    assert "Resume with: encoderlab train -m " in errors and errors.endswith("encoderlab: stopped by SIGTERM\n")
    assert len(errors.strip().splitlines()) == 3
    for record in records:
        assert max(int(path.name.removeprefix("step-")) for path in (record.folder / "checkpoints").iterdir()) > 0


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="no /proc to find the workers in")
def test_a_killed_worker_ends_the_sweep_with_the_resume_command(parallel_jobs):
    children = [
        pid for task in Path(f"/proc/{parallel_jobs.pid}/task").glob("*/children") for pid in task.read_text().split()
    ]
    workers = [int(pid) for pid in children if b"LokyProcess" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(workers[0], signal.SIGKILL)
    _, errors = parallel_jobs.communicate()
    ours = [line for line in errors.splitlines() if line.startswith(("encoderlab:", "Finished jobs"))]
    assert parallel_jobs.returncode == 4
    assert "Resume with: encoderlab train -m " in ours[0]
    assert ours[1].startswith(
        "encoderlab: A process of this sweep was killed, perhaps because memory ran out, or crashed"
    )
    assert "Traceback" not in errors


def test_runs_are_inside_the_sweep_dir(sweep, commands):
    records = sweep("seed=1,2", name="mine")
    assert {record.folder.parent for record in records} == {Path("mine/runs")}
