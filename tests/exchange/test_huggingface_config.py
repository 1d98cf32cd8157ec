"""The settings in a config.json of Transformers: read as ours, written from ours, and refused with a reason."""

import pytest

from encoderlab.errors import DataError, SettingError
from encoderlab.exchange.huggingface import read_huggingface
from encoderlab.network.config import Activation, HeadSizes, ModelConfig, Norm, NormPosition, Pairs, Pooling, Positions
from tests.exchange.bert_folders import VOCABULARY, drawn, exported, rewrite, saved, theirs_of


def test_settings_are_read_from_config_json(tmp_path):
    sizes = {"n_layers": 3, "n_heads": 3, "width": 4, "d_ff": 20, "max_length": 9, "relu": True}
    more = {
        "hidden_dropout_prob": 0.2,
        "attention_probs_dropout_prob": 0.3,
        "layer_norm_eps": 1e-4,
        "initializer_range": 0.05,
    }
    theirs = theirs_of(
        "BertForSequenceClassification", **sizes, **more, pad_token_id=4, id2label={0: "né", 1: "b", 2: "c"}
    )
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
    assert (found.labels, found.heads) == (["né", "b", "c"], HeadSizes(sequence_classes=3))
    assert found.vocabulary_size == VOCABULARY


def test_settings_of_distilbert_are_read_from_config_json(tmp_path):
    theirs = theirs_of(
        "DistilBertForTokenClassification", dropout=0.3, attention_dropout=0.2, sinusoidal_pos_embds=True
    )
    found = read_huggingface(saved(theirs, tmp_path))
    assert (found.config.dropout, found.config.attention_dropout, found.config.segments) == (0.3, 0.2, 0)
    assert found.config.pooling is Pooling.relu_pooler and found.config.positions is Positions.learned
    assert found.labels == ["LABEL_0", "LABEL_1", "LABEL_2"] and found.heads == HeadSizes(token_classes=3)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"model_type": "t5"}, r"model_type=t5\. Allowed: bert, distilbert, roberta, "),
        (
            {"architectures": ["BertForQuestionAnswering"]},
            r"architectures=\['BertForQuestionAnswering'\]\. Allowed: BertModel, ",
        ),
        ({"hidden_act": "xielu"}, r"hidden_act=xielu\. Allowed: gelu or .* or relu or "),
        ({"hidden_act": "relu"}, r"predicts masked tokens with relu\. Allowed: gelu"),
        ({"position_embedding_type": "relative_key"}, r"position_embedding_type=relative_key\. Allowed: absolute\."),
        ({"is_decoder": True}, r"is_decoder=True\. Allowed: False\."),
        (
            {"problem_type": "ranking"},
            r"problem_type=ranking\. Allowed: single_label_classification or multi_label_class",
        ),
        ({"num_hidden_layers": "2"}, r"num_hidden_layers=2\. Allowed: a whole number\."),
        ({"num_hidden_layers": 10**9}, r"model\.n_layers is 1000000000\. Allowed: at least 1, at most 1000\."),
        ({"layer_norm_eps": 10**400}, r"layer_norm_eps=10+\. Allowed: a number\."),
        ({"vocab_size": 0}, r"vocab_size=0\. Allowed: 1 to 2\^31"),
        ({"vocab_size": 14}, r"word_embeddings\.weight, config\.json requires \[14, 8\], the weights have \[13, 8\]"),
        (
            {"num_hidden_layers": 3},
            r"bert\.encoder\.layer\.2\.attention\.output\.LayerNorm\.bias, .* have nothing \(and 15 more differ\)",
        ),
        ({"num_hidden_layers": 1}, r"of bert\.encoder\.layer\.1\..* requires nothing, .* \(and 15 more differ\)"),
        ({"tie_word_embeddings": False}, r"cls\.predictions\.decoder\.weight, .* the weights have nothing\."),
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
    with pytest.raises(DataError, match="has a head with 3 outputs. Allowed: 1"):
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


@pytest.mark.parametrize(
    ("change", "instead"),
    [
        ({"positions": Positions.rotary}, "model.positions=learned"),
        ({"norm": Norm.rms}, "model.norm=layer"),
        ({"norm_position": NormPosition.pre}, "model.norm_position=post"),
        ({"activation": Activation.geglu}, "model.activation=gelu"),
        ({"embedding_norm": False}, "model.embedding_norm=true"),
        ({"d_head": 6}, "model.d_head=null"),
        ({"pairs": Pairs.separate}, "model.pairs=joint"),
        ({"pooling": Pooling.relu_pooler, "norm_epsilon": 1e-12}, "model.pooling=pooler"),
        ({"pooling": Pooling.relu_pooler, "segments": 0}, "model.pooling=pooler"),
        ({"pooling": Pooling.gelu_pooler}, "model.pooling=pooler"),
    ],
)
def test_settings_without_an_equivalent_are_named_with_what_to_choose_instead(change, instead, tmp_path):
    heads = HeadSizes(sequence_classes=3)
    config, model = drawn(heads, **change)
    with pytest.raises(SettingError, match=f"has no equivalent of .*Use format=.*, or train with .*{instead}"):
        exported(config, heads, model.state_dict(), tmp_path)
