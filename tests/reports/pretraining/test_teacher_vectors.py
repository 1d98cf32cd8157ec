"""The report of a student of vectors: its cosines with intervals on screen, page and card, next to its teacher's size."""

import io
import json

import numpy as np
import pytest
from huggingface_hub import ModelCard

from encoderlab.metrics.teacher_vectors import TeacherVectorsScores
from encoderlab.reports.parts.run_report import RunSummary
from encoderlab.reports.pretraining.teacher_vectors import (
    build_teacher_vectors_report,
    show_teacher_vectors_report,
    teacher_vectors_card,
    write_teacher_vectors_report,
)

RUN = RunSummary(
    command="distill",
    task="wikipedia",
    seed=1,
    parameters={"total": 30, "encoder": 20, "head": 10},
    throughput={"tokens_per_second": 1.0, "examples_per_second": 2.0, "padding_fraction": 0.0, "train_seconds": 3.0},
    checkpoint={"step": 1700, "chosen_by": "sequence_cosine", "chosen_on": "validation"},
    notes=["a note"],
)
PAIRS = {
    "documents": 4, "paragraphs": 30, "sentences": 200, "tokens": 3000, "pairs": 90, "mean_length": 20.5, "truncated": 0.25,
    "sentence_splitter": "punkt_tab",
}  # fmt: skip
STUDENT = {"parameters": 30, "megabytes": 0.1, "texts_per_second": 250.0}
MODELS = {"student": STUDENT, "teacher": STUDENT | {"name": "<their> model", "parameters": 9000}}


@pytest.fixture
def report():
    rows = np.arange(50)
    sequence = 0.7 + 0.1 * np.sin(rows)
    figures = {"loss": 0.5, "sequence_cosine": float(sequence.mean()), "token_cosine": 0.6}
    scores = TeacherVectorsScores(50, figures, rows, sequence, np.full(50, 0.6))
    return build_teacher_vectors_report(RUN, {"validation": scores}, teacher="<their> model", texts=PAIRS)


def test_the_report_has_both_cosines_with_intervals(report):
    scores = report["splits"]["validation"]
    low, high = scores["sequence_cosine_ci95"]
    assert 0.6 < low < scores["sequence_cosine"] < high < 0.8
    assert (report["teacher"], report["main_figure"], report["scored_split"]) == (
        "<their> model",
        "sequence_cosine",
        "validation",
    )
    assert report["pairs"] == PAIRS
    json.dumps(report, allow_nan=False)


def test_the_screen_shows_cosines_teacher_and_files(report):
    file = io.StringIO()
    show_teacher_vectors_report(report, {"page": "there/report.html"}, ["encoderlab finetune init_from=there"], file)
    screen = file.getvalue()
    assert (
        "distill wikipedia, seed 1: cosine to the teacher's vectors 0.70" in screen and "validation (50 rows)" in screen
    )
    assert (
        "<their> model" in screen and "there/report.html" in screen and "encoderlab finetune init_from=there" in screen
    )


def test_page_and_report_are_written_with_the_report_last(tmp_path, records, report):
    folder = records(
        tmp_path,
        "distill",
        dataset={"origin": {"source": "test"}, "splits": {"train": {"documents": 4, "fingerprint": "ff"}}},
    )
    lines = [
        {"kind": "step", "step": step, "epoch": step / 4, "loss": 1 / step, "learning_rate": 0.1} for step in (1, 2, 3)
    ]
    lines += [
        {"kind": "evaluation", "step": 3, "epoch": 1.0, "split": "validation", "loss": 0.5, "sequence_cosine": 0.7}
    ]
    folder.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    write_teacher_vectors_report(folder, report)
    page = folder.page.read_text(encoding="utf-8")
    assert "&lt;their&gt; model" in page and "<their>" not in page and "sequence cosine" in page
    assert json.loads(folder.report.read_text(encoding="utf-8")) == report
    assert (folder.plots / "curves.png").is_file()


def test_the_card_says_what_it_is_for_and_the_hub_reads_it(report, facts):
    card = teacher_vectors_card(report, facts)
    data = ModelCard(card).data
    assert (data.pipeline_tag, data.library_name) == ("feature-extraction", "encoderlab")
    assert "Weights after step 1,700, chosen by sequence_cosine." in card and "- a note.\n" in card
    assert "on validation (50 texts): whole texts 0.70" in card and "encoderlab finetune task=... init_from=" in card
