"""Gradients reach every token of a text, and computing them changes no prediction."""

import torch

from encoderlab.data.examples import TextExample
from encoderlab.runs.inference.inputs import encoded_rows
from encoderlab.runs.inference.token_gradients import predict_from_embeddings
from tests.runs.small_assembly import assembly_of


def test_the_prediction_is_the_same_and_a_repeated_piece_has_two_gradients():
    assembly = assembly_of()
    assembly.model.eval()
    before = {name: weight.clone() for name, weight in assembly.model.state_dict().items()}
    (batch,) = assembly.scoring_batches(encoded_rows(assembly, [TextExample("1212")]))
    prediction, embedded = predict_from_embeddings(assembly.model, batch)
    torch.testing.assert_close(prediction.sequence_logits, assembly.model(batch).sequence_logits)
    (gradient,) = torch.autograd.grad(prediction.sequence_logits[0, 0], embedded)
    assert gradient.shape == (1, 6, 8)
    assert not torch.allclose(gradient[0, 1], gradient[0, 3])  # both are the symbol 1
    assert all(torch.equal(weight, before[name]) for name, weight in assembly.model.state_dict().items())
    assert all(parameter.grad is None for parameter in assembly.model.parameters())
