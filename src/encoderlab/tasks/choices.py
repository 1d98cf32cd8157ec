"""What the settings of tasks can be: the figures that a run is judged by, and how labels are decoded."""

from __future__ import annotations

from enum import Enum


class ClassificationScore(Enum):
    """Figures that can choose the best checkpoint of a classification run, and that its report puts first; `f1` of two classes."""

    accuracy = "accuracy"
    f1_macro = "f1_macro"
    f1_weighted = "f1_weighted"
    f1 = "f1"
    matthews = "matthews"


class TaggingScore(Enum):
    """Figures that can choose the best checkpoint of a tagging run, and that its report puts first.

    `auto` is entity_f1 where labels are BIO or BIOES, and token_accuracy elsewhere.
    """

    auto = "auto"
    entity_f1 = "entity_f1"
    token_accuracy = "token_accuracy"
    accuracy = "accuracy"
    f1_macro = "f1_macro"


class Decoding(Enum):
    """How a sentence's labels are chosen: each word's likeliest one, or the likeliest valid BIO or BIOES sequence.

    `auto` is valid where labels are BIO or BIOES, and argmax elsewhere: on the validation split of WNUT-17 it brings 0.6 points of
    entity F1.
    """

    auto = "auto"
    argmax = "argmax"
    valid = "valid"


class MultilabelScore(Enum):
    """Figures that can choose the best checkpoint of a multi-label run, and that its report puts first."""

    f1_micro = "f1_micro"
    f1_macro = "f1_macro"
    subset_accuracy = "subset_accuracy"


class RegressionScore(Enum):
    """Figures that can choose the best checkpoint of a regression run, and that its report puts first."""

    pearson = "pearson"
    spearman = "spearman"
    mae = "mae"
    rmse = "rmse"


class PretrainingScore(Enum):
    """Figures that can choose the best checkpoint of a pretraining run."""

    mlm_accuracy = "mlm_accuracy"
    nsp_accuracy = "nsp_accuracy"


class TeacherScore(Enum):
    """Figures that can choose the best checkpoint of a run that learns a teacher's vectors."""

    token_cosine = "token_cosine"
    sequence_cosine = "sequence_cosine"
