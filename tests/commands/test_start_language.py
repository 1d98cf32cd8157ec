"""A run on texts in a language that its encoder was not trained on says so, and its card states the texts' languages."""

import pytest
from huggingface_hub import ModelCard

from encoderlab.runs import start_language
from tests.run_files import report_of

pytestmark = pytest.mark.slow
SHORT = ("training.steps=1", "training.threads=1", "training.precision=fp32", "baselines=false", "run_dir=run")
TEXTS = {
    "de": ("die Rechnung stimmt leider nicht", "das Paket ist noch nicht angekommen"),
    "en": ("the invoice is wrong again", "where is my order from last week"),
    "ru": ("посылка ещё не пришла", "счёт неправильный и слишком большой"),
}


def finetuned(command, tmp_path, *names):
    """Finetune on the texts of these languages in equal parts; return the report and what the card states."""
    rows = ["text,label"]
    for number in range(60):
        text = TEXTS[names[number % len(names)]][number // 2 % 2]
        rows.append(f"{text} {number},{('billing', 'delivery')[number // 2 % 2]}")
    (tmp_path / "tickets.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    command("finetune", "tickets.csv", *SHORT)
    return report_of(tmp_path / "run"), ModelCard.load(tmp_path / "run" / "model" / "README.md").data


@pytest.mark.parametrize(("names", "stated"), [(["en"], "en"), (["de"], "de"), (["en", "de"], ["de", "en"])])
def test_the_note_has_the_shares_and_what_to_start_from(command, tmp_path, names, stated):
    pytest.importorskip("py3langid", reason="the extra languages is not installed")
    report, card = finetuned(command, tmp_path, *names)
    foreign = [note for note in report["notes"] if "mini-en" in note]
    assert bool(foreign) == ("de" in names) and all("init_from=" in note and "de " in note for note in foreign)
    assert sorted(report["languages"]["languages"]) == sorted(names)
    assert card.language == stated or sorted(card.language) == stated


def test_without_py3langid_scripts_are_compared_and_the_card_states_no_language(command, tmp_path, monkeypatch):
    monkeypatch.setattr(start_language, "languages", lambda texts: None)
    report, card = finetuned(command, tmp_path, "ru", "en")
    assert report["languages"]["scripts"].keys() == {"Cyrillic", "Latin"}
    assert any("Cyrillic " in note for note in report["notes"]) and card.language is None
