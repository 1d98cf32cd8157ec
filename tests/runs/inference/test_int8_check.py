"""An 8-bit graph is compared with its model on the rows that its report scores, and refused if it is much worse."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.data.examples import Split, Splits
from encoderlab.errors import DataError
from encoderlab.runs.corpora.corpus import Corpus
from encoderlab.runs.inference import int8_check
from encoderlab.runs.inference.int8_check import Int8Check, _refuse_loss, check_int8
from encoderlab.runs.models.saved_model import Origin
from encoderlab.tasks.config import ClassificationConfig, MultilabelConfig, RegressionConfig, TaggingConfig
from encoderlab.tasks.task import Answer
from tests.runs.small_assembly import LABELS, assembly_of

TEXTS = [f"{number % 10}{number % 7}{number % 3}"[: 1 + number % 3] for number in range(30)]
TASKS = {
    "label": (ClassificationConfig(name="digits"), [number % 3 for number in range(30)]),
    "label_set": (MultilabelConfig(name="digits"), [[number % 3] if number % 2 else [] for number in range(30)]),
    "number": (RegressionConfig(name="digits", mean=1.0, deviation=2.0), [float(number % 5) for number in range(30)]),
    "words": (TaggingConfig(name="digits"), [[number % 3] * (1 + number % 3) for number in range(30)]),
}


@dataclass
class Rows:
    """A dataset with these labels."""

    kind: str
    limit: int | None = None

    def load(self, cache, target):
        labels = TASKS[self.kind][1]
        columns = {"text": TEXTS, "label": labels}
        if self.kind == "words":
            columns = {"words": [list(text) for text in TEXTS], "labels": labels}
        split = Split(pa.table(columns))
        return Splits({"train": split, "test": split}, [] if self.kind == "number" else LABELS)


@pytest.fixture
def trained(tmp_path):
    """Return a model of each kind, as trained on its rows."""

    def make(kind):
        assembly = assembly_of(TASKS[kind][0], [] if kind == "number" else LABELS)
        assembly.model.eval()
        dataset = Rows(kind)
        fingerprints = Corpus.load(dataset, tmp_path, assembly.config.task.target).fingerprints()
        return replace(
            assembly, config=replace(assembly.config, dataset=dataset), origin=Origin({}, False, fingerprints)
        )

    return make


@pytest.fixture
def graph(monkeypatch):
    """A stand-in for the graph: the model with changed predictions."""

    def changing(change):
        class Graph(torch.nn.Module):
            def __init__(self, _, model):
                super().__init__()
                self.model = model

            def forward(self, batch):
                found = self.model(batch)
                names = [name for name in ("sequence_logits", "token_logits") if getattr(found, name) is not None]
                return replace(found, **{name: change(getattr(found, name)) for name in names})

        monkeypatch.setattr(int8_check, "GraphModel", Graph)

    return changing


@pytest.mark.parametrize("kind", TASKS)
def test_equal_predictions_agree_and_keep_their_score(trained, graph, tmp_path, kind):
    graph(lambda logits: logits)
    check = check_int8(trained(kind), tmp_path, tmp_path)
    assert (check.rows, check.split, check.unscored) == (30, "test", "")
    assert check.agreement == (None if kind == "number" else 1.0)
    assert check.change == 0.0 and check.before == check.after is not None
    assert min(check.texts_per_second) > 0


@pytest.mark.parametrize("scored", [True, False])
def test_a_prediction_that_is_not_a_number_is_refused_wherever_it_is(trained, graph, tmp_path, scored):
    graph(lambda logits: logits.where(torch.arange(len(logits))[:, None] < len(logits) - 1, torch.nan))
    assembly = trained("number")
    assembly = assembly if scored else replace(assembly, origin=Origin({}, False, {}))
    with pytest.raises(DataError, match="The predictions of the 8-bit graph are not finite"):
        check_int8(assembly, tmp_path, tmp_path)


@pytest.mark.parametrize("paired", [False, True])
def test_without_the_rows_it_was_trained_on_sentences_are_compared(trained, graph, tmp_path, paired):
    graph(lambda logits: logits + 1)
    assembly = replace(trained("label"), origin=Origin({}, paired, {"test": "other rows"}))
    check = check_int8(assembly, tmp_path, tmp_path)
    assert (check.rows, check.split, check.before, check.after) == (8, "", None, None)
    assert "The split test has changed since this model was trained" in check.unscored
    assert check.agreement == 1.0 and check.change < 1e-6


def test_evenly_spaced_rows_of_a_long_split_are_compared(trained, graph, tmp_path, monkeypatch):
    monkeypatch.setattr(int8_check, "MOST_ROWS", 7)
    graph(lambda logits: logits)
    assert check_int8(trained("words"), tmp_path, tmp_path).rows == 7


def refuse(score, before, after, agreement, rows=100):
    check = Int8Check(rows, "test", "", agreement, 0.1, score, before, after, (1.0, 1.0), 1)
    _refuse_loss(check, SimpleNamespace(answers={row: Answer(("up",)) for row in range(rows)}))


@pytest.mark.parametrize(("score", "agreement", "lost"), [("accuracy", 0.99, 0.03), ("mae", None, 0.01)])
def test_a_loss_beyond_chance_is_refused(score, agreement, lost):
    down = 1 if score == "mae" else -1
    refuse(score, 0.9, 0.9 + down * (lost - 0.001), agreement)
    with pytest.raises(DataError, match=rf"{score} on test changes from 0.9000 to .*a loss of at most {lost:.4f}"):
        refuse(score, 0.9, 0.9 + down * (lost + 0.001), agreement)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.integers(1, 10_000))
def test_a_graph_that_scores_as_well_is_never_refused(one, other, agreement, rows):
    worse, better = sorted([one, other])
    refuse("accuracy", worse, better, agreement, rows)
    refuse("mae", better, worse, None, rows)
