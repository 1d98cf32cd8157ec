"""task=tagging with entities: from a CoNLL file to every command."""

import json
import random
from pathlib import Path

import pytest

from encoderlab.errors import SettingError
from tests.run_files import report_of

pytestmark = pytest.mark.slow

NAMES = {"person": (["Ada", "Bob"], ["Lovelace", "Byron", ""]), "place": (["New", "Old"], ["York", "Rome"])}
TAGGING = ("task=tagging", "dataset=files", "dataset.test_fraction=0.2")
SIZE = ("model=tiny", "model.n_layers=1", "model.d_model=32", "model.n_heads=2", "training.batch_size=16")


def write_sentences(path, n):
    """Write sentences with names of one or two words, labelled in BIO."""
    generator, lines = random.Random(0), []
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
    data = (*TAGGING, f"dataset.path={folder / 'names.conll'}", *SIZE, "tokenizer.vocabulary_size=100")
    for name, steps in (("long", 60), ("short", 12)):
        learning = (f"training.steps={steps}", "training.learning_rate=3e-3", "training.threads=1")
        run_in(cache, "train", *data, *learning, f"run_dir={folder / name}")
    return folder


def test_entity_f1_leads_the_report_and_chooses_the_checkpoint(names_runs, printed):
    report = report_of(names_runs / "long")
    test = report["splits"]["test"]
    assert report["main_score"] == report["checkpoint"]["chosen_by"] == "entity_f1"
    assert test["entity_f1"] > 0.8 and test["token_accuracy"] > 0.8
    for name in ("entity_f1", "entity_precision", "entity_recall"):
        assert test[f"{name}_ci95"][0] <= test[name] <= test[f"{name}_ci95"][1]
    assert list(test["per_entity"]) == ["person", "place"]
    assert report["baselines"]["majority"]["entity_f1"] == 0 < report["baselines"]["word_majority"]["entity_f1"]
    alone = printed("baseline", *TAGGING, f"dataset.path={names_runs / 'names.conll'}", "format=json")
    alone = alone["baselines"]["word_majority"]
    assert alone["entity_f1"] == pytest.approx(report["baselines"]["word_majority"]["entity_f1"])


def test_eval_compare_and_predict_know_entities(names_runs, command, printed):
    command("compare", names_runs / "long", names_runs / "short", "output=compared")
    assert json.loads(Path("compared/compare.json").read_text(encoding="utf-8"))["score"] == "entity_f1"
    command("eval", f"run={names_runs / 'long'}", "split=test", "run_dir=again")
    first, again = (report_of(folder)["splits"]["test"]["entity_f1"] for folder in (names_runs / "long", Path("again")))
    assert first == again
    answer = printed("predict", f"run={names_runs / 'long'}", "text=saw Ada Byron", "format=jsonl")
    assert answer["predicted"] == "O B-person I-person" and len(answer["probability"]) == 3


def test_decoding_and_score_of_entities_need_entity_labels(command, tmp_path):
    (tmp_path / "pos.conll").write_text("".join(f"a X\nb{n} Y\n\n" for n in range(40)))
    for setting in ("task.decoding=valid", "task.score=entity_f1"):
        with pytest.raises(SettingError, match=f"{setting} needs BIO or BIOES labels"):
            command("train", *TAGGING, "dataset.path=pos.conll", "tokenizer.vocabulary_size=100", setting)
