"""Losses are sums over the targets, by head."""

import math
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from encoderlab.batch import Batch, Contrast, Prediction, TeacherOutputs
from encoderlab.errors import SettingError
from encoderlab.training.loss import LossForm, contrastive_loss, count_targets, losses


def batch(labels=None, token_labels=None, teacher=None):
    positions = torch.arange(0 if token_labels is None else len(token_labels))
    ids = torch.ones(4, 5, dtype=torch.long)
    return Batch(
        input_ids=ids,
        token_type_ids=torch.zeros_like(ids),
        attention_mask=None,
        rows=torch.arange(4),
        target_positions=positions,
        labels=labels,
        token_labels=token_labels,
        n_tokens=20,
        teacher=teacher,
    )


def test_both_kinds_of_targets_are_summed_and_counted_separately():
    torch.manual_seed(0)
    labels, token_labels = torch.tensor([0, 1, 1, 0]), torch.tensor([2, 0, 1, 2, 2, 1])
    prediction = Prediction(torch.randn(4, 2), torch.randn(6, 3))
    labelled = batch(labels, token_labels)
    found = losses(prediction, labelled)
    assert found["sequence"].item() == pytest.approx(
        -prediction.sequence_logits.log_softmax(-1)[range(4), labels].sum().item()
    )
    assert found["token"].item() == pytest.approx(
        -prediction.token_logits.log_softmax(-1)[range(6), token_labels].sum().item()
    )
    assert count_targets(labelled) == {"sequence": 4, "token": 6}


def test_classes_are_weighted():
    torch.manual_seed(0)
    labels, logits, weights = torch.tensor([0, 1, 1, 0]), torch.randn(4, 2), torch.tensor([0.5, 3.0])
    chances = logits.log_softmax(-1)
    weighed = losses(Prediction(logits), batch(labels), weights)["sequence"]
    assert weighed.item() == pytest.approx(-(weights[labels] * chances[range(4), labels]).sum().item())
    of_words = losses(Prediction(token_logits=logits), batch(token_labels=labels), weights)["token"]
    assert of_words.item() == pytest.approx(weighed.item())


def test_with_sets_of_labels_a_weight_applies_to_rows_that_have_the_label():
    logits, marks = torch.zeros(4, 2), torch.tensor([[1.0, 0.0]] * 4)
    found = losses(Prediction(logits), batch(marks), torch.tensor([5.0, 9.0]))["sequence"]
    assert found.item() == pytest.approx(4 * (5 + 1) * math.log(2) / 2)


def test_a_teacher_adds_the_divergence_of_softened_predictions():
    torch.manual_seed(0)
    labels, prediction, teacher = torch.tensor([0, 1, 1, 0]), Prediction(torch.randn(4, 2)), torch.randn(4, 2)
    taught = batch(labels, teacher=TeacherOutputs(sequence_logits=teacher, temperature=2.0, weight=0.75))
    student, wanted = ((logits / 2).softmax(-1) for logits in (prediction.sequence_logits, teacher))
    divergence = 4 * (wanted * (wanted / student).log()).sum()
    found = losses(prediction, taught)
    assert found["teacher_sequence"].item() == pytest.approx(0.75 * divergence.item(), rel=1e-5)
    assert found["sequence"].item() == pytest.approx(0.25 * losses(prediction, batch(labels))["sequence"].item())
    assert count_targets(taught) == {"sequence": 4, "teacher_sequence": 4}


def test_vectors_are_compared_by_direction_and_add_up_over_micro_batches():
    torch.manual_seed(0)
    vectors, tokens = torch.randn(4, 8), torch.randn(6, 8)
    teacher = TeacherOutputs(sequence_vectors=3 * vectors, token_vectors=-tokens, weight=0.5)
    taught = batch(token_labels=torch.zeros(6, dtype=torch.long), teacher=teacher)
    found = losses(Prediction(sequence_vectors=vectors, token_vectors=tokens), taught)
    assert found["teacher_sequence"].item() == pytest.approx(0, abs=1e-5)
    assert found["teacher_token"].item() == pytest.approx(0.5 * 2 * 6, rel=1e-5)
    assert count_targets(taught)["teacher_token"] == 6


