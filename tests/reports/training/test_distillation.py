"""Teacher and student side by side: the same figures on the screen, on the page and in the model card."""

from encoderlab.reports.training.distillation import distillation_markdown, distillation_table

STUDENT = {"parameters": 1000, "megabytes": 4.0, "texts_per_second": 250.0}
TEACHER = STUDENT | {"parameters": 9000, "texts_per_second": None}
SCORED = {
    "student": STUDENT | {"accuracy": 0.8},
    "teacher": TEACHER | {"accuracy": 0.9, "student_leads_by": -0.1, "student_leads_by_ci95": [-0.2, 0.0]},
}


def test_a_scored_teacher_is_compared_with_its_student():
    heading, student, teacher = distillation_table({"main_figure": "accuracy", "distillation": SCORED})
    assert len(heading) == len(student) == len(teacher)
    assert student[1:] == ["0.800", "", "1,000", "4.0", "250"]
    assert teacher[1:] == ["0.900", "-0.100 (-0.200 to +0.000)", "9,000", "4.0", ""]


def test_a_teacher_of_vectors_has_no_score():
    heading, *rows = distillation_table(
        {"main_figure": "sequence_cosine", "distillation": {"student": STUDENT, "teacher": TEACHER}}
    )
    assert [len(row) for row in rows] == [len(heading)] * 2 == [4] * 2


def test_a_card_has_the_table_in_markdown_and_without_a_teacher_nothing():
    report = {"main_figure": "accuracy", "distillation": SCORED}
    lines = distillation_markdown(report).strip().splitlines()
    assert [line.count("|") for line in lines[2:]] == [7] * 4
    assert (distillation_table({"main_figure": "accuracy"}), distillation_markdown({})) == ([], "")
