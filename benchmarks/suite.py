"""The development suite: what to expect of each way to get a model, on public data, and at what cost.

`python -m benchmarks suite sets=sms_spam,bbc_news kinds=linear,box seeds=0,1` does a run for each set, kind and seed,
one process each. Finished runs are kept, interrupted ones are resumed and failed ones are tried again, so the same
command can be repeated.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.processes import (
    ROOT,
    checked,
    finished,
    grid,
    mebibytes,
    minilm_folder,
    missing_needs,
    provenance,
    python,
)
from encoderlab.errors import DataError, SettingError, TrainingError

MANY_ROWS = 10_000  # slow kinds of runs get one seed on sets with more training rows
SEEDS = ("0", "1", "2")
LINEAR = "linear"
BASELINES = ("tfidf_logreg", "tfidf_ridge", "word_majority")  # for texts with labels, texts with numbers, and words
WORDS: Mapping[str, str] = {  # names of scores that people call differently
    **{"f1_macro": "macro F1", "f1_micro": "micro F1", "entity_f1": "entity F1"},
    **{"pearson": "Pearson", "spearman": "Spearman", "token_accuracy": "token accuracy"},
}


# The data sets


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set. `words` select it, with {suite} to be filled in; `training_rows` is the size of its training split.

    `needs` names what has to be there: suite (the folder of the data), hub (HF_ENDPOINT), or nothing. `score` is the
    one to show if it is not the task's own.
    """

    name: str
    what: str
    words: tuple[str, ...]
    training_rows: int
    needs: str = "suite"
    score: str = ""

    @property
    def has_classes(self) -> bool:
        """Return whether each text or word has exactly one label: not several, and not a number."""
        return not {"task=multilabel", "task=regression"} & {*self.words}


def _rows(name: str, task: str, *columns: str, extension: str = "csv") -> tuple[str, ...]:
    splits = (f"dataset.{split}={{suite}}/{name}/{split}.{extension}" for split in ("train", "validation", "test"))
    return f"task={task}", "dataset=files", *splits, *columns


def _texts(name: str, what: str, training_rows: int) -> DataSet:
    words = _rows(name, "classification", "dataset.text=text", "dataset.label=label")
    return DataSet(name, what, words, training_rows)


def _pairs(name: str, what: str, training_rows: int, task: str = "classification") -> DataSet:
    columns = ("dataset.text=text_a", "dataset.text_pair=text_b", "dataset.label=label")
    return DataSet(name, what, _rows(name, task, *columns), training_rows)


def _label_sets(name: str, what: str, training_rows: int, score: str) -> DataSet:
    words = _rows(name, "multilabel", "dataset.text=text", "dataset.label=labels")
    return DataSet(name, what, words, training_rows, score=score)


def _tagged(name: str, what: str, training_rows: int) -> DataSet:
    return DataSet(name, what, _rows(name, "tagging", extension="conll"), training_rows)


def _in_windows(data: DataSet) -> DataSet:
    """Return the set with the same rows read whole in windows instead of truncated."""
    words = (*data.words, "task.windows=mean")
    return replace(data, name=f"{data.name}_windows", what=f"{data.what}, in windows", words=words)


_BBC = _texts("bbc_news", "news articles, 5 topics", 1_487)
_GNAD = _texts("gnad_sample", "German news articles, 9 topics", 618)
SETS: Mapping[str, DataSet] = {
    data.name: data
    for data in (
        _texts("subjectivity", "objective or subjective sentences", 4_655),
        _texts("sms_spam", "text messages, ham or spam", 3_612),
        _texts("clinc150", "questions to an assistant, 150 intents", 15_000),
        _texts("tweet_offensive", "tweets, offensive or not", 11_916),
        _BBC,
        _texts("financial_phrasebank", "financial news, 3 sentiments", 2_414),
        _pairs("qqp_sample", "pairs of questions, duplicates or not", 6_094),
        _pairs("mnli_sample", "premise and hypothesis, 3 relations", 6_968),
        DataSet("sst2", "phrases of film reviews, scored on validation", ("task=sst2",), 67_349, needs="hub"),
        DataSet("amazon", "product reviews, positive or negative", ("task=amazon_polarity",), 13_036, needs="hub"),
        DataSet("intents", "the built-in task: questions, 150 intents", ("task=intents",), 15_000, needs=""),
        _label_sets("goemotions", "comments, 28 emotions, several each", 43_410, "f1_macro"),
        _label_sets("reuters21578", "news stories, 90 topics, several each", 6_400, "f1_micro"),
        _pairs("sick_relatedness", "pairs of sentences, how related they are, 1 to 5", 4_500, "regression"),
        _tagged("wnut17", "names in posts, 6 kinds", 3_394),
        _texts("germeval2018", "German tweets, 4 kinds of offence", 4_508),
        _GNAD,
        _tagged("ud_french_sequoia_pos", "French parts of speech, 16 labels", 2_231),
        _in_windows(_BBC),
        _in_windows(_GNAD),
    )
}


