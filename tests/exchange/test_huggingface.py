"""BERT and DistilBERT of Transformers: the same logits in both directions, exact round trips, and refusals with a reason."""

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

from encoderlab.batch import HeadSizes
from encoderlab.errors import DataError, SettingError
from encoderlab.exchange.huggingface import read_huggingface, to_huggingface
from encoderlab.model.config import Activation, ModelConfig, Norm, NormPosition, Pairs, Pooling, Positions
from encoderlab.model.heads import EncoderWithHeads

VOCABULARY = 13
ARCHITECTURES = [
    *(f"Bert{head}" for head in ("Model", "ForSequenceClassification", "ForTokenClassification", "ForMaskedLM", "ForPreTraining")),
    "BertForNextSentencePrediction",
    *(f"DistilBert{head}" for head in ("Model", "ForSequenceClassification", "ForTokenClassification", "ForMaskedLM")),
]
TESTED = [  # one of each family in the fast lane
    name if name in ("BertForPreTraining", "DistilBertForSequenceClassification") else pytest.param(name, marks=pytest.mark.slow)
    for name in ARCHITECTURES
]
HEADS = {
    "AutoModelForSequenceClassification": HeadSizes(sequence_classes=3),
    "AutoModelForTokenClassification": HeadSizes(token_classes=3),
    "AutoModelForMaskedLM": HeadSizes(vocabulary=True),
    "BertForPreTraining": HeadSizes(sequence_classes=2, vocabulary=True),
    "AutoModel": HeadSizes(),
}
TESTED_HEADS = [
    name if name in ("AutoModelForSequenceClassification", "BertForPreTraining") else pytest.param(name, marks=pytest.mark.slow)
    for name in HEADS
]
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


@pytest.fixture(autouse=True, scope="module")
def no_bars():
    transformers.utils.logging.disable_progress_bar()


def theirs_of(architecture, *, n_layers=2, n_heads=2, width=4, d_ff=24, max_length=12, relu=False, tied=True, seed=0, **more):
    """Return a Transformers model with random weights, including biases and norms, which usually start at 0 and 1."""
    torch.manual_seed(seed)
    activation = "relu" if relu and "Masked" not in architecture and "Pre" not in architecture else "gelu"
    same = {"vocab_size": VOCABULARY, "max_position_embeddings": max_length, "tie_word_embeddings": tied, "num_labels": 3, **more}
    if architecture.startswith("Distil"):
        sizes = {"n_layers": n_layers, "n_heads": n_heads, "dim": n_heads * width, "hidden_dim": d_ff, "activation": activation}
        config = transformers.DistilBertConfig(**sizes, **same)
    else:
        names = ("num_hidden_layers", "num_attention_heads", "hidden_size", "intermediate_size", "hidden_act")
        sizes = dict(zip(names, (n_layers, n_heads, n_heads * width, d_ff, activation), strict=True))
        config = transformers.BertConfig(**sizes, **same)
    model = getattr(transformers, architecture)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    return model


def saved(model, folder, **options):
    model.save_pretrained(folder, **options)
    return Path(folder)


def ours_of(found):
    """Build our model from what was read, without a pooler if it uses none."""
    model = EncoderWithHeads(found.config, found.vocabulary_size, found.pad_id, found.heads).eval()
    taken = model.state_dict().keys()
    model.load_state_dict({name: weight for name, weight in found.weights.items() if name in taken})
    return model


def drawn(heads, seed=0, **settings):
    """Return a model of ours with random weights."""
    config = ModelConfig(**{"d_model": 8, "d_ff": 12, "max_length": 12, "dropout": 0.0, "pooling": Pooling.pooler, **settings})
    torch.manual_seed(seed)
    model = EncoderWithHeads(config, VOCABULARY, 0, heads).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    return config, model


def exported(config, heads, weights, folder, labels=("sad", "nützlich", "glad")):
    """Write a Transformers folder as `encoderlab export` does, but without the tokenizer."""
    classes = heads.sequence_classes or heads.token_classes or 0
    said, theirs = to_huggingface(config, heads, weights, labels=list(labels)[:classes], vocabulary_size=VOCABULARY, pad_id=0)
    (folder / "config.json").write_text(json.dumps(said), encoding="utf-8")
    safetensors.torch.save_file(theirs, folder / "model.safetensors", metadata={"format": "pt"})
    return said, theirs


