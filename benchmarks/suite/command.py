"""`python -m benchmarks suite`: run the chosen kinds, set by set, and write the page."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.processes import ROOT
from benchmarks.suite import pages
from benchmarks.suite.kinds import KINDS, missing, missing_data
from benchmarks.suite.plan import Run, Settings, filled, parsed
from benchmarks.suite.runs import call, check_unchanged, outcome, perform, portable
from benchmarks.suite.sets import SETS
from encoderlab.errors import DataError, TrainingError

TABLE = "table"


def suite(words: Sequence[str]) -> None:
    """Run what the arguments choose, then write the page; with the argument `table`, only write the page.

    Raises SettingError, DataError if nothing can be run, and TrainingError at the end where a run failed.
    """
    settings = parsed([word for word in words if word != TABLE])
    if TABLE not in words:
        _run_all(settings)
    else:
        _write_page(settings)


def _run_all(settings: Settings) -> None:
    names = _possible(
        "data set", settings.sets, {name: missing_data(SETS[name].needs, settings.suite) for name in settings.sets}
    )
    kinds = _possible("kind", settings.kinds, {kind: missing(kind) for kind in settings.kinds})
    planned = {name: planned_runs(name, kinds, settings) for name in names}
    check_unchanged([run for runs in planned.values() for run in runs])
    n_failed = sum(_run_set(name, runs, settings) for name, runs in planned.items())
    _write_page(settings)
    if n_failed:
        runs = "A run" if n_failed == 1 else f"{n_failed} runs"
        raise TrainingError(
            f"{runs} of the suite failed", remedy="See the lines above; the same command tries them again"
        )


def _possible(what: str, names: Sequence[str], reasons: dict[str, str]) -> list[str]:
    """Return the names without a reason against them; each reason is printed as one line. Raises DataError if no name
    is left.
    """
    found = [name for name in names if not reasons[name]]
    for reason in dict.fromkeys(filter(None, reasons.values())):
        skipped = ", ".join(name for name in names if reasons[name] == reason)
        if not found:
            raise DataError(f"No {what} can be run ({skipped}): {reason}")
        print(f"benchmarks: skipped {skipped}: {reason}", file=sys.stderr)
    return found


def planned_runs(name: str, kinds: Sequence[str], settings: Settings) -> list[Run]:
    """Return the runs on a set, teachers before their students."""
    ordered = [kind for kind in KINDS if kind in kinds and (SETS[name].has_classes or not KINDS[kind].only_classes)]
    return [Run(name, kind, seed, settings) for kind in ordered for seed in settings.seeds_of(name, kind)]


def _run_set(name: str, runs: Sequence[Run], settings: Settings) -> int:
    """Perform the runs and save their figures. Returns how many failed."""
    folder = ROOT / settings.output / name
    try:
        _fit_baselines(name, folder / "baselines", settings)
    except TrainingError as error:
        print(f"benchmarks: {name}, baselines: failed: {portable(error.wrong, settings)}", file=sys.stderr)
        return 1
    n_failed = 0
    for run in runs:
        record = perform(run)
        n_failed += bool(record["error"])
        print(f"  {name}, {KINDS[run.kind].title}, seed {run.seed}: {outcome(run, record)}", file=sys.stderr)
    result = pages.results_folder(ROOT / settings.page) / f"{name}.json"
    call("benchmarks.suite.figures", "--name", name, "--runs", str(folder), "--output", str(result))
    return n_failed


def _fit_baselines(name: str, folder: Path, settings: Settings) -> None:
    """Fit the linear models of a set, once. Raises TrainingError if that fails."""
    if (folder / "report.json").is_file():
        return
    of_data = [word for word in settings.overrides if word.startswith("dataset.")]
    words = filled((*SETS[name].words, *of_data), settings.places)
    figure = ("--figure", SETS[name].figure) if SETS[name].figure else ()
    call("benchmarks.suite.linear", "--output", str(folder), *figure, *words)


def _write_page(settings: Settings) -> None:
    folder = ROOT / settings.page
    n_sets = pages.write(folder)
    print(
        f"Tables of {n_sets} data {'set' if n_sets == 1 else 'sets'} written to {folder / pages.NAME}", file=sys.stderr
    )
