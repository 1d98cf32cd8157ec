"""BERT and DistilBERT of Transformers: the same logits in both directions, exact round trips, and refusals with a
reason.
"""

import json
import tempfile
from pathlib import Path

import pytest
import safetensors.torch
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from encoderlab.exchange.huggingface import read_huggingface, to_huggingface
from encoderlab.network.config import Activation, HeadSizes, Pooling, Positions
from encoderlab.network.heads import EncoderWithHeads
from tests.exchange.bert_folders import (
    HEADS,
    VOCABULARY,
    assert_read_as_before,
    drawn,
    exported,
    rewrite,
    saved,
    stored,
    theirs_of,
)

COMMON = ("Model", "ForSequenceClassification", "ForTokenClassification", "ForMaskedLM")
ARCHITECTURES = [f"{family}{head}" for family in ("Bert", "DistilBert") for head in COMMON]
ARCHITECTURES += ["BertForPreTraining", "BertForNextSentencePrediction"]
FAST = ("BertForPreTraining", "DistilBertForSequenceClassification", "AutoModelForSequenceClassification")


def one_of_each_fast(names):
    return [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in names]


TESTED, TESTED_HEADS = one_of_each_fast(ARCHITECTURES), one_of_each_fast(HEADS)


SIZES = st.fixed_dictionaries(
    {
        "n_layers": st.integers(1, 3),
        "n_heads": st.integers(1, 3),
        "width": st.integers(2, 5),
        "d_ff": st.integers(1, 30),
        "max_length": st.integers(7, 12),
        "relu": st.booleans(),
        "tied": st.booleans(),
        "seed": st.integers(0, 2**31),
    }
)


LENGTHS = st.lists(st.integers(1, 7), min_size=1, max_size=3)


def ours_of(found):
    """Build our model from what was read, without a pooler if it uses none."""
    model = EncoderWithHeads(found.config, found.vocabulary_size, 0, found.heads).eval()
    taken = model.state_dict().keys()
    model.load_state_dict({name: weight for name, weight in found.weights.items() if name in taken})
    return model