def assert_same_answers(model, theirs, batch):
    """Check for equal hidden states and logits at all real tokens, with the batch's mask or none."""
    inputs = {"input_ids": batch.input_ids}
    if batch.attention_mask is not None:
        inputs["attention_mask"] = batch.attention_mask.long()
    if theirs.config.model_type == "bert":
        inputs["token_type_ids"] = batch.token_type_ids
    with torch.no_grad():
        said, answer = model(batch), theirs(**inputs, output_hidden_states=True)
        hidden = model.encoder(batch.input_ids, batch.token_type_ids, batch.attention_mask)
    real = torch.ones_like(batch.input_ids, dtype=torch.bool) if batch.attention_mask is None else batch.attention_mask
    assert_close(hidden[real], answer.hidden_states[-1][real], rtol=1e-5, atol=1e-5)
    if said.sequence_logits is not None:
        logits = answer.seq_relationship_logits if "seq_relationship_logits" in answer else answer.logits
        assert_close(said.sequence_logits, logits, rtol=1e-5, atol=1e-5)
    if said.token_logits is not None:
        logits = answer.prediction_logits if "prediction_logits" in answer else answer.logits
        assert_close(said.token_logits, logits[real], rtol=1e-5, atol=1e-5)


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
        "scale_embeddings": st.booleans(),
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
    assert theirs.config.model_type == ("distilbert" if family["pooling"] is Pooling.relu_pooler else "bert")
    assert_same_answers(model, theirs.eval(), make_batch(lengths if padded else lengths[:1], mask=padded, seed=shape["seed"]))


@pytest.mark.parametrize("architecture", TESTED)
@given(sizes=SIZES)
@settings(deadline=None, max_examples=8)
def test_theirs_to_ours_and_back_is_bit_for_bit_identical(architecture, sizes):
    theirs = theirs_of(architecture, **sizes)
    with tempfile.TemporaryDirectory() as folder:
        if (
            "MaskedLM" in architecture or "PreTraining" in architecture
        ):  # without a tie, transformers reads the decoder's bias alone
            predictions = getattr(getattr(theirs, "cls", None), "predictions", None)
            if predictions is not None:
                predictions.bias.data = predictions.decoder.bias.data.clone()
        saved(theirs, folder)
        before = safetensors.torch.load_file(Path(folder) / "model.safetensors")
        said_before = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
        found = read_huggingface(Path(folder))
    sizes = {"vocabulary_size": found.vocabulary_size, "pad_id": found.pad_id}
    said, weights = to_huggingface(found.config, found.heads, found.weights, labels=found.labels, **sizes)
    if architecture == "BertForNextSentencePrediction":  # with us a classifier of pairs like any other
        said["architectures"] = ["BertForNextSentencePrediction"]
        weights = {name.replace("classifier", "cls.seq_relationship"): weight for name, weight in weights.items()}
    assert weights.keys() == before.keys()
    assert all(torch.equal(weights[name], before[name]) for name in before)
    # what ours has no two of, what transformers leaves out where it is the default, and what the decoder's presence already says
    chosen = {"seq_classif_dropout", "problem_type", "id2label", "label2id", "tie_word_embeddings"}
    assert {key: said[key] for key in said_before if key in said and key not in chosen} == {
        key: said_before[key] for key in said_before if key in said and key not in chosen
    }


@pytest.mark.parametrize("opened_by", TESTED_HEADS)
@given(shape=OURS, data=st.data())
@settings(deadline=None, max_examples=12)
def test_ours_to_theirs_and_back_is_bit_for_bit_identical(opened_by, shape, data):
    heads = HEADS[opened_by]
    family = data.draw(OF_BERT if heads.sequence_classes and heads.vocabulary else st.one_of(OF_BERT, OF_DISTILBERT))
    config, model = drawn(heads, **shape, **family)
    with tempfile.TemporaryDirectory() as folder:
        said, there = exported(config, heads, model.state_dict(), Path(folder))
        back = read_huggingface(Path(folder))
    assert back.heads == heads
    assert back.labels == (
        [] if "id2label" not in said else ["follows", "random"] if heads.vocabulary else list(said["id2label"].values())
    )
    said_again, again = to_huggingface(
        back.config, back.heads, back.weights, labels=back.labels, vocabulary_size=back.vocabulary_size, pad_id=back.pad_id
    )
    assert again.keys() == there.keys() and all(torch.equal(again[name], there[name]) for name in there)
    assert said_again["architectures"] == said["architectures"]
    for name, weight in model.state_dict().items():  # what needed no change has none
        if name != "encoder.embeddings.token.weight" or not config.scale_embeddings:
            assert torch.equal(back.weights[name], weight), name


