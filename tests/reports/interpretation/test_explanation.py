"""Token importance for people: every character of a text is shown once, and signs are not shown by colour alone."""

import io

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.reports.interpretation.explanation import MOST_WORDS, Explanation, shaded, show_explanation
from encoderlab.reports.parts.page import page
from encoderlab.runs.inference.importance import TokenImportance
from encoderlab.runs.inference.token_spans import Span


def importance(texts, spans, scores, method="gradient", **changes):
    found = {
        "method": method,
        "label": "good",
        "probability": 0.75,
        "probabilities": {"bad": 0.25, "good": 0.75},
        "predicted": "good",
        "pieces": ["x"] * len(spans),
        "scores": np.array(scores, dtype=np.float32),
        "special": np.array([span is None for span in spans]),
        "texts": tuple(texts),
        "spans": spans,
        "truncated": False,
    }
    return TokenImportance(**found | changes)


def one_word_each(text, scores=None):
    """Explain a text as if every word between spaces were one token."""
    spans, end = [], 0
    for number, word in enumerate(text.split()):
        begin = text.index(word, end)
        end = begin + len(word)
        spans.append(Span(0, number, begin, end))
    return importance([text], spans, scores or [(-1) ** place * place for place in range(len(spans))])


@given(
    texts=st.lists(st.text(min_size=0, max_size=12), min_size=1, max_size=2),
    cuts=st.lists(
        st.tuples(st.integers(0, 12), st.integers(0, 12), st.floats(-3, 3, allow_subnormal=False)), max_size=6
    ),
)
def test_every_character_is_shown_once_and_in_order(texts, cuts):
    spans, scores = [None], [5.0]
    for word, (begin, size, score) in enumerate(sorted(cuts)):
        last = len(texts) - 1
        spans.append(Span(last, word, min(begin, len(texts[last])), min(begin + size, len(texts[last]))))
        scores.append(score)
    stretches = shaded(importance(texts, spans, scores))
    assert ["".join(part["text"] for part in parts) for parts in stretches] == texts
    assert all(0 <= part["strength"] <= 1 for parts in stretches for part in parts if part["score"] is not None)


def test_pieces_of_a_word_are_summed_and_special_tokens_are_not_words():
    spans = [None, Span(0, 0, 0, 3), Span(0, 0, 3, 6), Span(0, 1, 7, 8), None]
    found = importance(["unable !"], spans, [9, 1, 2, -4, 9])
    assert Explanation("text", [found]).words() == [
        {"text": 0, "begin": 0, "end": 6, "word": "unable", "gradient": 3.0},
        {"text": 0, "begin": 7, "end": 8, "word": "!", "gradient": -4.0},
    ]
    parts = shaded(found)[0]
    assert [(part["text"], part["score"]) for part in parts] == [("unable", 3.0), (" ", None), ("!", -4.0), ("", None)]
    assert [part["strength"] for part in parts if part["score"]] == [0.75, 1.0]


def printed(explanation):
    file = io.StringIO()
    show_explanation(explanation, file)
    return file.getvalue()


def test_the_screen_shows_the_prediction_and_the_sign_of_each_word():
    shown = printed(Explanation("text", [one_word_each("dull but good", [-1.5, 0.0, 3.0])]))
    assert "good 75.0%, bad 25.0%" in shown
    lines = {
        line.split()[0]: line.split()[1:] for line in shown.splitlines() if line and line.split()[0] in ("dull", "but")
    }
    assert lines["dull"] == ["-1.500", "-" * 10]
    assert lines["but"] == ["+0.000"]
    assert f"+3.000   {'+' * 20}" in shown


def test_for_a_long_text_the_strongest_words_are_printed():
    text = " ".join(f"w{place}" for place in range(MOST_WORDS + 40))
    shown = printed(Explanation("text", [one_word_each(text)]))
    assert f"The {MOST_WORDS} strongest of {MOST_WORDS + 40} words:" in shown
    table = shown.partition("strongest")[2]
    assert "w99 " in table
    assert "w3 " not in table


def test_a_text_with_nothing_to_shade_is_shown_too():
    empty = importance([""], [None, None], [1, 2])
    assert shaded(empty) == [[{"text": "", "score": None}]]
    assert "good 75.0%" in printed(Explanation("text", [empty]))
    assert [part["strength"] for part in shaded(one_word_each("a b", [0.0, 0.0]))[0] if part["score"] is not None] == [
        0,
        0,
    ]


def test_the_page_shows_all_scores_without_a_script():
    explanation = Explanation("text", [one_word_each("dull but good", [-1.5, 0.0, 3.0])])
    section = {
        "explanation": explanation,
        "shaded": [("gradient x input", shaded(explanation.first))],
        "classes": [("good", 0.75), *((f"class {number}", 0.0) for number in range(12))],
        "words": explanation.words(),
        "special": [("[CLS]", [0.25])],
    }
    html = page("explain.html", title="What", sections=[section], methods={"gradient": "gradient x input"})
    assert "<script" not in html
    for cell in (
        "<td>dull</td><td>-1.500</td>",
        "<td>good</td><td>+3.000</td>",
        "<td>[CLS]</td><td>+0.250</td>",
        "and 3 more classes",
    ):
        assert cell in html
    assert "embedding. " in html.replace("\n", " ")
