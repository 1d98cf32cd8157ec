"""The choices in task settings: the scores a run is judged by, and how labels are decoded."""

from __future__ import annotations

from enum import Enum


class ClassificationScore(Enum):
    """Scores that can select the best checkpoint of a classification run and lead its report; `f1` is for two classes."""

    accuracy = "accuracy"
    f1_macro = "f1_macro"
    f1_weighted = "f1_weighted"
    f1 = "f1"
    matthews = "matthews"


class TaggingScore(Enum):
    """Scores that can select the best checkpoint of a tagging run and lead its report.

    `auto` is entity_f1 for BIO or BIOES labels, otherwise token_accuracy.
    """

    auto = "auto"
    entity_f1 = "entity_f1"
    token_accuracy = "token_accuracy"
    accuracy = "accuracy"
    f1_macro = "f1_macro"


class Decoding(Enum):
    """How a sentence's labels are chosen: the most probable label of each word, or the most probable valid BIO or BIOES
    sequence.

    `auto` is valid for BIO or BIOES labels, otherwise argmax: on the validation split of WNUT-17, valid adds 0.6 points
    of entity F1.
    """

    auto = "auto"
    argmax = "argmax"
    valid = "valid"


class MultilabelScore(Enum):
    """Scores that can select the best checkpoint of a multi-label run and lead its report."""

    f1_micro = "f1_micro"
    f1_macro = "f1_macro"
    subset_accuracy = "subset_accuracy"


class RegressionScore(Enum):
    """Scores that can select the best checkpoint of a regression run and lead its report."""

    pearson = "pearson"
    spearman = "spearman"
    mae = "mae"
    rmse = "rmse"


class PretrainingScore(Enum):
    """Scores that can select the best checkpoint of a pretraining run."""

    mlm_accuracy = "mlm_accuracy"
    nsp_accuracy = "nsp_accuracy"


class TeacherScore(Enum):
    """Scores that can select the best checkpoint of a run that learns a teacher's vectors."""

    token_cosine = "token_cosine"
    sequence_cosine = "sequence_cosine"