def test_settings_are_read_from_config_json(tmp_path):
    sizes = {"n_layers": 3, "n_heads": 3, "width": 4, "d_ff": 20, "max_length": 9, "relu": True}
    more = {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.3, "layer_norm_eps": 1e-4, "initializer_range": 0.05}
    theirs = theirs_of("BertForSequenceClassification", **sizes, **more, pad_token_id=4, id2label={0: "né", 1: "b", 2: "c"})
    found = read_huggingface(saved(theirs, tmp_path))
    assert found.config == ModelConfig(
        name="bert",
        n_layers=3,
        d_model=12,
        n_heads=3,
        d_ff=20,
        max_length=9,
        segments=2,
        norm_epsilon=1e-4,
        activation=Activation.relu,
        pooling=Pooling.pooler,
        dropout=0.2,
        attention_dropout=0.3,
        initializer_range=0.05,
    )
    assert (found.labels, found.heads, found.family) == (["né", "b", "c"], HeadSizes(sequence_classes=3), "bert")
    assert (found.vocabulary_size, found.pad_id) == (VOCABULARY, 4)


def test_settings_of_distilbert_are_read_from_config_json(tmp_path):
    theirs = theirs_of("DistilBertForTokenClassification", dropout=0.3, attention_dropout=0.2, sinusoidal_pos_embds=True)
    found = read_huggingface(saved(theirs, tmp_path))
    assert (found.config.dropout, found.config.attention_dropout, found.config.segments) == (0.3, 0.2, 0)
    assert found.config.pooling is Pooling.relu_pooler and found.config.positions is Positions.learned
    assert found.labels == ["LABEL_0", "LABEL_1", "LABEL_2"] and found.heads == HeadSizes(token_classes=3)


def stored(folder):
    return safetensors.torch.load_file(folder / "model.safetensors")


def rewrite(folder, weights=None, **said):
    """Change the folder's weights or values of its config.json (None removes the key)."""
    if weights is not None:
        safetensors.torch.save_file(
            {name: weight.clone().contiguous() for name, weight in weights.items()}, folder / "model.safetensors"
        )
    path = folder / "config.json"
    content = json.loads(path.read_text(encoding="utf-8")) | said
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}), encoding="utf-8")


@pytest.fixture
def bert(tmp_path):
    """Return the folder of a BERT with both pretraining heads."""
    return saved(theirs_of("BertForPreTraining"), tmp_path / "a bert")


def assert_read_as_before(folder, change):
    before = read_huggingface(folder).weights
    change(folder)
    after = read_huggingface(folder).weights
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)


def test_old_weight_names_are_understood(bert):
    def older(folder):
        weights = stored(folder)
        for name in list(weights):
            if "LayerNorm." in name:
                weights[name.replace("weight", "gamma").replace("bias", "beta")] = weights.pop(name)
        weights["bert.embeddings.position_ids"] = torch.arange(12)[None]
        rewrite(folder, weights)

    assert_read_as_before(bert, older)


def test_a_decoder_that_repeats_the_embeddings_is_tied(bert):
    def repeated(folder):
        weights = stored(folder)
        weights["cls.predictions.decoder.weight"] = weights["bert.embeddings.word_embeddings.weight"]
        weights["cls.predictions.decoder.bias"] = weights["cls.predictions.bias"]
        rewrite(folder, weights)

    assert_read_as_before(bert, repeated)
    assert read_huggingface(bert).config.tie_decoder


def test_a_decoder_that_differs_from_the_embeddings_is_kept_whatever_config_json_says(bert, make_batch):
    weights = stored(bert)
    weights["cls.predictions.decoder.weight"] = torch.randn(VOCABULARY, 8)
    weights["cls.predictions.decoder.bias"] = torch.randn(VOCABULARY)
    rewrite(bert, weights)
    found = read_huggingface(bert)
    assert not found.config.tie_decoder
    assert_same_answers(ours_of(found), transformers.BertForPreTraining.from_pretrained(bert).eval(), make_batch([5, 3]))


def test_an_encoder_saved_without_a_prefix_keeps_its_pooler(tmp_path):
    theirs = theirs_of("BertModel")
    found = read_huggingface(saved(theirs, tmp_path))
    assert found.heads == HeadSizes()
    assert torch.equal(found.weights["pool.dense.weight"], theirs.pooler.dense.weight)


