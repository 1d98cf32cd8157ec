"""Made-up rows of GLUE's tasks, with the columns, types and splits of nyu-mll/glue on the hub."""

import random

import datasets
import pyarrow.parquet as pq

COLUMNS = {
    "cola": ("sentence", None, ["unacceptable", "acceptable"]),
    "sst2": ("sentence", None, ["negative", "positive"]),
    "mrpc": ("sentence1", "sentence2", ["not_equivalent", "equivalent"]),
    "stsb": ("sentence1", "sentence2", None),
    "qqp": ("question1", "question2", ["not_duplicate", "duplicate"]),
    "mnli": ("premise", "hypothesis", ["entailment", "neutral", "contradiction"]),
    "qnli": ("question", "sentence", ["entailment", "not_entailment"]),
    "rte": ("sentence1", "sentence2", ["entailment", "not_entailment"]),
    "wnli": ("sentence1", "sentence2", ["not_entailment", "entailment"]),
}
ROWS = {"train": 96, "validation": 30, "test": 20}
WORDS = ["red", "green", "blue", "round", "square", "small"]


def glue_rows(name):
    """Return the splits of a configuration. A word of the first text reveals the label; test labels are hidden, except
    MRPC's.
    """
    whole = {split: (rows, name != "mrpc" and split == "test") for split, rows in ROWS.items()}
    if name == "mnli":
        kinds = {
            kind: {f"{split}_{kind}": whole[split] for split in ("validation", "test")}
            for kind in ("matched", "mismatched")
        }
        whole = {"train": whole["train"]} | kinds["matched"] | kinds["mismatched"]
    return datasets.DatasetDict({split: _table(name, split, rows, hidden) for split, (rows, hidden) in whole.items()})


def _table(name, split, rows, hidden):
    first, second, labels = COLUMNS[name]
    kind = datasets.ClassLabel(names=labels) if labels else datasets.Value("float32")
    text = datasets.Value("string")
    features = {first: text} | ({second: text} if second else {}) | {"label": kind, "idx": datasets.Value("int32")}
    draw = random.Random(f"{name} {split}")
    answers = [draw.randrange(len(labels)) if labels else draw.randrange(0, 51) / 10 for _ in range(rows)]
    texts = [
        " ".join([WORDS[int(answer)], *draw.choices(WORDS, k=3), f"number {row} of {split}"])
        for row, answer in enumerate(answers)
    ]
    columns = {first: texts} | ({second: [f"another {text}" for text in texts]} if second else {})
    columns |= {"label": [-1 if hidden else answer for answer in answers], "idx": list(range(rows))}
    return datasets.Dataset.from_dict(columns, features=datasets.Features(features))


def write_glue(repository):
    """Write all configurations into a folder, as files of a dataset of the hub."""
    described = []
    for name in COLUMNS:
        (repository / name).mkdir(parents=True)
        described += [f"- config_name: {name}", "  data_files:"]
        for split, table in glue_rows(name).items():
            pq.write_table(table.data.table, repository / name / f"{split}-00000-of-00001.parquet")
            described += [f"  - split: {split}", f"    path: {name}/{split}-*"]
    (repository / "README.md").write_text("\n".join(["---", "configs:", *described, "---", ""]), encoding="utf-8")