def test_the_contrastive_loss_is_equation_2_of_khosla_et_al():
    torch.manual_seed(0)
    vectors = torch.randn(6, 4, dtype=torch.float64)
    labels = torch.tensor([0, 0, 0, 1, 2, -1])
    unit = torch.nn.functional.normalize(vectors, dim=-1)
    expected = 0.0
    for anchor in range(3):  # the others have no other row of their label
        others = [row for row in range(6) if row != anchor]
        whole = sum(torch.exp(unit[anchor] @ unit[row] / 0.1) for row in others)
        positives = [row for row in range(3) if row != anchor]
        terms = [torch.log(torch.exp(unit[anchor] @ unit[row] / 0.1) / whole) for row in positives]
        expected -= sum(terms) / len(positives)
    assert contrastive_loss(vectors, labels, 0.1).item() == pytest.approx(expected.item(), rel=1e-4)


def test_rows_are_compared_beside_their_classes_by_their_weights():
    torch.manual_seed(0)
    labels = torch.tensor([0, 0, 1, 1])
    prediction = Prediction(torch.randn(4, 2), sequence_vectors=torch.randn(4, 8))
    compared = replace(batch(labels), contrast=Contrast.of(labels, temperature=0.3, weight=0.5))
    both = losses(prediction, compared)
    assert both["sequence"].equal(losses(prediction, batch(labels))["sequence"])
    assert both["contrast"].item() == pytest.approx(0.5 * contrastive_loss(prediction.sequence_vectors, labels, 0.3))
    assert count_targets(compared) == {"sequence": 4, "contrast": 4}
    weighted = losses(prediction, replace(compared, weights=torch.tensor([0.3, 0.3, 0.3, 0.3])))
    assert weighted["contrast"].item() == pytest.approx(0.3 * both["contrast"].item())


def test_the_contrastive_loss_of_a_single_row_is_zero_and_so_is_its_gradient():
    vectors = torch.randn(1, 4, requires_grad=True)
    loss = contrastive_loss(vectors, torch.tensor([0]), 0.1)
    loss.backward()
    assert loss.item() == 0 and not vectors.grad.any()


def test_a_smoothed_loss_is_pytorchs():
    torch.manual_seed(0)
    labels, logits = torch.tensor([0, 2, 1, 0]), torch.randn(4, 3)
    expected = F.cross_entropy(logits, labels, label_smoothing=0.2, reduction="sum")
    form = LossForm(label_smoothing=0.2)
    assert_close(losses(Prediction(logits), batch(labels), form=form)["sequence"], expected)
    assert_close(losses(Prediction(token_logits=logits), batch(token_labels=labels), form=form)["token"], expected)
    marks = torch.tensor([[1.0, 0.0, 1.0]] * 4)
    smoothed = F.binary_cross_entropy_with_logits(logits, marks * 0.8 + 0.1, reduction="sum") / 3
    assert_close(losses(Prediction(logits), batch(marks), form=form)["sequence"], smoothed)


def test_a_focal_loss_counts_what_is_predicted_well_less():
    torch.manual_seed(0)
    labels, logits = torch.tensor([0, 2, 1, 0]), torch.randn(4, 3)
    weights = torch.tensor([1.0, 2.0, 3.0])
    chances = logits.softmax(-1)[range(4), labels]
    form = LossForm(focal_gamma=2.0)
    found = losses(Prediction(logits), batch(labels), weights, form)["sequence"]
    assert_close(found, (-weights[labels] * (1 - chances) ** 2 * chances.log()).sum())
    marks = torch.tensor([[1.0, 0.0, 1.0]] * 4)
    of_marks = torch.where(marks > 0, logits.sigmoid(), 1 - logits.sigmoid())
    found = losses(Prediction(logits), batch(marks), form=form)["sequence"]
    assert_close(found, (-((1 - of_marks) ** 2) * of_marks.log()).sum() / 3)


def test_rows_have_their_weights_in_a_loss_of_ones_own_too():
    labels, logits = torch.tensor([0, 1, 1, 0]), torch.randn(4, 2)
    form = LossForm(own=lambda logits, targets: logits[:, 0] + targets)
    weighed = replace(batch(labels), weights=torch.tensor([1.0, 0.0, 0.0, 2.0]))
    found = losses(Prediction(logits), weighed, form=form)["sequence"]
    assert_close(found, logits[0, 0] + 2 * logits[3, 0])
    with pytest.raises(SettingError, match="4 targets"):
        losses(Prediction(logits), batch(labels), form=LossForm(own=lambda logits, targets: logits.mean()))