# The kinds of runs


@dataclass(frozen=True, slots=True)
class Kind:
    """One way to get a model: an encoderlab command with the `words` that follow those of the data set, nothing tuned.

    {minilm} stands for the folder of all-MiniLM-L6-v2, {teacher} for the run of kind `teacher` on the same set. A
    `slow` kind gets one seed where there are many rows. Students learn where a text, or a word, has one label
    (`only_classes`).
    """

    title: str
    command: str
    words: tuple[str, ...] = ()
    slow: bool = False
    teacher: str = ""
    only_classes: bool = False


_STUDENT = ("teacher={teacher}", "model=as_pretrained", "init_from=mini-en")
KINDS: Mapping[str, Kind] = {
    LINEAR: Kind("linear model", "baseline"),
    "scratch": Kind("from scratch", "train"),
    "box": Kind("from mini-en", "finetune"),
    "minilm": Kind("from MiniLM", "finetune", ("init_from={minilm}",), slow=True),
    "student": Kind("distilled student", "distill", _STUDENT, teacher="minilm", only_classes=True),
}


# The plan


@dataclass(frozen=True, slots=True)
class Settings:
    """The choices. `suite` is the folder of the data, `output` of the runs; `overrides` are added to every command.

    Without `seeds`, SEEDS are used, of which slow kinds get only the first if there are many rows.
    """

    sets: Sequence[str]
    kinds: Sequence[str]
    seeds: Sequence[str]
    suite: Path
    output: Path
    overrides: Sequence[str]

    @classmethod
    def parse(cls, words: Sequence[str]) -> Settings:
        """Return the settings that arguments NAME=VALUE choose. Raises SettingError for an invalid name or value."""
        chosen = {"sets": ",".join(SETS), "kinds": ",".join(KINDS), "seeds": "", "output": "outputs/suite"}
        chosen["suite"] = os.environ.get("ENCODERLAB_SUITE", str(ROOT.parent / "shared" / "suite"))
        overrides = [word for word in words if "." in word.partition("=")[0]]
        for word in words:
            name, equals, value = word.partition("=")
            if word not in overrides:
                checked("setting", [name if equals else word], chosen)
                chosen[name] = value
        sets, kinds, seeds = (chosen[name].split(",") for name in ("sets", "kinds", "seeds"))
        checked("set", sets, SETS)
        checked("kind", kinds, KINDS)
        folders = (Path(chosen[name]).expanduser().absolute() for name in ("suite", "output"))
        return cls(sets, kinds, [seed for seed in seeds if seed], *folders, overrides)

    def seeds_of(self, name: str, kind: str) -> Sequence[str]:
        """Return the seeds of the runs of `kind` on the set `name`."""
        first_only = kind == LINEAR or (not self.seeds and KINDS[kind].slow and SETS[name].training_rows > MANY_ROWS)
        return (self.seeds or SEEDS)[: 1 if first_only else None]

    def run_folder(self, name: str, kind: str, seed: str) -> Path:
        """Return the folder of a run."""
        return self.output / name / kind / seed


def suite(words: Sequence[str]) -> None:
    """Run what the arguments choose, and print a table for each set.

    Raises SettingError, DataError if nothing can be run, and TrainingError at the end where a run failed.
    """
    settings = Settings.parse(words)
    failed = 0
    tables = []
    for name in settings.sets:
        reason = _missing(SETS[name].needs, settings)
        if reason:
            print(f"benchmarks: skipped {name}: {reason}", file=sys.stderr)
            continue
        for kind in KINDS:  # teachers before their students
            if kind not in settings.kinds or (KINDS[kind].only_classes and not SETS[name].has_classes):
                continue
            for seed in settings.seeds_of(name, kind):
                error = _perform(name, kind, seed, settings)
                failed += bool(error)
                print(f"  {name}, {KINDS[kind].title}, seed {seed}: {error or 'finished'}", file=sys.stderr)
        tables.append(set_table(name, settings))
    if not tables:
        raise DataError("No data set can be run", remedy="See the lines above")
    print("\n\n".join([*tables, f"{provenance()}."]))
    if failed:
        raise TrainingError(f"{failed} runs of the suite failed", remedy="The same command tries them again")


def _missing(needs: str, settings: Settings) -> str:
    if needs == "suite" and not settings.suite.is_dir():
        return f"{settings.suite} is not a folder: set suite=FOLDER or ENCODERLAB_SUITE"
    return missing_needs(("hub",), ROOT) if needs == "hub" else ""