def test_a_masked_language_model_with_a_pooler_is_exported_without_it(bert, tmp_path):
    weights = {name: weight for name, weight in stored(bert).items() if "seq_relationship" not in name}
    rewrite(bert, weights, architectures=["BertForMaskedLM"])
    found = read_huggingface(bert)
    assert "pool.dense.bias" in found.weights
    sizes = {"vocabulary_size": VOCABULARY, "pad_id": 0}
    said, theirs = to_huggingface(found.config, found.heads, found.weights, labels=[], **sizes)
    assert said["architectures"] == ["BertForMaskedLM"] and not [name for name in theirs if "pooler" in name]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_weights_of_other_precisions_become_float32(bert, dtype):
    weights = {name: weight.to(dtype) for name, weight in stored(bert).items()}
    rewrite(bert, weights)
    found = read_huggingface(bert).weights["encoder.embeddings.token.weight"]
    assert found.dtype == torch.float32
    assert torch.equal(found, weights["bert.embeddings.word_embeddings.weight"].float())


def test_sharded_weights_are_merged(bert):
    def cut(folder):
        weights = stored(folder)
        (folder / "model.safetensors").unlink()
        for number in (0, 1):
            part = {name: weight for place, (name, weight) in enumerate(weights.items()) if place % 2 == number}
            safetensors.torch.save_file(part, folder / f"model-{number}.safetensors")
        placed = {name: f"model-{place % 2}.safetensors" for place, name in enumerate(weights)}
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": placed}))

    assert_read_as_before(bert, cut)


@pytest.mark.parametrize(("kept", "heads"), [("pooler", HeadSizes(sequence_classes=3)), ("", HeadSizes(token_classes=3))])
def test_a_classifier_with_a_pooler_but_no_name_is_for_sequences(tmp_path, kept, heads):
    folder = saved(theirs_of("BertForSequenceClassification"), tmp_path)
    weights = {name: weight for name, weight in stored(folder).items() if kept or "pooler" not in name}
    rewrite(folder, weights, architectures=None)
    assert read_huggingface(folder).heads == heads


def test_sentence_order_labels_survive_the_round_trip(tmp_path):
    heads = HEADS["BertForPreTraining"]
    config, model = drawn(heads)
    exported(config, heads, model.state_dict(), tmp_path, labels=["in_order", "swapped"])
    assert read_huggingface(tmp_path).labels == ["in_order", "swapped"]


