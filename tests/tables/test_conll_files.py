"""Files of labelled words as programs write them: which lines are words, which columns are read, and what is asked."""

import pytest

from encoderlab.data.files import FilesDataset
from encoderlab.errors import DataError

ANNA = (("Anna", "saw", "Rome"), ("B-PER", "O", "B-LOC"))


def sentences(tmp_path, name, content, **given):
    """Return the words of each sentence with their labels."""
    (tmp_path / name).write_text(content, encoding="utf-8")
    data = FilesDataset(path=str(tmp_path / name), validation_fraction=0.0, **given).load(tmp_path, "words")
    rows = data.by_name["train"]
    return [(row.words, tuple(data.labels[label] for label in row.labels)) for row in rows]


@pytest.mark.parametrize(
    ("content", "given"),
    [
        # Label Studio 2 (label-studio-sdk 2.1.2) begins a file with a line of other columns.
        ("-DOCSTART- -X- O\nAnna -X- _ B-PER\nsaw -X- _ O\nRome -X- _ B-LOC\n\n", {}),
        ("-DOCSTART- -X- O O\n\nAnna\tB-PER\nsaw\tO\nRome\tB-LOC\n", {}),
        # MultiCoNER begins each sentence with a comment that has as many fields as a word.
        ("# id 5239d808\tdomain=en\nAnna _ _ B-PER\nsaw _ _ O\nRome _ _ B-LOC\n", {}),
        ("# sentence\nAnna B-PER\nsaw O\nRome B-LOC\n", {}),
        # GermEval 2014: a comment with its source, an index, two columns of tags.
        ("#\thttp://x.org [2010]\n1\tAnna\tB-PER\tO\n2\tsaw\tO\tO\n3\tRome\tB-LOC\tO\n", {"label": "2"}),
        ("0 Anna B-PER\n1 saw O\n2 Rome B-LOC\n", {}),
        # CoNLL-2012's index is its third column; a document begins with a comment.
        ("#begin document (x)\nx 0 0 Anna B-PER\nx 0 1 saw O\nx 0 2 Rome B-LOC\n#end document\n", {}),
        # Tabs and blanks, in turn and at the ends of lines; lines of blanks between sentences.
        ("Anna  B-PER \nsaw\tO\t\nRome   B-LOC\n \t\n", {}),
        ("Anna\tB-PER\t\nsaw\tO\t\nRome\tB-LOC\t\n\t\t\n", {}),
        ("\ufeffAnna B-PER\r\nsaw O\r\nRome B-LOC\r\n", {}),
        # A first row that names the columns.
        ("Word\tPOS\tTag\nAnna\tNNP\tB-PER\nsaw\tVB\tO\nRome\tNNP\tB-LOC\n", {}),
        # brat's anntoconll.py writes the label first.
        ("B-PER\t0\t4\tAnna\nO\t5\t8\tsaw\nB-LOC\t9\t13\tRome\n", {"text": "3", "label": "0"}),
    ],
)
def test_words_and_labels_are_found_among_what_programs_write_beside_them(content, given, tmp_path):
    assert sentences(tmp_path, "names.conll", content, **given) == [ANNA]


def test_a_hash_may_be_a_word(tmp_path):
    content = "# O\n1 O\nAnna B-PER\n\n#tag O\nRome B-LOC\n\n# B-PER\nx O\n"
    read = [words for words, _ in sentences(tmp_path, "names.conll", content)]
    assert read == [("#", "1", "Anna"), ("#tag", "Rome"), ("#", "x")]


def test_sentences_end_where_a_document_or_the_index_begins_again(tmp_path):
    documents = "-DOCSTART- O\nAnna B-PER\nsaw O\n-DOCSTART- O\nRome B-LOC\n"
    assert [len(words) for words, _ in sentences(tmp_path, "a.conll", documents)] == [2, 1]
    counted = "1\tAnna\tB-PER\n2\tsaw\tO\n1\tRome\tB-LOC\n2\tx\tO\n"
    assert [len(words) for words, _ in sentences(tmp_path, "b.conll", counted)] == [2, 2]


def test_multiword_tokens_and_empty_nodes_are_left_out_and_counted(tmp_path, capsys):
    rest = "\t_" * 6
    content = f"1-2\tal\t_\t_{rest}\n1\ta\ta\tADP{rest}\n2\tel\tel\tDET{rest}\n2.1\tva\tir\tVERB{rest}\n"
    read = sentences(tmp_path, "words.conllu", content)
    assert read == [(("a", "el"), ("ADP", "DET"))]
    printed = capsys.readouterr().err
    assert "1 multiword tokens and 1 empty nodes" in printed and "column 1" in printed


def test_an_empty_word_keeps_its_place_and_an_empty_label_is_refused(tmp_path, capsys):
    read = sentences(tmp_path, "a.conll", "1\tAnna\tB-PER\n2\t\tO\n3\tRome\tB-LOC\n")
    assert read == [(("Anna", "", "Rome"), ("B-PER", "O", "B-LOC"))] and "line 2" in capsys.readouterr().err
    with pytest.raises(DataError, match="line 2 has no label"):
        sentences(tmp_path, "b.conll", "1\tAnna\tB-PER\n2\tsaw\t\n3\tRome\tB-LOC\n", label="2")


