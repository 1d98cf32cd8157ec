"""Scripts of texts, which are named where languages are not known."""

import pytest

from encoderlab.metrics.languages import UNCLEAR, scripts


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("naïve 2 café", "Latin"),
        ("𝐡𝐞𝐥𝐥𝐨 ｗｏｒｌｄ", "Latin"),
        ("Привет, world", "Cyrillic"),
        ("漢字を書くのは楽しい", "Japanese"),
        ("ｶﾀｶﾅ", "Japanese"),
        ("汉字", "Han"),
        ("12 + 3 :-)", UNCLEAR),
    ],
)
def test_a_text_is_in_the_script_of_most_of_its_letters(text, script):
    assert scripts([text]) == {script: 1.0}


def test_the_most_frequent_script_is_first():
    assert list(scripts(["Αθήνα", "Москва", "Киев", "Минск"]).items()) == [("Cyrillic", 0.75), ("Greek", 0.25)]
