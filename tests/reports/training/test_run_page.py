"""report.html: what a reader needs is on it, whatever the texts, classes and predictions."""

import json
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest

from encoderlab.baselines.supervised import Baseline
from encoderlab.data.examples import TextExample, WordsExample
from encoderlab.metrics.tagging import answered_words
from encoderlab.reports.parts.run_report import RunSummary
from encoderlab.reports.training.report import build_report
from encoderlab.reports.training.run_page import write_run_page

VOID = {"meta", "br", "hr", "img", "input", "link", "path", "use", "rect", "line", "circle"}


class Read(HTMLParser):
    """Read what a page shows, its tags, and whether each was closed."""

    def __init__(self, text):
        super().__init__()
        self.words, self.tags, self.open, self.loads = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.loads += [
            value for name, value in attrs if name in ("src", "href", "xlink:href") and not value.startswith("#")
        ]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("style", "script"):
            self.words.append(data)

    @property
    def visible(self):
        return " ".join(" ".join(self.words).split())


RUN = RunSummary(
    command="train",
    task="sst2",
    seed=3,
    parameters={"total": 30, "encoder": 20, "head": 10},
    throughput={"train_seconds": 3.0},
    checkpoint={"step": 7, "chosen_by": "accuracy", "chosen_on": "validation"},
    notes=["a note"],
)


def page_of(folder, scores, examples, *, importance=None, splits=None, baselines=None, **changes):
    report = build_report(replace(RUN, **changes), splits or {"test": scores}, baselines or {})
    write_run_page(folder, report, examples, scores, importance)
    text = folder.page.read_text(encoding="utf-8")
    read = Read(text)
    assert read.open == []
    assert read.loads == []
    assert "script" not in read.tags
    return SimpleNamespace(text=text, visible=read.visible, report=report)


def texts(n):
    return [TextExample(f"text {row} " + "word " * (row % 30)) for row in range(n)]


def alternating(n, right):
    labels = np.arange(n) % 2
    return labels, np.where(np.arange(n) < right, labels, 1 - labels)


def test_the_headline_has_its_interval_baselines_and_verdict(folder, scores_of):
    labels, answers = alternating(200, 160)
    low = Baseline({"accuracy": 0.5, "f1_macro": 0.3, "seconds": 0.1}, np.zeros(200, dtype=int))
    skipped = Baseline(skipped="too many rows")
    found = page_of(
        folder, scores_of(labels, answers), texts(200), baselines={"majority": low, "tfidf_logreg": skipped}
    )
    ci = found.report["splits"]["test"]["accuracy_ci95"]
    assert f"0.800 accuracy on test ( 200 rows), 95% interval {ci[0]:.3f} to {ci[1]:.3f}" in found.visible.replace(
        "(200", "( 200"
    )
    assert "always the most frequent label 0.500" in found.visible
    assert "TF-IDF + logistic regression - skipped" in found.visible
    assert found.report["verdict"]["sentence"] in found.visible
    assert "a note" in found.visible


def test_records_say_how_to_repeat_the_run_with_its_settings_and_data(folder, scores_of):
    found = page_of(folder, scores_of(*alternating(20, 15)), texts(20))
    assert "encoderlab train task=sst2 seed=3 'dataset.path=my rows.csv'" in found.visible
    assert "run_dir" not in found.visible
    changed, _, at_default = found.visible.partition("settings at their defaults")
    assert "training.learning_rate 0.005 0.001" in changed
    assert "training.batching" not in changed
    assert "training.batching length length" in at_default
    assert "train 200 0 1 2 - - 1 · 7.5 · 20.0 · 90 test 200 0 1 2 3 4" in found.visible
    assert "yes 80 (40.0%)" in found.visible
    assert "path owner/name" in found.visible
    assert "a <processor>" in found.visible


def test_a_run_started_from_python_says_so(tmp_path, records, scores_of):
    found = page_of(records(tmp_path, overrides=None), scores_of([0, 1], [0, 1]), texts(2))
    assert "was started from Python" in found.visible


def test_hostile_texts_and_labels_remain_text(tmp_path, records, scores_of):
    evil = '<script>alert("1")</script>\x1b[31m\u202eabc\x00 {{ 7 * 7 }}'
    scores = scores_of([0, 1], [1, 1], names=("<b>no</b>", evil))
    split = dict.fromkeys(
        ("rows", "unlabelled", "empty", "duplicates", "shared_with_train", "shared_with_other_label"), 1
    )
    split |= {f"words_{name}": 1 for name in ("min", "median", "p95", "max")} | {"labels": {evil: 1}}
    config = json.dumps(
        {"task": {"schema": "classification", "name": evil}, "dataset": {"schema": "files", "path": evil}}
    )
    dataset = {"origin": {"files": evil}, "splits": {"test": split}}
    folder = records(tmp_path, config=config, dataset=dataset, overrides=[f"dataset.path={evil}"])
    examples = [TextExample(evil, evil), TextExample("fine", "fine")]
    found = page_of(folder, scores, examples, notes=[evil], task=evil)
    assert "<script>alert" not in found.text
    assert '<script>alert("1")</script>' in found.visible
    assert "{{ 7 * 7 }}" in found.visible
    assert all(character not in found.text for character in "\x1b\x00\u202e")
    assert "<b>no</b>" in found.visible


