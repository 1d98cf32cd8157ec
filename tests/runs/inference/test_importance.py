"""Token importance: the score of a token is the effect of changing that token, whatever else is requested."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from encoderlab.batch import Encoded
from encoderlab.data.examples import TextExample, WordsExample
from encoderlab.data.tokenizers.tokenizer import Tokenizer
from encoderlab.errors import DataError, SettingError
from encoderlab.model.config import Activation, Norm, NormPosition, Pooling, Positions
from encoderlab.runs.inference.importance import log_odds, occluded, token_importance
from encoderlab.tasks.config import ClassificationConfig, PretrainingConfig, TaggingConfig, Windows
from encoderlab.tasks.rows import hold_encoded
from encoderlab.tasks.texts import EncodingConfig
from encoderlab.training import batches
from tests.runs.small_assembly import LABELS, TOKENIZER, assembly_of

pytestmark = pytest.mark.usefixtures("one_thread")

SHAPES = [
    {},
    {"positions": Positions.learned, "pooling": Pooling.mean, "norm_position": NormPosition.pre, "segments": 2},
    {
        "positions": Positions.rotary,
        "norm": Norm.rms,
        "activation": Activation.geglu,
        "pooling": Pooling.max,
        "bias": False,
    },
    {
        "pooling": Pooling.pooler,
        "scale_embeddings": True,
        "word_dropout": 0.5,
        "dropout": 0.5,
        "attention_dropout": 0.5,
    },
]
digits = st.text("0123456789ab", min_size=1, max_size=14)


def odds_of(assembly, encoded, label):
    """Return the log-odds of a label for one sequence of ids."""
    rows = hold_encoded([encoded], TOKENIZER.vocabulary_size, assembly.task.heads)
    assembly.model.eval()
    with torch.inference_mode():
        prediction = assembly.model(rows.gather(np.array([0]), TOKENIZER.pad_id))
    logits = prediction.token_logits if prediction.sequence_logits is None else prediction.sequence_logits
    chance = logits.double().softmax(-1)[0, LABELS.index(label)]
    return float(torch.log(chance) - torch.log1p(-chance))


@pytest.mark.parametrize("shape", SHAPES)
def test_occlusion_equals_predicting_the_changed_ids_by_hand(shape):
    assembly = assembly_of(**shape)
    text = TextExample("12ab", "73")
    (found,) = token_importance(assembly, [text], "occlusion")
    (encoded,) = assembly.task.encode([text])
    before = odds_of(assembly, encoded, found.label)
    for place, score in enumerate(found.scores):
        ids = list(encoded.input_ids)
        ids[place] = TOKENIZER.mask_id
        assert score == pytest.approx(
            before - odds_of(assembly, replace(encoded, input_ids=ids), found.label), abs=2e-4
        )


@pytest.mark.parametrize("method", ["gradient", "occlusion"])
def test_scores_in_several_batches_are_those_of_each_text_alone(method, monkeypatch):
    for bound in ("FEWEST_EVALUATION_TOKENS", "MOST_EVALUATION_TOKENS"):
        monkeypatch.setattr(batches, bound, 16)
    assembly = assembly_of()
    assembly = replace(assembly, compute=replace(assembly.compute, threads=3))
    embeddings = assembly.model.encoder.embeddings.token.weight
    texts = [TextExample(f"{n:03}ab"[: n % 5 + 1]) for n in range(60)]
    together = token_importance(assembly, texts, method)
    for text, found in zip(texts, together, strict=True):
        (alone,) = token_importance(assembly, [text], method)
        assert found.scores == pytest.approx(alone.scores, abs=1e-5)
    assert assembly.model.encoder.embeddings.token.weight is embeddings


@pytest.mark.parametrize("shape", SHAPES)
def test_gradient_times_input_is_the_slope_towards_a_zero_embedding(shape):
    """The slope of a single token: each piece occurs once in the text, so its row of the table is its position."""
    assembly = assembly_of(**shape)
    (found,) = token_importance(assembly, [TextExample("12ab")], "gradient")
    (encoded,) = assembly.task.encode([TextExample("12ab")])
    assembly.model.double()
    table, step = assembly.model.encoder.embeddings.token.weight, 1e-6
    for place, id_ in enumerate(encoded.input_ids):
        ends = []
        row = table.data[id_].clone()
        for sign in (1, -1):
            table.data[id_] = row * (1 + sign * step)
            ends.append(odds_of(assembly, encoded, found.label))
        table.data[id_] = row
        assert found.scores[place] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-3, abs=1e-3)


class Through(nn.Module):
    """A layer that changes nothing."""

    def forward(self, x, layout, selected=None):
        return x if selected is None else selected.pick(x)


@given(texts=st.lists(digits, min_size=1, max_size=4), seed=st.integers(0, 20))
@settings(max_examples=25)
def test_gradient_times_input_sums_to_the_log_odds_of_a_linear_model(texts, seed):
    assembly = assembly_of(
        labels=LABELS[:2], seed=seed, pooling=Pooling.mean, positions=Positions.rotary, embedding_norm=False, segments=0
    )
    assembly.model.encoder.layers = nn.ModuleList([Through()])
    assembly.model.packs = seed % 2 == 0
    bias = assembly.model.sequence_head.bias.detach()
    for found in token_importance(assembly, [TextExample(text) for text in texts], "gradient"):
        sign = 1 if found.label == LABELS[0] else -1
        odds = np.log(found.probability) - np.log1p(-found.probability)
        if abs(odds) < 8:  # beyond that a probability in float32 says little of it
            assert found.scores.sum() + sign * float(bias[0] - bias[1]) == pytest.approx(odds, abs=5e-3)
        assert same_scores(found)


def same_scores(found):
    """Without positions, a piece has the same score wherever it stands."""
    by_piece = {}
    for piece, score in zip(found.pieces, found.scores, strict=True):
        by_piece.setdefault(piece, []).append(score)
    return all(np.ptp(scores) < 1e-5 for scores in by_piece.values())


@given(texts=st.lists(st.tuples(digits, st.none() | digits), min_size=2, max_size=5), shape=st.sampled_from(SHAPES))
@settings(max_examples=25)
@pytest.mark.parametrize("method", ["gradient", "occlusion"])
def test_scores_do_not_depend_on_what_else_is_in_the_batch(method, texts, shape):
    assembly, examples = assembly_of(**shape), [TextExample(*text) for text in texts]
    together = token_importance(assembly, examples, method)
    for one, among in zip(examples, together, strict=True):
        (alone,) = token_importance(assembly, [one], method)
        assert alone.label == among.label
        np.testing.assert_allclose(alone.scores, among.scores, rtol=2e-3, atol=2e-3)


@pytest.mark.slow
@given(text=digits, packs=st.booleans())
def test_removing_padding_changes_no_score(text, packs):
    assembly = assembly_of()
    texts = [TextExample("0123456789ab"), TextExample(text), TextExample("7")]
    assembly.model.packs = packs
    by_layout = token_importance(assembly, texts)
    assembly.model.packs = not packs
    for one, other in zip(by_layout, token_importance(assembly, texts), strict=True):
        np.testing.assert_allclose(one.scores, other.scores, rtol=1e-3, atol=1e-3)


@given(text=st.text("0123456789ab xy", max_size=16), pair=st.none() | st.text("0123456789ab ", max_size=16))
def test_every_token_except_special_ones_stands_for_its_characters(text, pair):
    (found,) = token_importance(assembly_of(), [TextExample(text, pair)])
    assert [piece in ("[CLS]", "[SEP]") for piece in found.pieces] == found.special.tolist()
    for piece, span in zip(found.pieces, found.spans, strict=True):
        if span is not None:
            shown = found.texts[span.text][span.begin : span.end]
            assert piece == (shown if shown in "0123456789ab" else "[UNK]")
    words = found.words()
    assert [word.text for word in words] == sorted(word.text for word in words)
    assert sum(word.score for word in words) == pytest.approx(found.scores[~found.special].sum(), abs=1e-3)


def test_without_a_mask_token_the_unknown_one_is_used():
    plain = Tokenizer(
        TOKENIZER._backend, {role: text for role, text in TOKENIZER.specials.items() if role != "mask_token"}
    )
    assembly = replace(assembly_of(), tokenizer=plain)
    (found,) = token_importance(assembly, [TextExample("x1")], "occlusion")
    assert (found.pieces[1], found.scores[1]) == ("[UNK]", 0)
    assert found.scores[2] != 0


def test_a_chosen_class_is_explained_and_of_two_classes_one_opposes_the_other():
    assembly = assembly_of(labels=LABELS[:2])
    examples = [TextExample("12ab"), TextExample("3")]
    for method in ("gradient", "occlusion"):
        up = token_importance(assembly, examples, method, labels=["up", "up"])
        down = token_importance(assembly, examples, method, labels=["down", "down"])
        for one, other in zip(up, down, strict=True):
            assert (one.label, other.label) == ("up", "down")
            assert one.probability + other.probability == pytest.approx(1)
            np.testing.assert_allclose(one.scores, -other.scores, atol=1e-3)
    with pytest.raises(
        SettingError, match="label=dwn is not a class of this model. Allowed: up, down. Did you mean label=down?"
    ):
        token_importance(assembly, examples, labels=["up", "dwn"])


def test_the_likeliest_class_is_explained_with_the_probabilities_of_all():
    (found,) = token_importance(assembly_of(), [TextExample("12ab")])
    assert found.label == max(found.probabilities, key=found.probabilities.get)
    assert list(found.probabilities) == LABELS
    assert sum(found.probabilities.values()) == pytest.approx(1)


@pytest.mark.parametrize("special_tokens", [True, False])
@pytest.mark.parametrize("method", ["gradient", "occlusion"])
def test_the_label_of_a_word_is_explained_by_all_pieces_of_all_words(method, special_tokens):
    assembly = assembly_of(TaggingConfig(name="tags", special_tokens=special_tokens))
    example = WordsExample(("12", "a", "b34"))
    (encoded,) = assembly.task.encode([example])
    (found,) = token_importance(assembly, [example], method, words=[2])
    assert (found.word, found.texts) == (2, ("12 a b34",))
    assert [found.texts[0][word.begin : word.end] for word in found.words()] == ["12", "a", "b34"]
    place = list(encoded.token_labels)[2]
    before = odds_of(assembly, replace(encoded, token_labels={place: None}), found.label)
    changed = Encoded([TOKENIZER.mask_id, *encoded.input_ids[1:]], encoded.token_type_ids, token_labels={place: None})
    if method == "occlusion":
        assert found.scores[0] == pytest.approx(before - odds_of(assembly, changed, found.label), abs=2e-4)
    (first,) = token_importance(assembly, [example], method)
    assert first.word == 0


def test_a_missing_or_truncated_word_is_refused():
    assembly = assembly_of(TaggingConfig(name="tags"))
    with pytest.raises(DataError, match="word=3 is not one of the text's 2 words. Allowed: 0 to 1"):
        token_importance(assembly, [WordsExample(("1", "2"))], words=[3])
    with pytest.raises(
        DataError, match="word=11 is not one of the text's 12 words, of which the model reads 10. Allowed: 0 to 9"
    ):
        token_importance(assembly, [WordsExample(("1",) * 12)], words=[11])
    with pytest.raises(DataError, match="word=0 is not one of the text's 0 words. Allowed: a text with words"):
        token_importance(assembly, [WordsExample(())])


def test_a_model_without_classes_is_refused_with_a_remedy():
    with pytest.raises(
        DataError, match="wiki is a pretrained encoder and has no classes to explain.*encoderlab finetune"
    ):
        token_importance(assembly_of(PretrainingConfig(name="wiki"), labels=["follows", "random"]), [TextExample("1")])
    with pytest.raises(DataError, match="bert is an encoder without a head"):
        token_importance(assembly_of(EncodingConfig(name="bert"), labels=[]), [TextExample("1")])
    with pytest.raises(DataError, match="digits has only one class"):
        token_importance(assembly_of(labels=["up"]), [TextExample("1")])


def test_an_encoder_compiled_for_training_is_run_uncompiled():
    assembly = assembly_of()
    plain = token_importance(assembly, [TextExample("12ab")])[0]

    def no_compiler(graph, inputs):
        raise AssertionError("compiled")

    encoder = assembly.model.encoder
    encoder.encode = torch.compile(encoder.encode, backend=no_compiler)
    compiled = token_importance(replace(assembly, compiled="compiled"), [TextExample("12ab")])[0]
    np.testing.assert_array_equal(plain.scores, compiled.scores)


def test_the_model_is_left_unchanged():
    assembly = assembly_of()
    before = {name: weight.clone() for name, weight in assembly.model.state_dict().items()}
    token_importance(assembly, [TextExample("12ab")])
    after = assembly.model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert all(weight.grad is None for weight in assembly.model.parameters())


logit_rows = st.lists(
    st.lists(st.floats(-20, 20, allow_subnormal=False), min_size=3, max_size=3), min_size=1, max_size=4
)


@given(logit_rows, st.floats(-5, 5, allow_subnormal=False))
def test_log_odds_do_not_change_if_all_logits_grow_equally(rows, more):
    logits = torch.tensor(rows, dtype=torch.float64)
    classes = torch.zeros(len(rows), dtype=torch.long)
    found = log_odds(logits, classes)
    chances = logits.softmax(1)
    torch.testing.assert_close(
        found, torch.log(chances[:, 0] / chances[:, 1:].sum(1))
    )  # 1 - p would lose what is left of it
    torch.testing.assert_close(log_odds(logits + more, classes), found)


def test_each_token_is_replaced_once():
    changed = [one.input_ids for one in occluded(Encoded([5, 6, 7], [0, 0, 0]), 1)]
    assert changed == [[1, 6, 7], [5, 1, 7], [5, 6, 1]]


LONG = TextExample("0123456789ab73a")


def in_windows(pooling="mean", **shape):
    return assembly_of(
        ClassificationConfig(name="long", windows=Windows(pooling)), max_length=8, pooling=Pooling.mean, **shape
    )


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_occluding_a_token_hides_it_in_every_window_that_reads_it(pooling):
    assembly = in_windows(pooling)
    (found,) = token_importance(assembly, [LONG], "occlusion")
    (encoded,) = assembly.task.encode([LONG])
    assert found.pieces == ["[CLS]", *LONG.text, "[SEP]"]
    assert [(span.begin, span.end) for span in found.spans[1:-1]] == [(place, place + 1) for place in range(15)]
    before, ids, shared = (
        odds_of(assembly, encoded, found.label),
        np.array(encoded.input_ids),
        4,
    )  # in the first two windows
    assert (ids == ids[1 + shared]).sum() == 2
    changed = np.where(ids == ids[1 + shared], TOKENIZER.mask_id, ids).tolist()
    expected = before - odds_of(assembly, replace(encoded, input_ids=changed), found.label)
    assert found.scores[1 + shared] == pytest.approx(expected, abs=2e-4)


def test_gradients_of_all_windows_are_summed_by_token_of_the_text():
    assembly = in_windows(labels=LABELS[:2], positions=Positions.rotary, embedding_norm=False, segments=0)
    assembly.model.encoder.layers = nn.ModuleList([Through()])
    bias = assembly.model.sequence_head.bias.detach()
    assembly.model.packs = False
    with torch.no_grad():
        assembly.model.sequence_head.weight.mul_(0.1)
    found, short = token_importance(assembly, [LONG, TextExample("12")], "gradient")
    assert (len(found.scores), len(short.scores)) == (17, 4)
    sign = 1 if found.label == LABELS[0] else -1
    odds = np.log(found.probability) - np.log1p(-found.probability)
    assert found.scores.sum() + sign * float(bias[0] - bias[1]) == pytest.approx(odds, abs=5e-3)