def assert_same_answers(model, theirs, batch):
    """Check for equal hidden states and logits at all real tokens, with the batch's mask or none."""
    inputs = {"input_ids": batch.input_ids}
    if batch.attention_mask is not None:
        inputs["attention_mask"] = batch.attention_mask.long()
    if theirs.config.model_type != "distilbert":
        inputs["token_type_ids"] = batch.token_type_ids
    with torch.no_grad():
        ours, answer = model(batch), theirs(**inputs, output_hidden_states=True)
        hidden = model.encoder(batch.input_ids, batch.token_type_ids, batch.attention_mask)
    real = torch.ones_like(batch.input_ids, dtype=torch.bool) if batch.attention_mask is None else batch.attention_mask
    assert_close(hidden[real], answer.hidden_states[-1][real], rtol=1e-5, atol=1e-5)
    if ours.sequence_logits is not None:
        logits = answer.seq_relationship_logits if "seq_relationship_logits" in answer else answer.logits
        assert_close(ours.sequence_logits, logits, rtol=1e-5, atol=1e-5)
    if ours.token_logits is not None:
        logits = answer.prediction_logits if "prediction_logits" in answer else answer.logits
        assert_close(ours.token_logits, logits[real], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("architecture", TESTED)
@given(sizes=SIZES, lengths=LENGTHS, padded=st.booleans())
@settings(deadline=None, max_examples=12)
def test_their_checkpoint_gives_the_same_numbers_here(make_batch, architecture, sizes, lengths, padded):
    theirs = theirs_of(architecture, **sizes)
    with tempfile.TemporaryDirectory() as folder:
        found = read_huggingface(saved(theirs, folder))
    batch = make_batch(lengths if padded else lengths[:1], mask=padded, seed=sizes["seed"])
    assert_same_answers(ours_of(found), theirs, batch)


OURS = st.fixed_dictionaries(
    {
        "n_layers": st.integers(1, 3),
        "n_heads": st.sampled_from([1, 2, 4]),
        "d_ff": st.integers(1, 20),
        "positions": st.sampled_from([Positions.learned, Positions.sinusoidal]),
        "bias": st.booleans(),
        "tie_decoder": st.booleans(),
        "seed": st.integers(0, 2**31),
    }
)


OF_BERT = st.fixed_dictionaries(
    {
        "segments": st.sampled_from([0, 2, 3]),
        "norm_epsilon": st.sampled_from([1e-12, 1e-5, 0.1]),
        "pooling": st.sampled_from([Pooling.pooler, Pooling.cls]),
    }
)


OF_DISTILBERT = st.fixed_dictionaries(
    {"segments": st.just(0), "norm_epsilon": st.just(1e-12), "pooling": st.just(Pooling.relu_pooler)}
)


@pytest.mark.parametrize("opened_by", TESTED_HEADS)
@given(shape=OURS, lengths=LENGTHS, padded=st.booleans(), data=st.data())
@settings(deadline=None, max_examples=20)
def test_our_model_gives_the_same_numbers_there(make_batch, opened_by, shape, lengths, padded, data):
    heads = HEADS[opened_by]
    family = data.draw(OF_BERT if opened_by == "BertForPreTraining" else st.one_of(OF_BERT, OF_DISTILBERT))
    activation = Activation.gelu if heads.vocabulary else data.draw(st.sampled_from([Activation.gelu, Activation.relu]))
    config, model = drawn(heads, **shape, **family, activation=activation)
    with tempfile.TemporaryDirectory() as folder:
        exported(config, heads, model.state_dict(), Path(folder))
        theirs, account = getattr(transformers, opened_by).from_pretrained(folder, output_loading_info=True)
    nothing = {"pooler.dense.weight", "pooler.dense.bias"} if opened_by == "AutoModel" else set()
    assert account["missing_keys"] <= nothing
    assert not account["unexpected_keys"] and not account["mismatched_keys"]
    model_types = {Pooling.relu_pooler: "distilbert", Pooling.pooler: "bert"}
    model_types[Pooling.cls] = "electra" if heads.sequence_classes and not heads.vocabulary else "bert"
    assert theirs.config.model_type == model_types[family["pooling"]]
    assert_same_answers(
        model, theirs.eval(), make_batch(lengths if padded else lengths[:1], mask=padded, seed=shape["seed"])
    )


@pytest.mark.parametrize("architecture", TESTED)
@given(sizes=SIZES)
@settings(deadline=None, max_examples=8)
def test_theirs_to_ours_and_back_is_bit_for_bit_identical(architecture, sizes):
    theirs = theirs_of(architecture, **sizes)
    with tempfile.TemporaryDirectory() as folder:
        if (predictions := getattr(getattr(theirs, "cls", None), "predictions", None)) is not None:
            # without a tie, transformers reads the decoder's bias alone
            predictions.bias.data = predictions.decoder.bias.data.clone()
        saved(theirs, folder)
        before = safetensors.torch.load_file(Path(folder) / "model.safetensors")
        fields_before = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
        found = read_huggingface(Path(folder))
    fields, weights = to_huggingface(found, pad_id=0)
    if architecture == "BertForNextSentencePrediction":  # with us a classifier of pairs like any other
        fields["architectures"] = ["BertForNextSentencePrediction"]
        weights = {name.replace("classifier", "cls.seq_relationship"): weight for name, weight in weights.items()}
    assert weights.keys() == before.keys()
    assert all(torch.equal(weights[name], before[name]) for name in before)
    # what ours has no two of, what transformers leaves out where it is the default, and what the decoder's presence
    # already says
    chosen = {"seq_classif_dropout", "problem_type", "id2label", "label2id", "tie_word_embeddings"}
    kept = fields.keys() & fields_before.keys() - chosen
    assert {key: fields[key] for key in kept} == {key: fields_before[key] for key in kept}


@pytest.mark.parametrize("opened_by", TESTED_HEADS)
@given(shape=OURS, data=st.data())
@settings(deadline=None, max_examples=12)
def test_ours_to_theirs_and_back_is_bit_for_bit_identical(opened_by, shape, data):
    heads = HEADS[opened_by]
    family = data.draw(OF_BERT if heads.sequence_classes and heads.vocabulary else st.one_of(OF_BERT, OF_DISTILBERT))
    config, model = drawn(heads, **shape, **family)
    with tempfile.TemporaryDirectory() as folder:
        fields, there = exported(config, heads, model.state_dict(), Path(folder))
        back = read_huggingface(Path(folder))
    assert back.heads == heads
    of_pairs = heads.vocabulary and "id2label" in fields
    assert back.labels == (["follows", "random"] if of_pairs else list(fields.get("id2label", {}).values()))
    fields_again, again = to_huggingface(back, pad_id=0)
    assert fields_again["architectures"] == fields["architectures"]
    assert again.keys() == there.keys()
    for name, weight in there.items():
        assert_close(again[name], weight, rtol=0, atol=1e-5 if name == "classifier.bias" else 0)
    for name, weight in model.state_dict().items():  # what needed no change has none
        assert_close(back.weights[name], weight, rtol=0, atol=1e-5 if name == "sequence_head.bias" else 0)


def test_a_classifier_by_the_first_token_can_be_quantized_and_trained_further(make_batch, tmp_path):
    heads = HeadSizes(sequence_classes=3)
    config, model = drawn(heads, pooling=Pooling.cls, segments=2)
    exported(config, heads, model.state_dict(), tmp_path)
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    assert_same_answers(model, theirs, make_batch([9, 4, 7], mask=True))
    head = torch.cat([theirs.classifier.dense.weight.flatten(), theirs.classifier.out_proj.weight.flatten()])
    assert head.abs().max() <= max(1.0, model.sequence_head.weight.abs().max())  # no weight out of scale
    assert read_huggingface(tmp_path).config.pooling is Pooling.cls


def test_old_weight_names_are_understood(bert):
    def older(folder):
        weights = stored(folder)
        for name in list(weights):
            if "LayerNorm." in name:
                weights[name.replace("weight", "gamma").replace("bias", "beta")] = weights.pop(name)
        weights["bert.embeddings.position_ids"] = torch.arange(12)[None]
        rewrite(folder, weights)

    assert_read_as_before(bert, older)


def test_a_decoder_that_differs_from_the_embeddings_is_kept_whatever_config_json_says(bert, make_batch):
    weights = stored(bert)
    weights["cls.predictions.decoder.weight"] = torch.randn(VOCABULARY, 8)
    weights["cls.predictions.decoder.bias"] = torch.randn(VOCABULARY)
    rewrite(bert, weights)
    found = read_huggingface(bert)
    assert not found.config.tie_decoder
    assert_same_answers(
        ours_of(found), transformers.BertForPreTraining.from_pretrained(bert).eval(), make_batch([5, 3])
    )
