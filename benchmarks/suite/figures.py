"""The figures of a data set: its finished runs by kind, over seeds, and how far each kind is ahead of the linear model."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.suite.sets import SECOND
from encoderlab.errors import UserError
from encoderlab.metrics.comparison import mean_over_runs, paired_difference
from encoderlab.reports.parts.run_report import json_safe
from encoderlab.runs.folder import RunFolder
from encoderlab.runs.folders.finished import FinishedRun, read_answers, read_run

MEANS = ("train_seconds", "wall_seconds", "megabytes", "parameters", "peak_memory")
BOOTSTRAP_SEED = 0  # one for all comparisons, so that the same runs give the same figures
Figures = dict[str, Any]


def main() -> None:
    """Read the runs under --runs, and write the figures of the data set to --output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", required=True, help="name of the data set")
    parser.add_argument("--runs", type=Path, required=True, help="folder of the runs of that data set")
    parser.add_argument(
        "--output", type=Path, required=True, help="JSON file; kinds that were not run again stay in it"
    )
    options = parser.parse_args()
    found = json_safe(figures_of(options.name, options.runs))
    if options.output.is_file():
        earlier = json.loads(options.output.read_text(encoding="utf-8"))
        same_rows = earlier["fingerprint"] == found["fingerprint"]
        found["kinds"] = (earlier["kinds"] if same_rows else {}) | found["kinds"]
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def figures_of(name: str, folder: Path) -> Figures:
    """Return the figures of the set whose runs are in `folder`: rows, baselines, and those of each kind that was run."""
    linear = json.loads((folder / "baselines" / "report.json").read_text(encoding="utf-8"))
    main = linear["main_figure"]
    kinds = {path.name: path for path in sorted(folder.iterdir()) if path.is_dir() and any(path.glob("*.json"))}
    return {
        "name": name,
        "figure": main,
        "split": linear["scored_split"],
        "rows": {"train": linear["training_rows"], "scored": linear["n"]},
        "n_labels": len(linear["labels"]),
        "fingerprint": linear["fingerprint"],
        "best_baseline": linear["best"],
        "baselines": {title: _baseline(one, main) for title, one in linear["baselines"].items()},
        "kinds": {kind: _of_kind(path, linear) for kind, path in kinds.items() if kind != "baselines"},
    }


def _baseline(one: Figures, main: str) -> Figures:
    if "skipped" in one:
        return {"skipped": one["skipped"]}
    second = SECOND[main]
    return {"score": one[main], "interval": one[f"{main}_ci95"], second: one[second], "seconds": one["seconds"]}


def _of_kind(folder: Path, linear: Figures) -> Figures:
    """Return the runs of one kind, their failures, and means over the finished ones."""
    records = {int(path.stem): json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")}
    records = dict(sorted(records.items()))
    failed = [{"seed": seed, "error": record["error"]} for seed, record in records.items() if record["error"]]
    runs = {}
    for seed in records:
        try:
            runs |= {seed: run} if (run := _finished(folder / str(seed), linear)) else {}
        except UserError as error:
            failed.append({"seed": seed, "error": str(error).replace(str(folder), folder.name)})
    found = {"command": next(iter(records.values()))["command"], "failed": failed}
    found["runs"] = [_of_run(run, records[seed], linear["main_figure"]) for seed, run in runs.items()]
    return found | _over_seeds(found["runs"], list(runs.values()), folder.parent, linear) if runs else found


def _finished(folder: Path, linear: Figures) -> FinishedRun | None:
    """Return the run in a folder; None if it is not finished. Raises UserError if it was not scored on the baselines'
    rows.
    """
    if not RunFolder(folder).finished:
        return None
    run = read_run(RunFolder(folder))
    if run.split != linear["scored_split"] or run.scored[0] != linear["fingerprint"]:
        raise UserError(f"{folder} was scored on other rows than the baselines")
    return run


def _of_run(run: FinishedRun, record: Figures, main: str) -> Figures:
    timed = record.get("timed", True)
    files = [path for path in run.folder.model.rglob("*") if path.is_file()]
    return {
        "seed": run.seed,
        "score": run.scores[main],
        "interval": run.scores[f"{main}_ci95"],
        SECOND[main]: run.scores[SECOND[main]],
        "train_seconds": run.seconds if timed else None,
        "wall_seconds": record["wall_seconds"] if timed else None,
        "megabytes": round(sum(path.stat().st_size for path in files) / 1e6, 2),
        "parameters": run.report["model"]["parameters"],
        "peak_memory": record["peak_memory"] if timed else None,
        "made": record["made"],
    }


def _over_seeds(rows: Sequence[Figures], runs: Sequence[FinishedRun], folder: Path, linear: Figures) -> Figures:
    """Return means over the seeds. `interval` covers the rows of one run on average, and `deviation` the seeds."""
    mean = asdict(mean_over_runs([row["score"] for row in rows]))
    found = {"score": mean["value"], "deviation": mean["deviation"]}
    found["interval"] = np.mean([row["interval"] for row in rows], axis=0).tolist()
    for name in (*MEANS, SECOND[linear["main_figure"]]):
        known = [row[name] for row in rows if row[name] is not None]
        found[name] = float(np.mean(known)) if known else None
    return found | dict(_ahead(runs, folder, linear))


def _ahead(runs: Sequence[FinishedRun], folder: Path, linear: Figures) -> Iterator[tuple[str, Figures]]:
    """Return how far the runs are ahead of the best baseline on the same rows, in the main figure and in the second
    one.
    """
    if linear["best"] is None:
        return
    baseline = FinishedRun(RunFolder(folder / "baselines"), _as_report(linear), {}, {})
    *answers, other = read_answers([*runs, baseline])
    main = linear["main_figure"]
    for figure, name in ((main, "ahead"), (SECOND[main], f"{SECOND[main]}_ahead")):
        # The linear model predicts the same for every seed, so it is compared with each of our runs: only our seeds
        # vary.
        ahead = paired_difference(answers, [other] * len(answers), figure, BOOTSTRAP_SEED)
        yield name, asdict(ahead)


def _as_report(linear: Figures) -> Figures:
    """Return the part of a run's report that reading its predictions requires."""
    best = linear["baselines"][linear["best"]]
    split = {"n": linear["n"], **({"per_class": best["per_class"]} if "per_class" in best else {})}
    return {
        "main_figure": linear["main_figure"],
        "scored_split": linear["scored_split"],
        "splits": {linear["scored_split"]: split},
    }


if __name__ == "__main__":
    main()
