"""Which of the first rows of a grid name its columns: each rule, as a program writes it."""

import pytest

from encoderlab.tables.headers import header_of

TEXTS = ["The parcel arrived quickly and works well.", "Nobody answers my mail, and I am still waiting here.", "Awful."]
ROWS = [[("good", "bad")[n % 2], f"{TEXTS[n % 3]} Case {n}."] for n in range(12)]
QUALTRICS = [
    ["StartDate", "Q1", "Q2"],
    ["Start Date", "In your own words, how was it?", "Which fits best?"],
    ['{"ImportId": "startDate"}', '{"ImportId": "QID1_TEXT"}', '{"ImportId": "QID2"}'],
]
ANSWERS = [[f"2026-01-{n + 1:02}", text, label] for n, (label, text) in enumerate(ROWS)]


def header(rows, **options):
    return header_of([(number, cells) for number, cells in enumerate(rows, start=1)], **options)


@pytest.mark.parametrize(
    ("above", "rows", "row", "left_out"),
    [
        pytest.param([["label", "text"]], ROWS, 1, set(), id="usual names"),
        pytest.param([["rating", "what did you like, and why?"]], ROWS, 1, set(), id="a question (Google Forms)"),
        pytest.param([["0", "1"]], ROWS, 1, set(), id="pandas without names"),
        pytest.param([["", "x1"]], [[str(n), text] for n, (_, text) in enumerate(ROWS)], 1, set(), id="pandas' index"),
        pytest.param([["Report 2026", ""], ["kind", "ticket"]], ROWS, 2, {1}, id="a title above (Excel)"),
        pytest.param([["Report"], ["of June"], ["kind", "ticket"]], ROWS, 3, {1, 2}, id="two lines above"),
        pytest.param(QUALTRICS, ANSWERS, 1, {2, 3}, id="Qualtrics"),
        pytest.param(QUALTRICS[::2], ANSWERS, 1, {2}, id="Qualtrics without wordings"),
        pytest.param([["mood", "remark"], ["discrete", "string"], ["class", "meta"]], ROWS, 1, {2, 3}, id="Orange"),
        pytest.param([["mood", "remark"], ["VARCHAR", "TEXT"]], ROWS, 1, {2}, id="types of SQL"),
        pytest.param([["mood", "remark"], ["Response", ""]], ROWS, 1, {2}, id="SurveyMonkey"),
        pytest.param(
            [["id", "How was it?", "Why?", "Areas?", ""], ["", "Response", "Open-Ended Response", "Bills", "Mail"]],
            [[str(n), label, text, "Bills" if n % 2 else "", ""] for n, (label, text) in enumerate(ROWS)],
            1,
            {2},
            id="SurveyMonkey with choices",
        ),
        pytest.param(
            [["StartDate", "Status", "ResponseId", "Q1"], ["Start Date", "Response Type", "Response ID", "And why?"]],
            [["2026-01-02", "0", f"R_{n}", text] for n, (_, text) in enumerate(ROWS)],
            1,
            {2},
            id="Qualtrics' workbook",
        ),
        pytest.param([["mood", "remark"], ["----", "------"]], ROWS, 1, {2}, id="a rule of dashes (sqlcmd, psql)"),
        pytest.param([["review", "review"], ["label", "text"]], ROWS, 2, {1}, id="two levels (pandas)"),
        pytest.param(
            [["", "review", "review"], ["", "label", "text"]],
            [[str(n), *row] for n, row in enumerate(ROWS)],
            2,
            {1},
            id="two levels and an index (pandas)",
        ),
        pytest.param(
            [["Feedback 2026", "", ""], ["Group A", "", "Group B"], ["label", "text", "id"]],
            [[*row, str(n)] for n, row in enumerate(ROWS)],
            3,
            {1, 2},
            id="merged cells above the names (Excel)",
        ),
        pytest.param([["when", "told"]], [["2026-01-02", t] for _, t in ROWS], 1, set(), id="a name above dates"),
        pytest.param([], ROWS, None, set(), id="labels in the first row (SMS Spam Collection)"),
        pytest.param([], [[str(n % 2 + 1), "Short", t] for n, (_, t) in enumerate(ROWS)], None, set(), id="AG News"),
        pytest.param([], [["2026-01-02", t] for _, t in ROWS], None, set(), id="dates from the first row on"),
        pytest.param(
            [], [[f"{t} It took {n} days in all."] for n, (_, t) in enumerate(ROWS[:2] * 6)], None, set(), id="texts"
        ),
    ],
)
def test_the_first_rows_show_which_of_them_name_the_columns(above, rows, row, left_out):
    found = header([*above, *rows])
    assert (found.row, found.left_out) == (row, left_out)
    assert found.names == (above[row - 1] if row else [f"column_{n}" for n in range(1, len(rows[0]) + 1)])


def test_a_header_can_be_chosen():
    rows = [["kind", "ticket"], *ROWS]
    assert header(rows, choice="none").names == ["column_1", "column_2"]
    assert header([["a", "b"], *rows], choice="2").names == ["kind", "ticket"]


def test_a_name_that_the_settings_state_is_a_name():
    assert header(ROWS, known={"good"}).row == 1


def test_a_class_may_be_called_like_a_type():
    rows = [["kind", "ticket"], *[[("text", "float")[n % 2], text] for n, (_, text) in enumerate(ROWS)]]
    assert header(rows).left_out == frozenset()