def test_comments_as_wide_as_words_and_an_endless_sentence_are_said(tmp_path, capsys):
    sentences(tmp_path, "a.conll", "# id=4\nAnna B-PER\nsaw O\n")
    assert "line 1" in capsys.readouterr().err
    sentences(tmp_path, "b.conll", "Anna B-PER\nsaw O\n" * 210)
    assert "420 words" in capsys.readouterr().err


SWAPPED = "B-PER Anna\nO saw\nB-LOC Rome\n"
NESTED = "1\tAnna\tB-PER\tO\n2\tsaw\tO\tO\n3\tRome\tB-LOC\tB-ORG\n4\tx\tO\tI-ORG\n"
PARTS = "\n\n".join(f"{tag} {tag.lower()}{n}" for n in range(20) for tag in ("NOUN", "VERB"))
CONLLU = "1\ta\ta\tADP\tIN\t_\t0\troot\t_\t_\n2\tel\tel\tDET\tDT\t_\t1\tdet\t_\t_\n"


@pytest.mark.parametrize(
    ("content", "settings"),
    [
        (SWAPPED, {"text": "1", "label": "0"}),
        (PARTS, {"text": "1", "label": "0"}),
        (NESTED, {"text": "1", "label": "2"}),
        ("Anna B-PER x1\nsaw O x2\nRome B-LOC x3\n", {"text": "0", "label": "1"}),
        ("B-PER\t0\t4\tAnna\nO\t5\t8\tsaw\nB-LOC\t9\t13\tRome\n", {"text": "3", "label": "0"}),
        (CONLLU, {"text": "1", "label": "3"}),
    ],
)
def test_columns_in_doubt_are_asked_for_with_settings_that_read_the_file(content, settings, tmp_path):
    with pytest.raises(DataError) as refused:
        sentences(tmp_path, "names.conll", content)
    assert " ".join(f"dataset.{name}={value}" for name, value in settings.items()) in str(refused.value)
    assert sentences(tmp_path, "names.conll", content, **settings)


def test_a_word_with_fewer_columns_is_refused_by_its_line(tmp_path):
    with pytest.raises(DataError, match="line 2 has 1 column"):
        sentences(tmp_path, "names.conll", "Anna B-PER\nsaw\nRome B-LOC\n")


@pytest.mark.parametrize(
    ("content", "read", "said"),
    [
        ("Anna U-PER\nNew B-LOC\nYork L-LOC\n", ("U-PER", "B-LOC", "L-LOC"), ""),
        ("New B-LOC\nYork E-LOC\n\nRome S-LOC\n", ("B-LOC", "E-LOC"), ""),
        ("Anna I-PER\nBob B-PER\nsaw O\n", ("B-PER", "B-PER", "O"), "IOB1"),
        ("New I-LOC\nYork I-LOC\nsaw O\n", ("B-LOC", "I-LOC", "O"), "IOB1"),
        ("Anna PER\nsaw O\n", ("PER", "O"), "word by word"),
        # spaCy 3.8.7 writes - for words of entities that end within a word.
        ("Rome B-LOC\nBob -\nsaw O\n", ("B-LOC", "O", "O"), "'-' is read as 'O'"),
        ("Anna B-PER\nsaw 0\n", ("B-PER", "O"), "'0' is read as 'O'"),
        ("Anna 1\nsaw 0\n", ("1", "0"), "dataset.label_names"),
    ],
)
def test_schemes_of_tags_are_recognised(content, read, said, tmp_path, capsys):
    assert sentences(tmp_path, "names.conll", content)[0][1] == read
    assert said in capsys.readouterr().err


OF_2012 = "bc/cctv 0 {} {} NNP (TOP* - - - Anna {} (ARG1*) -"


def test_entities_in_brackets_are_tags(tmp_path, capsys):
    sentences = [
        [("Anna", "(PERSON)"), ("saw", "*"), ("New", "(GPE*"), ("York", "*)")],
        [("It", "*"), ("slept", "*"), ("", "*")],
    ]
    lines = ["#begin document (bc/cctv); part 000"]
    for sentence in sentences:
        lines += [OF_2012.format(n, word or "/.", entity) for n, (word, entity) in enumerate(sentence)] + [""]
    (tmp_path / "a.conll").write_text("\n".join([*lines, "#end document", ""]))
    expected = [["B-PERSON", "O", "B-GPE", "I-GPE"], ["O", "O", "O"]]
    data = FilesDataset(path=str(tmp_path / "a.conll"), validation_fraction=0.0).load(tmp_path, "words")
    assert [[data.labels[label] for label in row.labels] for row in data.by_name["train"]] == expected
    assert "column 10" in capsys.readouterr().err
    short = "\n".join(
        "\n".join(f"{word or '/.'} {entity}" for word, entity in sentence) + "\n" for sentence in sentences
    )
    (tmp_path / "b.conll").write_text(short)
    data = FilesDataset(path=str(tmp_path / "b.conll"), validation_fraction=0.0).load(tmp_path, "words")
    assert [[data.labels[label] for label in row.labels] for row in data.by_name["train"]] == expected
