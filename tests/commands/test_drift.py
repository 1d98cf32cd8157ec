"""encoderlab data run=...: new texts beside those that a run was trained on, and whether its scores still hold."""

import csv
import json
import random

import matplotlib.image
import numpy as np
import pytest

from encoderlab.errors import DataError, SettingError

SUBJECTS = ["the parcel", "my order", "the kettle", "a refund", "the invoice", "this payment", "the lamp", "my account"]
VERBS = ["has not arrived", "is broken", "was too expensive", "came too late", "is missing", "was sent twice"]
WHEN = ["today", "last week", "again", "on Monday", "this morning", "in March", "as I feared", "for the third time"]
CAMERAS = ["the aperture sticks", "the film tears", "a shutter of brass", "lenses from Jena", "the viewfinder is dim"]


def tickets(n, seed):
    draw = random.Random(seed)
    return [f"{draw.choice(SUBJECTS)} {draw.choice(VERBS)} {draw.choice(WHEN)}" for _ in range(n)]


def cameras(n, seed):
    draw = random.Random(seed)
    return [f"{draw.choice(CAMERAS)} at f/{draw.randrange(2, 22)}, frame {draw.randrange(400)}" for _ in range(n)]


def write(path, texts, labels=None):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["message", *(["label"] if labels else [])])
        writer.writerows([text, *([labels[row]] if labels else [])] for row, text in enumerate(texts))
    return path


@pytest.fixture(scope="module")
def tickets_run(tmp_path_factory, cache, run_in):
    """A finished run on messages about an order or about money, whose head alone was fitted."""
    folder = tmp_path_factory.mktemp("messages")
    texts = tickets(500, seed=0)
    labels = ["money" if any(word in text for word in ("refund", "invoice", "payment")) else "order" for text in texts]
    file = write(folder / "messages.csv", texts, labels)
    settings = ("dataset.text=message", "training.freeze_layers=all", "baselines=false", "training.threads=1")
    run_in(cache, "finetune", file, *settings, f"run_dir={folder / 'run'}")
    return folder / "run"


def test_texts_of_the_same_source_are_found_to_be_alike(printed, tickets_run, tmp_path):
    file = write(tmp_path / "new.csv", tickets(300, seed=1))
    facts = printed("data", f"run={tickets_run}", file, "format=json")
    assert not facts["changed"] and facts["two_sample_test"]["p_value"] > 0.05
    assert "can be believed" in facts["verdict"] and "200" not in facts["verdict"]
    assert facts["new"]["texts"] == 300 and facts["train"]["texts"] > 400
    assert sum(label["predicted"] for label in facts["labels"].values()) == pytest.approx(1)
    assert sum(label["train"] for label in facts["labels"].values()) == pytest.approx(1)
    for label in facts["labels"].values():
        assert label["predicted_ci95"][0] <= label["predicted"] <= label["predicted_ci95"][1]
    assert facts["mean_confidence"]["new"] == pytest.approx(facts["mean_confidence"]["held_out"], abs=0.1)


def test_foreign_texts_are_found_and_named_by_their_line(printed, tickets_run, tmp_path):
    file = write(tmp_path / "new.csv", [*cameras(60, seed=2), *tickets(180, seed=3)])
    facts = printed("data", f"run={tickets_run}", file, "format=json")
    assert facts["changed"] and facts["two_sample_test"]["auc"] > 0.55
    assert "Do not believe" in facts["verdict"]
    assert facts["unlike_training"]["new"] > 0.2 > facts["unlike_training"]["expected"]
    lines = [int(row["where"].rpartition("line ")[2]) for row in facts["least_alike"]]
    assert len(lines) == 10 and max(lines) <= 61
    similarities = [row["similarity"] for row in facts["least_alike"]]
    assert similarities == sorted(similarities)
    assert facts["new"]["new_words"] > facts["train"]["new_words"]


@pytest.mark.slow
def test_the_similarity_of_held_out_rows_says_what_is_usual(printed, tickets_run, tmp_path):
    similar = printed("data", f"run={tickets_run}", write(tmp_path / "a.csv", tickets(100, seed=1)), "format=json")
    foreign = printed("data", f"run={tickets_run}", write(tmp_path / "b.csv", cameras(100, seed=1)), "format=json")
    usual = similar["similarity_median"]["held_out"]
    assert similar["similarity_median"]["new"] == pytest.approx(usual, abs=0.1)
    assert foreign["similarity_median"]["new"] < usual - 0.1


RUSSIAN = [
    "посылка не пришла",
    "заказ не пришёл",
    "где мой заказ",
    "деньги не вернули",
    "чайник сломан",
    "лампа не горит",
]


def test_texts_in_another_script_are_named_in_the_verdict(printed, tickets_run, tmp_path):
    file = write(tmp_path / "new.csv", [f"{text}, {row}" for text in RUSSIAN for row in range(5)])
    facts = printed("data", f"run={tickets_run}", file, "format=json")
    assert facts["train"]["scripts"] == {"Latin": 1.0} and facts["new"]["scripts"] == {"Cyrillic": 1.0}
    known = facts["new"]["languages"] is not None
    assert ("ru" if known else "Cyrillic") in facts["verdict"]


