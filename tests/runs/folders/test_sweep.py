"""A sweep's folder: records come back as written, each GPU is held by one job, and no other folder is mistaken for a
sweep.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from encoderlab.errors import DataError, SettingError
from encoderlab.runs.folders.sweep import FAILED, FINISHED, JobRecord, SweepError, SweepFolder

A, B, C = ("a" * 16, "b" * 16, "c" * 16)


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return SweepFolder(Path("sweep"))


def test_records_come_back_as_written_in_the_order_of_their_numbers(sweep):
    later = JobRecord(B, 2, ["seed=2"], FINISHED, Path("outputs/run"), seconds=1.5)
    earlier = JobRecord(A, 1, ["seed=1"], FAILED, None, "It is wrong.", 3)
    sweep.write(later)
    sweep.write(earlier)
    assert sweep.records() == [earlier, later]
    assert sweep.read(B) == later
    assert sweep.read(C) is None


def test_a_sweep_and_its_runs_can_be_moved_together(sweep, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    sweep.write(JobRecord(A, 0, [], FINISHED, Path("outputs/run")))
    (tmp_path / "here").rename(tmp_path / "there")
    monkeypatch.chdir(tmp_path)
    assert SweepFolder(Path("there/sweep")).read(A).folder == Path("there/outputs/run")


def test_each_job_has_its_own_gpu_while_there_are_any(sweep):
    sweep.jobs.mkdir(parents=True)
    with sweep.gpu(2, 7) as first, sweep.gpu(2, 8) as second, sweep.gpu(2, 9) as third:
        assert {first, second} == {0, 1}
        assert third == 1  # shared: job 9 of 2 cards
    with sweep.gpu(2, 10) as again:
        assert again == 0


def test_a_damaged_record_is_named_with_the_remedy(sweep):
    sweep.write(JobRecord(A, 0, [], FINISHED))
    (sweep.jobs / f"{A}.json").write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match=r"a\.json cannot be read: .*Delete it"):
        sweep.records()
    (sweep.jobs / f"{A}.json").write_text(json.dumps({"key": A, "surprise": 1}), encoding="utf-8")
    with pytest.raises(DataError, match="cannot be read"):
        sweep.read(A)


def test_a_folder_with_other_content_is_not_a_sweep(sweep):
    sweep.root.mkdir()
    assert SweepFolder.named("sweep").root == sweep.root
    (sweep.root / "precious").write_text("")
    with pytest.raises(SettingError, match="sweep_dir=sweep is not empty, and not a sweep"):
        SweepFolder.named("sweep")
    sweep.jobs.mkdir()
    (sweep.jobs / "a.json").write_text("[]")  # of somebody else's
    assert not sweep.exists
    sweep.write(JobRecord(A, 0, [], FINISHED))
    assert SweepFolder.named("sweep").exists
    assert [record.key for record in sweep.records()] == [A]


@pytest.mark.parametrize(
    "written", ["multirun.yaml", "search.journal", f"jobs/.{A}.claim-1", "jobs/.gpu-0-of-anna.lock"]
)
def test_a_sweep_stopped_before_its_first_record_is_resumed(sweep, written):
    path = sweep.root / written
    path.parent.mkdir(parents=True)
    path.write_text("")
    assert SweepFolder.named("sweep").records() == []


def test_two_new_sweeps_never_share_a_folder():
    assert len({SweepFolder.named(None).root for _ in range(8)}) == 8


def test_failed_jobs_end_a_sweep_with_the_code_of_the_first(sweep):
    failed = JobRecord(A, 0, [], FAILED, None, "No rows.", 3)
    error = SweepError([failed, replace(failed, number=1, exit_code=2)], 5, sweep.root)
    assert error.exit_code == 3
    assert str(error).startswith("2 of 5 jobs failed. Finished jobs are not repeated")
