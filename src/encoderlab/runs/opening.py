"""Opening the folder of a run, new or resumed, and recording there what it is started with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

from encoderlab.config.commands import RunConfig
from encoderlab.data.corpus import Corpus
from encoderlab.errors import DataError
from encoderlab.runs.record import Record, record_start
from encoderlab.runs.requested import RequestedRun
from encoderlab.runs.run import Run
from encoderlab.system.device import Compute
from encoderlab.system.processes import Processes


@contextmanager
def open_run(
    requested: RequestedRun,
    config: RunConfig,
    data: Corpus,
    compute: Compute,
    processes: Processes,
    *,
    fingerprints: Mapping[str, str] | None = None,
    notes: list[str] | None = None,
) -> Iterator[Run]:
    """Open the folder of a run, new or resumed, and record its settled `config` there.

    `fingerprints` are those of what the run reads besides the data, by the setting that names it. On an error a new
    folder is deleted, unless a step's checkpoint in it is worth keeping. Raises DataError if the rows or other files of
    a resumed run have changed.
    """
    record = requested.record

    def opened() -> AbstractContextManager[Run]:
        if record is None:
            return Run.new(config.run_dir, config.command, config.task.name)

        # A resumed run must read what it has read before, which is checked before its folder changes.
        run = Run(config.resume or "")
        _refuse_changed_data(run, record, config, {**data.fingerprints(), **(fingerprints or {})})
        return run.reopened(config.command)

    # Only the main process holds the lock, and writes. What the run starts with is on disk before its first step.
    with processes.entered_by_main(opened) as run:
        if processes.is_main:
            run.record = record_start(
                run.folder,
                replace(config, overrides=None) if run.is_nested else config,  # nobody types those of a fold
                compute,
                before=record,
                data=data,
                requested=requested.config,
                fingerprints=fingerprints,
                notes=notes,
            )
        yield run


def _refuse_changed_data(run: Run, record: Record, config: RunConfig, fingerprints: Mapping[str, str]) -> None:
    """Raise DataError if rows or files are not those that the run was started with."""
    # Splits and files are compared by name, and each by what was in it.
    environment = record.environment
    before = {name: split.get("fingerprint") for name, split in environment["dataset"]["splits"].items()}
    before |= environment.get("files", {})
    changed = sorted(name for name in before.keys() | fingerprints.keys() if before.get(name) != fingerprints.get(name))
    if changed:
        named = [f"{name}={getattr(config, name)}" if hasattr(config, name) else name for name in changed]
        problem = f"The data of {' and '.join(named)} have changed since the run in {run.folder} was started"
        raise DataError(problem, remedy="Restore them, or remove resume to start a new run")
