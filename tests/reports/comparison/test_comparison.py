"""Comparisons: as few settings as distinguish all runs, and unambiguous names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.metrics.scores import is_lower_better
from encoderlab.reports.comparison.comparison import distinguishing, short_names, shown

NAMES = ["encoder", "model.n_layers", "training.learning_rate", "dataset.name"]
many = st.lists(st.fixed_dictionaries({name: st.integers(0, 2) for name in NAMES}), min_size=1, max_size=8)


@given(many)
def test_the_distinguishing_settings_are_sufficient_and_all_necessary(values):
    def kinds(names):
        return len({tuple(value[name] for name in names) for value in values})

    chosen = distinguishing(values)
    assert kinds(chosen) == kinds(NAMES)
    assert all(kinds([other for other in chosen if other != name]) < kinds(chosen) for name in chosen)


def test_the_name_of_a_model_stands_for_its_shape():
    shapes = [{"model.d_model": width, "encoder": name} for width, name in ((128, "tiny"), (256, "mini"))]
    assert distinguishing(shapes) == ["encoder"]


def test_init_from_stands_for_the_settings_it_brings():
    scratch = {"tokenizer.vocabulary_size": 8000, "training.learning_rate": 1e-3, "command": "train", "encoder": "mini"}
    finetuned = {
        "tokenizer.vocabulary_size": None,
        "training.learning_rate": 1e-4,
        "command": "finetune",
        "encoder": "run",
    }
    assert distinguishing([scratch, finetuned]) == ["encoder"]
    assert distinguishing([{name: one[name] for name in list(one)[:2]} for one in (scratch, finetuned)]) == [
        "training.learning_rate"
    ]


def test_a_short_name_is_used_if_it_is_unambiguous():
    assert short_names(["model.n_layers", "seed"]) == ["n_layers", "seed"]
    assert short_names(["model.dropout", "training.dropout", "model.name"]) == [
        "model.dropout",
        "training.dropout",
        "model.name",
    ]


@pytest.mark.parametrize(("value", "typed"), [(None, "null"), (True, "true"), (0.0001, "0.0001"), (3, "3"), ("a", "a")])
def test_values_are_shown_as_typed(value, typed):
    assert shown(value) == typed


def test_for_losses_and_perplexities_the_lowest_is_best():
    assert [is_lower_better(name) for name in ("loss", "mlm_perplexity", "nsp_loss", "accuracy")] == [
        True,
        True,
        True,
        False,
    ]