def test_real_labels_are_in_the_export(tmp_path):
    heads = HEADS["AutoModelForTokenClassification"]
    config, model = drawn(heads)
    exported(config, heads, model.state_dict(), tmp_path)
    theirs = transformers.AutoModelForTokenClassification.from_pretrained(tmp_path)
    assert theirs.config.id2label == {0: "sad", 1: "nützlich", 2: "glad"}
    assert theirs.config.label2id == {"sad": 0, "nützlich": 1, "glad": 2}


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"model_type": "roberta"}, r"model_type=roberta\. Allowed: bert, distilbert\."),
        ({"model_type": ["bert"]}, r"model_type=\['bert'\]\. Allowed: bert, distilbert\."),
        ({"architectures": ["BertForQuestionAnswering"]}, r"architectures=\['BertForQuestionAnswering'\]\. Allowed: BertModel, "),
        ({"architectures": "BertModel"}, r"architectures=BertModel\. Allowed: BertModel, "),
        ({"hidden_act": "gelu_new"}, r"hidden_act=gelu_new\. Allowed: gelu or relu\."),
        ({"hidden_act": "relu"}, r"predicts masked tokens with relu\. Allowed: gelu"),
        ({"position_embedding_type": "relative_key"}, r"position_embedding_type=relative_key\. Allowed: absolute\."),
        ({"is_decoder": True}, r"is_decoder=True\. Allowed: False\."),
        ({"add_cross_attention": True}, r"add_cross_attention=True\. Allowed: False\."),
        ({"problem_type": "ranking"}, r"problem_type=ranking\. Allowed: single_label_classification or multi_label_class"),
        ({"tie_word_embeddings": "yes"}, r"tie_word_embeddings=yes\. Allowed: True or False\."),
        ({"num_hidden_layers": "2"}, r"num_hidden_layers=2\. Allowed: a whole number\."),
        ({"num_hidden_layers": True}, r"num_hidden_layers=True\. Allowed: a whole number\."),
        ({"num_hidden_layers": 10**9}, r"model\.n_layers is 1000000000\. Allowed: at least 1, at most 1000\."),
        ({"hidden_size": 9}, r"model\.d_model=9 is not a multiple of model\.n_heads=2"),
        ({"layer_norm_eps": 0}, r"model\.norm_epsilon is 0\.0\. Allowed: more than 0\."),
        ({"hidden_dropout_prob": 10**400}, r"hidden_dropout_prob=1000.*Allowed: a number\."),
        ({"layer_norm_eps": "tiny"}, r"layer_norm_eps=tiny\. Allowed: a number\."),
        ({"type_vocab_size": 1}, r"model\.segments is 1\. Allowed: 0 for none, or at least 2"),
        ({"vocab_size": 0}, r"vocab_size=0 and pad_token_id=0\. Allowed: an id of the vocabulary"),
        ({"pad_token_id": 13}, r"vocab_size=13 and pad_token_id=13\."),
        ({"vocab_size": 14}, r"word_embeddings\.weight has the shape \[13, 8\], but config\.json requires \[14, 8\]"),
        ({"num_hidden_layers": 3}, r"lacks the weight bert\.encoder\.layer\.2\.attention\.output\.LayerNorm\.bias \(and 15 more\)"),
        ({"num_hidden_layers": 1}, r"has the unknown weight bert\.encoder\.layer\.1\..* \(and 15 more\)"),
        ({"tie_word_embeddings": False}, r"lacks the weight cls\.predictions\.decoder\.weight\."),
    ],
)
def test_unsupported_configs_are_refused_in_one_line(bert, change, line):
    rewrite(bert, **change)
    with pytest.raises(DataError, match=line) as refused:
        read_huggingface(bert)
    assert str(bert) in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"id2label": {"0": "a", "1": "b"}}, "but the head has 3 classes. Allowed: a different name for each class"),
        ({"id2label": {"0": "a", "1": "b", "2": "a"}}, "a different name for each class"),
        ({"id2label": {"0": "a", "1": "b", "2": 7}}, "a different name for each class"),
        ({"id2label": ["a", "b", "c"]}, "a different name for each class"),
    ],
)
def test_labels_that_do_not_match_the_head_are_refused(tmp_path, change, line):
    folder = saved(theirs_of("BertForSequenceClassification"), tmp_path)
    rewrite(folder, **change)
    with pytest.raises(DataError, match=line):
        read_huggingface(folder)


def test_a_head_with_one_number_is_a_regression_and_several_are_refused(tmp_path):
    found = read_huggingface(saved(theirs_of("DistilBertForSequenceClassification", num_labels=1), tmp_path / "one"))
    assert (found.heads.sequence_classes, found.heads.sequence_target, found.labels) == (1, "number", [])
    three = theirs_of("DistilBertForSequenceClassification", num_labels=3, problem_type="regression")
    with pytest.raises(DataError, match="has a head with 3 numbers. Allowed: one number"):
        read_huggingface(saved(three, tmp_path / "three"))


def test_label_sets_are_read_with_the_thresholds_of_our_export(tmp_path):
    kind = {
        "num_labels": 2,
        "problem_type": "multi_label_classification",
        "id2label": {0: "a", 1: "b"},
        "label2id": {"a": 0, "b": 1},
    }
    for thresholds, read in (({"a": 0.3, "b": 0.6}, {"a": 0.3, "b": 0.6}), ({"a": 0.3}, None)):
        theirs = theirs_of("BertForSequenceClassification", **kind, thresholds=thresholds)
        found = read_huggingface(saved(theirs, tmp_path / str(len(thresholds))))
        assert (found.heads.sequence_target, found.labels, found.thresholds) == ("label_set", ["a", "b"], read)


def half(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def pickled(folder):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"anything")


def index_of(content):
    def write(folder):
        (folder / "model.safetensors").unlink()
        (folder / "model.safetensors.index.json").write_text(json.dumps(content))

    return write


def as_integers(folder):
    weights = stored(folder)
    weights["bert.pooler.dense.bias"] = weights["bert.pooler.dense.bias"].to(torch.int8)
    rewrite(folder, weights)


def twice(folder):
    weights = stored(folder)
    weights["pooler.dense.bias"] = weights["bert.pooler.dense.bias"]
    rewrite(folder, weights)


