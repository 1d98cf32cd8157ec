"""The program in an exported folder: predictions from logits for every kind of task, in order."""

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import models, normalizers, pre_tokenizers, processors

pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")

from encoderlab.apps.exporting.onnx_predict import prediction

TEXTS = {"answers_for": "texts", "problem_type": "single_label_classification", "id2label": {"0": "no", "1": "yes"}}
READ = tokenizers.Tokenizer(models.WordLevel({"a": 0}, unk_token="a")).encode("a")
LOGITS = st.lists(st.floats(-50, 50), min_size=2, max_size=2).map(np.array)


@given(LOGITS)
def test_the_most_probable_label_is_predicted(logits):
    predicted = prediction(TEXTS, READ, logits)
    assert sum(predicted["probabilities"].values()) == pytest.approx(1)
    assert predicted["probabilities"][predicted["predicted"]] == max(predicted["probabilities"].values())


@given(LOGITS, st.floats(0, 1))
def test_with_two_labels_one_is_predicted_from_its_threshold_on(logits, threshold):
    predicted = prediction(TEXTS | {"thresholds": {"yes": threshold}}, READ, logits)
    assert predicted["predicted"] == ("yes" if predicted["probabilities"]["yes"] >= threshold else "no")


@given(LOGITS, st.floats(0, 1), st.floats(0, 1))
def test_each_label_of_a_set_has_its_threshold(logits, first, second):
    config = TEXTS | {"problem_type": "multi_label_classification", "thresholds": {"no": first, "yes": second}}
    predicted = prediction(config, READ, logits)
    chances = 1 / (1 + np.exp(-logits))
    assert list(predicted["probabilities"].values()) == pytest.approx(chances.tolist())
    assert predicted["predicted"] == [
        label for label, chance, least in zip(("no", "yes"), chances, (first, second), strict=True) if chance >= least
    ]


def letters():
    """A tokenizer whose tokens are the letters a, b and c; it does not know x."""
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abc"]
    made = tokenizers.Tokenizer(
        models.WordLevel({token: place for place, token in enumerate(tokens)}, unk_token="[UNK]")
    )
    made.normalizer = normalizers.Replace("x", "")
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split("", "isolated")]
    )
    made.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    made.enable_padding(pad_id=0, pad_token="[PAD]")
    return made


@given(st.lists(st.sampled_from(["a", "bc", "x"]), max_size=6))
def test_every_word_keeps_its_place_and_is_read_at_its_first_token(words):
    read = letters().encode(words, is_pretokenized=True)
    first = {place: read.word_ids.index(place) for place, word in enumerate(words) if word != "x"}
    logits = np.zeros((len(read.ids), 2))
    for place, token in first.items():
        logits[token, place % 2] = 1
    predicted = prediction(TEXTS | {"answers_for": "words"}, read, logits)["predicted"]
    assert predicted == [
        ("no", "yes")[place % 2] if place in first else None for place in range(max(first, default=-1) + 1)
    ]
