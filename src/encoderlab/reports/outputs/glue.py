"""GLUE's nine tasks (Wang et al. 2019): the figures each is scored by, and the files its server expects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MISMATCHED = "_mismatched"  # end of a split's name: MNLI's rows of other genres than in training


@dataclass(frozen=True, slots=True)
class GlueTask:
    """One task. `title` is how GLUE writes it, `figures` are pairs of a split and a figure of report.json.

    `files` are the server's file names, by the suffix of the split's name. With `spelled`, they contain labels by
    name, otherwise as ids; numbers are clipped to `bounds`.
    """

    title: str
    figures: tuple[tuple[str, str], ...]
    files: Mapping[str, str] = field(default_factory=dict)
    spelled: bool = False
    bounds: tuple[float, float] | None = None

    def files_of(self, split: str) -> dict[str, str]:
        """Return the files for a split by split; for MNLI, test also includes test_mismatched."""
        for ending, name in self.files.items():
            if ending and split.endswith(ending):
                return {split: name}
        return {f"{split}{ending}": name for ending, name in self.files.items()}

    def spelling(self, answer: str | float, labels: list[str]) -> str:
        """Return a label or a number as the server expects it; `labels` are the classes in the order of their ids."""
        if isinstance(answer, str):
            return answer if self.spelled else str(labels.index(answer))
        low, high = self.bounds or (answer, answer)
        return str(min(max(answer, low), high))


def _task(title: str, *figures: str, spelled: bool = False, bounds: tuple[float, float] | None = None) -> GlueTask:
    return GlueTask(title, tuple(("validation", name) for name in figures), {"": f"{title}.tsv"}, spelled, bounds)


GLUE_TASKS = {  # by config name
    "cola": _task("CoLA", "matthews"),
    "sst2": _task("SST-2", "accuracy"),
    "mrpc": _task("MRPC", "accuracy", "f1"),
    "stsb": _task("STS-B", "pearson", "spearman", bounds=(0.0, 5.0)),
    "qqp": _task("QQP", "accuracy", "f1"),
    "mnli": GlueTask(
        "MNLI",
        (("validation", "accuracy"), (f"validation{MISMATCHED}", "accuracy")),
        {"": "MNLI-m.tsv", MISMATCHED: "MNLI-mm.tsv"},
        spelled=True,
    ),
    "qnli": _task("QNLI", "accuracy", spelled=True),
    "rte": _task("RTE", "accuracy", spelled=True),
    "wnli": _task("WNLI", "accuracy"),
}
OTHER_TASK = GlueTask("", ())  # written in the format of most GLUE tasks