@pytest.mark.parametrize(
    ("damage", "line"),
    [
        (pickled, r"has its weights only as pytorch_model\.bin, .* Allowed: model\.safetensors\. .*save_pretrained"),
        (lambda folder: (folder / "model.safetensors").unlink(), r"has no weights\. Allowed: model\.safetensors"),
        (lambda folder: half(folder / "model.safetensors"), r"model\.safetensors is damaged"),
        (lambda folder: half(folder / "config.json"), r"config\.json is damaged"),
        (lambda folder: (folder / "config.json").write_text("[" * 100_000), r"config\.json is damaged"),
        (lambda folder: (folder / "config.json").write_text("[]"), r"config\.json is damaged: it is not an object"),
        (lambda folder: (folder / "config.json").write_text(" " * 1_000_001), r"has 1,000,001 bytes\. Allowed: at most 1,000,000"),
        (lambda folder: (folder / "config.json").unlink(), r"There is no config\.json in .*save_pretrained"),
        (index_of({"weight_map": {"a": "../model.safetensors"}}), r"weight_map names no files next to it"),
        (index_of({"weight_map": {"a": "pytorch_model.bin"}}), r"weight_map names no files next to it"),
        (index_of({"weight_map": ["a"]}), r"weight_map names no files next to it"),
        (index_of({"weight_map": {"a": "gone.safetensors"}}), r"gone\.safetensors is damaged: No such file"),
        (as_integers, r"bert\.pooler\.dense\.bias is of type int8\. Allowed: float64, float32, float16, bfloat16"),
        (twice, r"has two weights named bert\.pooler\.dense\.bias"),
    ],
)
def test_an_unreadable_folder_is_refused_in_one_line(bert, damage, line):
    damage(bert)
    with pytest.raises(DataError, match=line) as refused:
        read_huggingface(bert)
    assert str(bert) in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("change", "instead"),
    [
        ({"positions": Positions.rotary}, "model.positions=learned"),
        ({"norm": Norm.rms}, "model.norm=layer"),
        ({"norm": Norm.scalar}, "model.norm=layer"),
        ({"norm_position": NormPosition.pre}, "model.norm_position=post"),
        ({"activation": Activation.geglu}, "model.activation=gelu"),
        ({"embedding_norm": False}, "model.embedding_norm=true"),
        ({"d_head": 6}, "model.d_head=null"),
        ({"pooling": Pooling.mean}, "model.pooling=pooler"),
        ({"pooling": Pooling.max}, "model.pooling=pooler"),
        ({"pairs": Pairs.separate}, "model.pairs=joint"),
        ({"pooling": Pooling.relu_pooler, "norm_epsilon": 1e-12}, "model.pooling=pooler"),
        ({"pooling": Pooling.relu_pooler, "segments": 0}, "model.pooling=pooler"),
    ],
)
def test_settings_without_an_equivalent_are_named_with_what_to_choose_instead(change, instead):
    heads = HeadSizes(sequence_classes=3)
    config, model = drawn(heads, **change)
    with pytest.raises(SettingError, match=f"has no equivalent of .*Use format=.*, or train with .*{instead}"):
        to_huggingface(config, heads, model.state_dict(), labels=["a", "b", "c"], vocabulary_size=VOCABULARY, pad_id=0)


def test_all_reasons_are_given_in_one_line():
    heads = HeadSizes(sequence_classes=2, vocabulary=True)
    shape = {"positions": Positions.rotary, "norm": Norm.rms, "norm_position": NormPosition.pre, "activation": Activation.relu}
    config, model = drawn(heads, **shape, pooling=Pooling.mean)
    with pytest.raises(SettingError) as refused:
        to_huggingface(config, heads, model.state_dict(), labels=["a", "b"], vocabulary_size=VOCABULARY, pad_id=0)
    assert str(refused.value) == (
        "BERT in transformers has no equivalent of model.positions=rotary, model.norm=rms, model.norm_position=pre, "
        "model.activation=relu with masked tokens, model.pooling=mean. Use format=onnx, or train with model.positions=learned, "
        "model.norm=layer, model.norm_position=post, model.activation=gelu, model.pooling=pooler."
    )


@pytest.mark.parametrize("pooling", Pooling)
def test_a_tagger_is_exported_whatever_its_pooling(pooling):
    heads = HeadSizes(token_classes=3)
    config, model = drawn(heads, pooling=pooling)
    said, _ = to_huggingface(config, heads, model.state_dict(), labels=["a", "b", "c"], vocabulary_size=VOCABULARY, pad_id=0)
    assert said["architectures"] == ["BertForTokenClassification"]
