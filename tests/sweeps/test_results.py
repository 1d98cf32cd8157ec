"""The end of a sweep: finished runs are compared, failures of this command line are listed, and their exit code is
kept.
"""

from types import SimpleNamespace

import pytest

from encoderlab.errors import DataError
from encoderlab.runs.folder import RunFolder
from encoderlab.runs.folders.sweep import FAILED, FINISHED, JobRecord, SweepError, SweepFolder
from encoderlab.sweeps import results
from encoderlab.sweeps.results import compare_runs, show_results


@pytest.fixture
def ended(tmp_path, monkeypatch):
    """Show the results of a sweep of these records; return the folders that were compared."""
    compared = []
    monkeypatch.setattr(results, "compare_runs", lambda root, folders: compared.extend(folders))

    def show(*records, command="train", jobs=(), dry=False, **options):
        folder = SweepFolder(tmp_path / "sweep")
        for record in records:
            folder.write(record)
        sweep = SimpleNamespace(folder=folder, command=command, jobs=dict(enumerate(jobs)), started="now", dry=dry)
        show_results(sweep, **options)
        return compared

    return show


def job(number, state, tmp_path=None, start="now", **more):
    folder = None
    if tmp_path is not None:
        folder = RunFolder(tmp_path / f"run{number}")
        folder.root.mkdir()
        folder.report.write_text("{}", encoding="utf-8")
    return JobRecord(
        f"{number:016x}",
        number,
        [f"seed={number}"],
        state,
        None if folder is None else folder.root,
        start=start,
        **more,
    )


def test_finished_runs_are_compared(ended, tmp_path):
    found = ended(job(1, FINISHED, tmp_path), job(2, FINISHED, tmp_path), job(3, FINISHED))
    assert [path.rpartition("/")[2] for path in found] == ["run1", "run2"]


@pytest.mark.parametrize("options", [{"command": "predict"}, {"compared": False}])
def test_commands_without_scores_and_single_passes_are_not_compared(ended, tmp_path, options):
    assert ended(job(1, FINISHED, tmp_path), **options) == []


def test_failures_are_listed_and_end_with_their_exit_code(ended, tmp_path, capsys):
    with pytest.raises(
        SweepError, match=r"1 of 2 jobs failed\. Finished jobs are not repeated: .*sweep_dir=.*sweep"
    ) as failed:
        ended(job(1, FINISHED, tmp_path), job(2, FAILED, error="No rows", exit_code=3))
    assert failed.value.exit_code == 3
    assert "encoderlab: job 2 failed: seed=2: No rows" in capsys.readouterr().err


def test_failures_of_an_earlier_command_line_count_only_if_they_are_jobs_of_this_one(ended, capsys):
    earlier = job(1, FAILED, start="before", error="typo", exit_code=2)
    ended(earlier)
    assert capsys.readouterr().err == ""
    with pytest.raises(SweepError, match="1 of 1 job failed"):
        ended(earlier, jobs=[f"{1:016x}"])


def test_a_dry_sweep_names_no_folder(ended):
    with pytest.raises(SweepError, match=r"Fix it and run the same line\.") as failed:
        ended(job(1, FAILED, error="no"), dry=True)
    assert "sweep_dir" not in str(failed.value)


def test_runs_that_cannot_be_compared_are_named_without_failing(monkeypatch, capsys, tmp_path):
    def refuse(folders):
        raise DataError("Their rows differ")

    monkeypatch.setattr("encoderlab.reports.finished.finished_runs", refuse)
    compare_runs(tmp_path, ["one", "two"])
    assert capsys.readouterr().err == "encoderlab: the runs are not compared: Their rows differ.\n"
