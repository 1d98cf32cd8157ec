"""task=tagging with entities: from a CoNLL file to every command."""

import json
import random
from pathlib import Path

import pytest

from encoderlab.errors import SettingError
from tests.run_files import report_of

pytestmark = pytest.mark.slow

NAMES = {"person": (["Ada", "Bob"], ["Lovelace", "Byron", ""]), "place": (["New", "Old"], ["York", "Rome"])}


def write_sentences(path, n, seed=0):
    """Write sentences with names of one or two words, labelled in BIO."""
    generator, lines = random.Random(seed), []
    for _ in range(n):
        for _ in range(3):
            kind = generator.choice(list(NAMES))
            words = [generator.choice(part) for part in NAMES[kind]]
            lines += [f"{generator.choice(['saw', 'met'])} O"]
            lines += [f"{word} {'I' if place else 'B'}-{kind}" for place, word in enumerate(filter(None, words))]
        lines.append("")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def names_runs(tmp_path_factory, cache, run_in):
    """Two runs on the same sentences, the second a little shorter."""
    folder = tmp_path_factory.mktemp("names")
    write_sentences(folder / "names.conll", 200)
    data = ("task=tagging", "dataset=files", f"dataset.path={folder / 'names.conll'}", "dataset.test_fraction=0.2")
    size = ("model=tiny", "model.n_layers=1", "model.d_model=32", "model.n_heads=2", "tokenizer.vocabulary_size=100")
    for name, steps in (("long", 60), ("short", 12)):
        training = (
            f"training.steps={steps}",
            "training.batch_size=16",
            "training.learning_rate=3e-3",
            "training.threads=1",
        )
        run_in(cache, "train", *data, *size, *training, f"run_dir={folder / name}")
    return folder


def test_entity_f1_is_the_headline_the_checkpoint_score_and_the_baselines_figure(names_runs):
    report = report_of(names_runs / "long")
    test = report["splits"]["test"]
    assert report["main_figure"] == report["checkpoint"]["chosen_by"] == "entity_f1"
    assert test["entity_f1"] > 0.8 and test["token_accuracy"] > 0.8
    for name in ("entity_f1", "entity_precision", "entity_recall"):
        assert test[f"{name}_ci95"][0] <= test[name] <= test[f"{name}_ci95"][1]
    assert list(test["per_entity"]) == ["person", "place"]
    assert report["baselines"]["majority"]["entity_f1"] == 0 < report["baselines"]["word_majority"]["entity_f1"]
    assert "entity f1" in report["verdict"]["sentence"]
    page = (names_runs / "long" / "report.html").read_text(encoding="utf-8")
    assert '<h2 id="entities">' in page and "<td>place</td>" in page


def test_runs_are_compared_by_entity_f1_and_scored_again_with_the_same_result(names_runs, command):
    command("compare", names_runs / "long", names_runs / "short", "output=compared")
    compared = json.loads(Path("compared/compare.json").read_text(encoding="utf-8"))
    assert compared["figure"] == "entity_f1"
    assert {row["label"] for row in compared["settings"] if row["difference"] is None} == {"steps=60"}
    command("eval", f"run={names_runs / 'long'}", "split=test", "run_dir=again")
    first, again = (report_of(folder)["splits"]["test"]["entity_f1"] for folder in (names_runs / "long", Path("again")))
    assert first == again


def test_the_baseline_command_counts_entities_too(names_runs, command):
    data = ("dataset=files", f"dataset.path={names_runs / 'names.conll'}", "dataset.test_fraction=0.2")
    command("baseline", "task=tagging", *data, "output=baselines.json")
    found = json.loads(Path("baselines.json").read_text(encoding="utf-8"))
    assert found["main_figure"] == "entity_f1"
    expected = report_of(names_runs / "long")["baselines"]["word_majority"]["entity_f1"]
    assert found["baselines"]["word_majority"]["entity_f1"] == pytest.approx(expected)


def test_predictions_are_valid_with_the_likeliest_labels_of_each_word(names_runs, printed):
    answer = printed("predict", f"run={names_runs / 'long'}", "text=saw Ada Byron", "top_k=2", "format=jsonl")
    assert answer["predicted"] == "O B-person I-person"
    assert [len(top) for top in answer["top"]] == [2, 2, 2]


def test_decoding_and_score_of_entities_need_entity_labels(command, tmp_path):
    (tmp_path / "pos.conll").write_text("".join(f"a X\nb{n} Y\n\n" for n in range(40)))
    data = ("task=tagging", "dataset=files", "dataset.path=pos.conll", "run_dir=never", "tokenizer.vocabulary_size=100")
    for setting in ("task.decoding=valid", "task.score=entity_f1"):
        with pytest.raises(SettingError, match=f"{setting} needs BIO or BIOES labels"):
            command("train", *data, setting)