def test_a_page_does_not_grow_with_the_run(folder, scores_of):
    names = [f"class {number} " + "long " * 40 for number in range(400)]
    random = np.random.default_rng(0)
    labels, answers = random.integers(0, 400, 3000), random.integers(0, 400, 3000)
    steps = [{"kind": "step", "step": step, "loss": random.random(), "learning_rate": 0.1} for step in range(20_000)]
    folder.metrics.write_text("".join(json.dumps(line) + "\n" for line in steps), encoding="utf-8")
    examples = [TextExample("many words " * 2000)] * 3000
    found = page_of(folder, scores_of(labels, answers, names=names), examples)
    assert len(found.text) < 400_000
    assert "Of 400 classes, the 60 with the lowest F1" in found.visible
    assert "Confusion matrix" not in found.visible
    assert "Most frequent confusions" in found.visible
    assert "… (22,000 characters)" in found.visible


def test_calibration_is_fitted_on_validation_and_never_on_the_scored_rows(folder, scores_of):
    sure = np.full(200, 0.95)
    test, validation = scores_of(*alternating(200, 140), sure), scores_of(*alternating(200, 150), sure)
    found = page_of(folder, test, texts(200), splits={"validation": validation, "test": test})
    after = found.report["splits"]["test"]["calibration"]["after_temperature"]
    assert after["fitted_on"] == "validation"
    assert after["ece"] == pytest.approx(0.05, abs=0.001)  # validation is right in 75 of 100, test in 70
    assert f"0.250 , and {after['ece']:.3f} at the temperature" in found.visible.replace("0.250,", "0.250 ,")
    assert "after_temperature" not in found.report["splits"]["validation"]["calibration"]
    alone = page_of(folder, test, texts(200), splits={"validation": test})
    assert "validation is the only split besides training" in alone.visible
    evaluated = page_of(folder, test, texts(200), command="eval", splits={"all": test})
    assert "an evaluation has only the scored rows" in evaluated.visible


def test_words_of_mistakes_are_marked_by_their_effect(folder, scores_of):
    def importance(examples, labels):
        assert [example.text for example in examples] == ["a good film"]
        assert labels == ["yes"]
        words = [
            SimpleNamespace(text=0, begin=2, end=6, score=3.0),
            SimpleNamespace(text=0, begin=7, end=11, score=-1.5),
        ]
        return [SimpleNamespace(words=lambda: words, method="gradient")]

    examples = [TextExample("a good film"), TextExample("another")]
    found = page_of(folder, scores_of([0, 0], [1, 0]), examples, importance=importance)
    assert '<span class="for" style="--share:1.0">good</span>' in found.text
    assert '<span class="against" style="--share:0.5">film</span>' in found.text
    assert "by gradient times input" in found.visible


def test_a_run_without_mistakes_shows_none(folder, scores_of):
    def importance(*_, **__):
        raise AssertionError("there is nothing to explain")

    found = page_of(folder, scores_of([0, 1, 1], [0, 1, 1]), texts(3), importance=importance)
    assert "0 of 3 predictions are wrong" in found.visible
    assert "Most confident mistakes" not in found.visible
    assert "is still possible" in found.visible


def word_scores(labels, predicted, names, main):
    """Return scores like a tagging model's, every prediction with a probability of 0.8."""
    scores = answered_words(labels, predicted, names, main)
    confidences = [np.full(len(sentence), 0.8) for sentence in labels]
    return replace(scores, figures={"loss": 0.5, **scores.figures}, confidences=confidences)


def test_entities_have_their_own_table(folder):
    labels, predicted = [np.array([1, 2]), np.array([0, 3])], [np.array([1, 2]), np.array([0, 0])]
    scores = word_scores(labels, predicted, ["O", "B-person", "I-person", "B-place"], "entity_f1")
    examples = [WordsExample(("Ada", "Byron"), (1, 2)), WordsExample(("in", "Rome"), (0, 3))]
    found = page_of(folder, scores, examples)
    assert "entity f1 on" in found.visible
    assert "Entities An entity is right if its first word, its last word and its type are" in found.visible
    assert "person 1.000 1.000 1.000 1" in found.visible and "place 0.000 0.000 0.000 1" in found.visible


def test_a_tagged_sentence_shows_its_words_with_their_labels(folder):
    labels, predicted = [np.array([0, 1]), np.array([1]), np.array([], dtype=int)], [np.array([0, 0]), np.array([1])]
    predicted.append(labels[2])
    scores = word_scores(labels, predicted, ["noun", "verb"], "token_accuracy")

    def importance(examples, labels, words):
        assert (labels, words) == (["noun"], [1])
        cats = SimpleNamespace(text=0, begin=0, end=4, score=2.0)
        return [SimpleNamespace(words=lambda: [cats], method="gradient")]

    examples = [WordsExample(("cats", "run", "cut"), (0, 1, 1)), WordsExample(("go",), (1,)), WordsExample((), ())]
    found = page_of(folder, scores, examples, importance=importance)
    assert "1 of 3 sentences have a mistake" in found.visible
    assert "cats noun run noun, labelled verb" in found.visible
    assert "cut" not in found.visible.partition("Mistakes")[2].partition("Scores by length")[0]
    assert '<span class="for" style="--share:1.0">cats</span>' in found.text
    assert "Brier" not in found.visible