MANY = ["Καλημέρα σας, φίλοι μου", "Доброе утро, друзья", "בוקר טוב חברים", "صباح الخير يا أصدقاء", "สวัสดีตอนเช้าเพื่อน"]


def test_of_many_foreign_languages_the_verdict_names_some(printed, tickets_run, tmp_path):
    file = write(tmp_path / "new.csv", [f"{text}, {row}" for row in range(12) for text in MANY])
    facts = printed("data", f"run={tickets_run}", file, "format=json")
    assert "100% of them are in" in facts["verdict"] and "and 2 more" in facts["verdict"]


GERMAN = [
    "das Paket ist noch nicht angekommen und niemand antwortet mir",
    "ich möchte mein Geld zurück, weil die Lampe kaputt ist",
    "die Rechnung wurde zweimal verschickt, bitte prüfen Sie das",
    "der Wasserkocher war viel zu teuer für diese Qualität",
]


@pytest.mark.slow
def test_texts_in_another_language_are_named_in_the_verdict(command, printed, tickets_run, tmp_path, capsys):
    pytest.importorskip("py3langid", reason="the extra languages is not installed")
    file = write(tmp_path / "new.csv", [*(f"{text} {row}" for text in GERMAN for row in range(20)), *tickets(80, 9)])
    facts = printed("data", f"run={tickets_run}", file, "format=json")
    assert facts["train"]["languages"]["en"] > 0.9 and facts["train"]["languages"].get("de", 0) < 0.01
    assert facts["new"]["languages"]["de"] == pytest.approx(0.5, abs=0.05)
    assert "(de)" in facts["verdict"] and "Do not believe" in facts["verdict"]
    command("data", f"run={tickets_run}", "new.csv")
    assert "de 50%" in capsys.readouterr().out


@pytest.mark.slow
def test_the_plot_is_written_and_replaced_if_asked_for(command, tickets_run, tmp_path):
    write(tmp_path / "new.csv", tickets(40, seed=8))
    command("data", f"run={tickets_run}", "new.csv", "plot=drift.png")
    first = matplotlib.image.imread(tmp_path / "drift.png")
    assert np.ptp(first[..., :3]) > 0.5
    write(tmp_path / "new.csv", cameras(40, seed=8))
    with pytest.raises(SettingError, match="already exists"):
        command("data", f"run={tickets_run}", "new.csv", "plot=drift.png")
    command("data", f"run={tickets_run}", "new.csv", "plot=drift.png", "overwrite=true")
    second = matplotlib.image.imread(tmp_path / "drift.png")
    assert first.shape != second.shape or not np.array_equal(first, second)


def test_few_texts_come_with_a_warning_on_the_screen(command, tickets_run, tmp_path, capsys):
    write(tmp_path / "new.csv", tickets(40, seed=8))
    command("data", f"run={tickets_run}", "new.csv")
    shown = capsys.readouterr().out
    assert "With fewer than 200 texts, only large changes show." in shown
    assert "money" in shown and "line " in shown and "by permutation" in shown


def test_lines_for_a_task_on_words_are_compared_by_their_letters(printed, reverse_run, tmp_path):
    draw = random.Random(0)
    lines = [" ".join("abc"[draw.randrange(3)] for _ in range(5)) for _ in range(80)]
    (tmp_path / "new.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    facts = printed("data", f"run={reverse_run}", "new.txt", "format=json", "plot=letters.png")
    assert (tmp_path / "letters.png").stat().st_size > 5000  # without labels
    assert facts["changed"] and facts["two_sample_test"]["compared_by"] == "letters"
    assert "labels" not in facts
    assert facts["new"]["unknown_tokens"] == 1 > facts["train"]["unknown_tokens"]


@pytest.mark.slow
def test_training_rows_that_are_gone_or_changed_are_one_line(command, tmp_path):
    texts = tickets(80, seed=5)
    file = write(tmp_path / "messages.csv", texts, ["ab"[row % 2] for row in range(80)])
    settings = ("dataset.text=message", "training.freeze_layers=all", "baselines=false", "training.threads=1")
    command("finetune", "messages.csv", *settings, "run_dir=run")
    write(tmp_path / "new.csv", tickets(30, seed=6))
    write(file, texts[1:], ["ab"[row % 2] for row in range(79)])
    with pytest.raises(DataError, match="have changed since it was trained"):
        command("data", "run=run", "new.csv")
    file.unlink()
    with pytest.raises(DataError, match=r"messages\.csv"):
        command("data", "run=run", "new.csv")


def test_a_comparison_needs_a_file_with_enough_texts(command, tickets_run, tmp_path):
    with pytest.raises(SettingError, match=r"new\.csv"):
        command("data", f"run={tickets_run}")
    write(tmp_path / "new.csv", tickets(5, seed=7))
    with pytest.raises(DataError, match="at least 20"):
        command("data", f"run={tickets_run}", "new.csv")


def test_a_folder_of_texts_is_still_a_dataset(command, tmp_path, capsys):
    for label in ("good", "bad"):
        (tmp_path / "reviews" / label).mkdir(parents=True)
        for row in range(10):
            (tmp_path / "reviews" / label / f"{row}.txt").write_text(f"a {label} film {row}", encoding="utf-8")
    command("data", "reviews", "format=json")
    assert sorted(json.loads(capsys.readouterr().out)["labels"]) == ["bad", "good"]
