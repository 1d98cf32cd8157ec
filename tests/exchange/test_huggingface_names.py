"""The names of our weights in Transformers: unique, and recognised from every version."""

import pytest

from encoderlab.exchange.huggingface_names import bare_name, normal_name, their_names

WEIGHTS = [
    "encoder.embeddings.token.weight",
    "encoder.layers.0.attention.query.weight",
    "encoder.layers.11.feed_forward.outer.bias",
    "pool.dense.weight",
    "sequence_head.bias",
]


@pytest.mark.parametrize(
    ("family", "theirs"),
    [
        (
            "bert",
            [
                "bert.embeddings.word_embeddings.weight",
                "bert.encoder.layer.0.attention.self.query.weight",
                "bert.encoder.layer.11.output.dense.bias",
                "bert.pooler.dense.weight",
                "classifier.bias",
            ],
        ),
        (
            "distilbert",
            [
                "distilbert.embeddings.word_embeddings.weight",
                "distilbert.transformer.layer.0.attention.q_lin.weight",
                "distilbert.transformer.layer.11.ffn.lin2.bias",
                "pre_classifier.weight",
                "classifier.bias",
            ],
        ),
    ],
)
def test_each_weight_has_its_familys_name(family, theirs):
    assert their_names(family, WEIGHTS) == dict(zip(WEIGHTS, theirs, strict=True))


def test_a_sentence_pair_head_has_its_own_name():
    assert their_names("bert", ["sequence_head.weight"], pair_head=True) == {
        "sequence_head.weight": "cls.seq_relationship.weight"
    }


@pytest.mark.parametrize(
    ("family", "written", "normal"),
    [
        ("bert", "bert.embeddings.LayerNorm.gamma", "bert.embeddings.LayerNorm.weight"),
        ("bert", "embeddings.LayerNorm.beta", "bert.embeddings.LayerNorm.bias"),
        ("bert", "pooler.dense.bias", "bert.pooler.dense.bias"),
        ("distilbert", "transformer.layer.3.ffn.lin1.weight", "distilbert.transformer.layer.3.ffn.lin1.weight"),
        ("bert", "cls.predictions.bias", "cls.predictions.bias"),
    ],
)
def test_names_from_older_versions_and_bare_encoders_are_understood(family, written, normal):
    assert normal_name(family, written) == normal
    assert normal_name(family, bare_name(family, normal)) == normal