def _perform(name: str, kind: str, seed: str, settings: Settings) -> str:
    """Do a run unless it is finished; record its command, seconds and memory beside its folder. Returns the error."""
    folder = settings.run_folder(name, kind, seed)
    way = KINDS[kind]
    record = folder.with_suffix(".json")
    teacher = settings.run_folder(name, way.teacher, (settings.seeds or SEEDS)[0])
    places = {"suite": settings.suite, "minilm": minilm_folder(), "teacher": teacher}
    if "{minilm}" in " ".join(way.words) and places["minilm"] is None:
        return missing_needs(("minilm",), ROOT)
    words = [*SETS[name].words, *way.words, *([] if kind == LINEAR else [f"seed={seed}"]), *settings.overrides]
    words = [word.format_map(places) if "{" in word else word for word in words]
    command = [way.command, *words, "format=json" if kind == LINEAR else f"run_dir={folder}"]
    if record.exists() and json.loads(record.read_text(encoding="utf-8"))["command"] != command:
        raise SettingError(f"{folder} contains a run of another command", remedy="Delete it, or set output=FOLDER")
    if (folder / "report.json").exists():
        return ""
    interrupted = (folder / "config.yaml").exists()
    (folder if kind == LINEAR else folder.parent).mkdir(parents=True, exist_ok=True)
    record.write_text(json.dumps({"command": command}), encoding="utf-8")
    try:
        done = finished(python("-m", "encoderlab", *([way.command, f"resume={folder}"] if interrupted else command)))
    except TrainingError as error:
        return f"failed: {error.wrong.rpartition(' of ')[0]}"
    if kind == LINEAR:
        (folder / "report.json").write_text(done.output, encoding="utf-8")
    cost = {"wall_seconds": None if interrupted else done.seconds, "peak_memory": done.peak_memory}
    record.write_text(json.dumps({"command": command, **cost, "made": provenance()}), encoding="utf-8")
    return ""


# The table of a set


def set_table(name: str, settings: Settings) -> str:
    """Return everything measured on one data set: a row for each kind, with means over the seeds.

    Intervals are those of one run on average: they cover the rows, and the range of the scores shows the seeds.
    """
    reports = {kind: _reports(name, kind, settings) for kind in KINDS}
    every = [report for of_kind in reports.values() for report, _ in of_kind]
    if not every:
        return f"{name}: no run has finished"
    score = SETS[name].score or every[0]["main_score"]
    head = ["", WORDS.get(score, score), "95% interval", "seeds: lowest to highest", "ahead of linear", "95% interval"]
    head += ["minutes of training", "minutes in all", "parameters", "peak memory"]
    rows = [_row(KINDS[kind].title, kind, of_kind, score) for kind, of_kind in reports.items() if of_kind]
    n_rows = f"{SETS[name].training_rows:,} training rows"
    title = f"{name}: {SETS[name].what}, {n_rows}, scored on {every[0]['scored_split']}"
    return "\n".join([title, "", *grid(head, rows)])


def _reports(name: str, kind: str, settings: Settings) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return report and record of each finished run of a kind, of whatever seeds there are."""
    reports = []
    for report in sorted((settings.output / name / kind).glob("*/report.json")):
        record = report.parent.with_suffix(".json")
        reports.append((json.loads(report.read_text(encoding="utf-8")), json.loads(record.read_text(encoding="utf-8"))))
    return reports


def _row(title: str, kind: str, runs: Sequence[tuple[dict[str, Any], dict[str, Any]]], score: str) -> list[str]:
    reports = [report for report, _ in runs]
    records = [record for _, record in runs]
    fitted = [name for name in BASELINES if "skipped" not in reports[0]["baselines"].get(name, {"skipped": ""})]
    best = fitted[0] if fitted else None
    if kind == LINEAR:
        scored = [report["baselines"][best] for report in reports] if best else []
        leads = []
    else:
        scored = [report["splits"][report["scored_split"]] for report in reports]
        leads = [report["baselines"][best] for report in reports] if best else []
    leads = [lead for lead in leads if lead.get("model_leads_by_ci95")]
    if not scored:
        return [title, *[""] * 9]
    values = [scores[score] for scores in scored]
    seeds = f"{len(values)}: {min(values):.3f} to {max(values):.3f}"
    ahead = [f"{mean(lead['model_leads_by'] for lead in leads):+.3f}" if leads else ""]
    minutes = [report.get("throughput", {}).get("train_seconds") for report in reports]
    walls = [record.get("wall_seconds") for record in records]
    parameters = reports[0].get("model", {}).get("parameters")
    memory = [record["peak_memory"] for record in records if record.get("peak_memory")]
    return [
        *(title, f"{mean(values):.3f}", _interval([scores.get(f"{score}_ci95") for scores in scored]), seeds),
        *(*ahead, _interval([lead["model_leads_by_ci95"] for lead in leads], "+")),
        *(_minutes(minutes), _minutes(walls), f"{parameters / 1e6:.1f} M" if parameters else ""),
        mebibytes(mean(memory)) if memory else "",
    ]


def _interval(intervals: Sequence[Sequence[float] | None], sign: str = "") -> str:
    known = [interval for interval in intervals if interval]
    return " to ".join(f"{mean(bounds):{sign}.3f}" for bounds in zip(*known, strict=True))


def _minutes(seconds: Sequence[float | None]) -> str:
    known = [value for value in seconds if value is not None]
    return f"{mean(known) / 60:.1f}" if known else ""
