"""The heads: target tokens, pooling, the texts of a pair read one by one, and every kind of model learns."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from encoderlab.network.config import Activation, Norm, NormPosition, Pairs, Pooling, Positions
from encoderlab.network.heads import ClsPool, MeanPool, linear_in_tiles, pair_features, pool_windows, separate_texts

EVERY_OPTION = [
    *({name: choice} for name, choices in {
        "positions": Positions, "norm": Norm, "norm_position": NormPosition, "activation": Activation, "pooling": Pooling,
    }.items() for choice in choices),
    *({name: choice} for name in ("embedding_norm", "bias") for choice in (False, True)),
    *({name: 0.1} for name in ("dropout", "attention_dropout")),
    {"segments": 0}, {"d_head": 6}, {"n_heads": 1}, {"n_layers": 1}, {"n_layers": 4}, {"initializer_range": 0.1},
    {"norm_position": NormPosition.pre, "positions": Positions.rotary, "norm": Norm.rms, "activation": Activation.geglu, "bias": False},
    {"positions": Positions.sinusoidal, "embedding_norm": False, "activation": Activation.relu},
]  # fmt: skip


def describe(settings):
    return "-".join(f"{name}={getattr(value, 'name', value)}" for name, value in settings.items())


@pytest.mark.parametrize(
    "settings",
    [*(pytest.param(one, marks=pytest.mark.slow) for one in EVERY_OPTION[:-2]), *EVERY_OPTION[-2:]],
    ids=describe,
)
def test_every_kind_of_model_memorises_one_batch(settings, make_model, make_batch):
    model, batch = make_model(**settings), make_batch([5, 6, 3, 4])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def loss():
        prediction = model(batch)
        return F.cross_entropy(prediction.sequence_logits, batch.labels) + F.cross_entropy(
            prediction.token_logits, batch.token_labels
        )

    for _ in range(60):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    model.eval()
    assert loss().item() < 0.1  # at chance: 2.7


@pytest.mark.parametrize("heads", [{"token_classes": None}, {}, {"token_classes": None, "vocabulary": True}], ids=str)
@pytest.mark.parametrize(
    "settings", [{}, {"norm_position": NormPosition.pre}, {"positions": Positions.rotary}, {"pooling": Pooling.mean}]
)
def test_a_model_skips_work_for_other_tokens_but_gives_the_same_logits_and_gradients(
    settings, heads, make_model, make_batch
):
    model, batch = make_model(**heads, **settings), make_batch([5, 3])
    batch = replace(batch, target_positions=batch.target_positions[[1, 4, 6]], token_labels=None)
    gradients, logits = [], []
    for first_token_suffices in (model.first_token_suffices, False):
        model.first_token_suffices = first_token_suffices
        model.zero_grad()
        prediction = model(batch)
        answers = [answer for answer in (prediction.sequence_logits, prediction.token_logits) if answer is not None]
        logits.append(torch.cat([answer.flatten() for answer in answers]))
        logits[-1].square().sum().backward()
        gradients.append(torch.cat([parameter.grad.flatten() for parameter in model.parameters()]))
    assert_close(*logits, rtol=1e-5, atol=1e-5)
    assert_close(*gradients, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("pooling", "heads", "computed"),
    [
        (Pooling.cls, {"token_classes": None}, 2),
        (Pooling.pooler, {"token_classes": None}, 2),
        (Pooling.cls, {"token_classes": None, "vocabulary": True}, 2 + 3),
        (Pooling.mean, {"token_classes": None}, 5 + 3),
        (Pooling.mean, {"token_classes": None, "vocabulary": True}, 5 + 3),
    ],
)
def test_the_last_layer_computes_only_cls_and_the_target_tokens(pooling, heads, computed, make_model, make_batch):
    model, batch = make_model(pooling=pooling, **heads), make_batch([5, 3])
    vectors = []
    model.encoder.layers[-1].feed_forward.register_forward_hook(
        lambda module, inputs, output: vectors.append(inputs[0].numel() // 16)
    )
    model(replace(batch, target_positions=batch.target_positions[[1, 4, 6]], token_labels=None))
    assert vectors == [computed]


@pytest.mark.parametrize("tied", [True, False])
def test_masked_tokens_are_predicted_with_the_embeddings_or_separate_weights(tied, make_model, make_batch):
    model = make_model(sequence_classes=None, token_classes=None, vocabulary=True, tie_decoder=tied)
    logits = model(make_batch([5, 3])).token_logits
    assert logits.shape == (8, 13)
    with torch.no_grad():
        model.encoder.embeddings.token.weight[7] *= 100  # token 7 is not in the batch
    changed = model(make_batch([5, 3])).token_logits
    assert torch.equal(logits[:, 7], changed[:, 7]) != tied
    names = [name for name, _ in model.named_parameters() if "decoder" in name]
    assert names == ([] if tied else ["masked_token_head.decoder.weight"])


@pytest.mark.parametrize("classes", [1, 63, 64, 130])
def test_logits_padded_to_whole_tiles_have_the_same_values_and_gradients(classes):
    torch.manual_seed(0)
    x, weight, bias = (torch.randn(size, requires_grad=True) for size in ((7, 16), (classes, 16), (classes,)))
    plain, tiled = torch.nn.functional.linear(x, weight, bias), linear_in_tiles(x, weight, bias)
    assert tiled.shape == (7, classes)
    assert_close(tiled, plain)
    for mine, theirs in zip(
        *(torch.autograd.grad(y.square().sum(), (x, weight, bias)) for y in (tiled, plain)), strict=True
    ):
        assert_close(mine, theirs)


def test_poolings_take_the_first_or_the_mean_of_the_real_tokens():
    hidden = torch.tensor([[[1.0, 5.0], [3.0, 1.0], [-8.0, 9.0]]])
    mask = torch.tensor([[True, True, False]])
    assert ClsPool()(hidden, mask).tolist() == [[1, 5]]
    assert MeanPool()(hidden, mask).tolist() == [[2, 3]]
    assert MeanPool()(hidden[:, :2], None).tolist() == [[2, 3]]


def test_the_windows_of_a_row_pool_logits_by_mean_or_maximum_with_gradients():
    logits = torch.tensor([[1.0, 4.0], [3.0, 0.0], [5.0, 7.0]], requires_grad=True)
    row_of_sequence = torch.tensor([0, 0, 1])
    assert pool_windows(logits, row_of_sequence, 2, "max").tolist() == [[3, 4], [5, 7]]
    pooled = pool_windows(logits, row_of_sequence, 2, "mean")
    assert pooled.tolist() == [[2, 2], [5, 7]]
    pooled.sum().backward()
    assert logits.grad.tolist() == [[0.5, 0.5], [0.5, 0.5], [1, 1]]


CLS, SEP, PAD = 1, 2, 0
PAIRS = [([5, 6, 7], [8]), ([9], [10, 11, 12, 3]), ([4, 4], [])]


def ids_of(pairs):
    rows = [([CLS, *a, SEP], [*b, SEP]) for a, b in pairs]
    length = max(len(a) + len(b) for a, b in rows)
    padding = [length - len(a) - len(b) for a, b in rows]
    ids = torch.tensor([a + b + [PAD] * n for (a, b), n in zip(rows, padding, strict=True)])
    types = torch.tensor([[0] * len(a) + [1] * len(b) + [0] * n for (a, b), n in zip(rows, padding, strict=True)])
    return ids, types, torch.arange(length) < (length - torch.tensor(padding))[:, None]


def pair_batch(pairs, make_batch):
    ids, types, mask = ids_of(pairs)
    batch = make_batch([ids.shape[1]] * len(pairs))
    none = torch.zeros(0, dtype=torch.long)
    return replace(
        batch, input_ids=ids, token_type_ids=types, attention_mask=mask, n_tokens=int(mask.sum()), target_positions=none
    )


def test_each_text_of_a_pair_becomes_a_sequence_with_its_own_special_tokens():
    ids, mask = separate_texts(*ids_of(PAIRS))
    found = [row[real].tolist() for row, real in zip(ids, mask, strict=True)]
    assert found == [[CLS, *text, SEP] for text in (*(a for a, _ in PAIRS), *(b for _, b in PAIRS))]


def test_features_of_equal_vectors_have_no_difference_and_cosine_one():
    text = torch.randn(3, 8)
    first, second, difference, product = pair_features(torch.cat([text, 2 * text])).chunk(4, dim=-1)
    assert_close(first, second)
    assert_close(difference, torch.zeros(3, 8), atol=1e-6, rtol=0)
    assert_close(product.mean(dim=-1), torch.ones(3))


@pytest.mark.parametrize("packs", [False, True])
@pytest.mark.parametrize("pooling", [Pooling.mean, Pooling.cls])
def test_logits_of_a_pair_do_not_depend_on_the_rest_of_the_batch(packs, pooling, make_model, make_batch):
    model = make_model(token_classes=None, pairs=Pairs.separate, pooling=pooling)
    model.packs = packs
    torch.nn.init.normal_(model.sequence_head.weight)
    together = model(pair_batch(PAIRS, make_batch)).sequence_logits
    alone = torch.cat([model(pair_batch([pair], make_batch)).sequence_logits for pair in PAIRS])
    assert_close(together, alone, rtol=1e-5, atol=1e-5)
