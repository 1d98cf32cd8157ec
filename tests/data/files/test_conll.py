"""Sentences in CoNLL columns: words and labels by name or number, or refused with their line."""

import gzip
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.data.examples import WordsExample
from encoderlab.data.files.files import FilesDataset, read_unlabelled
from encoderlab.data.sources.column_dataset import OnInvalidTags
from encoderlab.errors import DataError
from tests.data.files import written

CONLL_2003 = "-DOCSTART- -X- O\n\nEU NNP B-ORG\nrejects VBZ O\n\n# NN O\nPeter NNP B-PER\n\n\n"
CONLLU = (
    "# text = vámonos al mar\n1-2\tvámonos\t_\t_\n1\tvamos\tir\tVERB\n2\tnos\tnosotros\tPRON\n2.1\tx\tx\tX\n\n"
    "# sent_id = 2\n1\tmar\tmar\tNOUN\n"
)
WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters=" #"), min_size=1, max_size=5)


def sentences(path, content, **given):
    path.write_text(content, encoding="utf-8")
    splits = FilesDataset(path=str(path), **{"validation_fraction": 0, **given}).load(path.parent)
    return [
        list(zip(one.words, [splits.labels[label] for label in one.labels], strict=True))
        for one in splits.by_name["train"]
    ]


error_of = partial(written.error_of, read=sentences)


def test_the_first_column_is_the_word_and_the_last_its_label(tmp_path):
    read = sentences(tmp_path / "train.conll", CONLL_2003)
    assert read == [[("EU", "B-ORG"), ("rejects", "O")], [("#", "O"), ("Peter", "B-PER")]]


def test_columns_can_be_chosen_by_number(tmp_path):
    read = sentences(tmp_path / "train.conll", CONLL_2003, text="0", label="1")
    assert read == [[("EU", "NNP"), ("rejects", "VBZ")], [("#", "NN"), ("Peter", "NNP")]]


def test_universal_dependencies_give_word_forms_and_parts_of_speech(tmp_path):
    assert sentences(tmp_path / "train.conllu", CONLLU) == [[("vamos", "VERB"), ("nos", "PRON")], [("mar", "NOUN")]]
    assert sentences(tmp_path / "train.conllu", CONLLU, label="lemma")[1] == [("mar", "mar")]


def test_columns_can_be_named_on_the_first_line(tmp_path):
    plus = "# global.columns = ID FORM NER\n1\tParis\tLOC\n2\tis\tO\n"
    assert sentences(tmp_path / "train.conll", plus, text="form", label="ner") == [[("Paris", "LOC"), ("is", "O")]]
    header = "word\tner\nParis\tLOC\nis\tO\n"
    assert sentences(tmp_path / "train.conll", header, text="word", label="ner") == [[("Paris", "LOC"), ("is", "O")]]


@pytest.mark.parametrize(
    ("content", "given", "message"),
    [
        ("a X\nb\n", {}, "train.conll, line 2 has 1 columns. Allowed: 2 columns, like the first word."),
        (
            "a\tX\n\tY\n",
            {},
            "train.conll, line 2 has an empty column among 2. Allowed: 2 columns, like the first word.",
        ),
        (
            "\n\n",
            {},
            "train.conll has no sentences. Allowed: a word and its label per line, a blank line between sentences.",
        ),
        (
            "a X\n",
            {"label": "ner"},
            "train.conll does not name its columns, so there is no column 'ner'. Allowed: 0, 1, -1 for the last. Set dataset.label=1.",
        ),
        (
            "a X\n",
            {"text": "7"},
            "train.conll does not name its columns, so there is no column '7'. Allowed: 0, 1, -1 for the last. Set dataset.text=0.",
        ),
        (
            "# global.columns = FORM UPOS\na\tX\n",
            {"label": "upo", "text": "form"},
            "train.conll has no column 'upo'. Allowed: form, upos, 0, 1. Set dataset.label=upos.",
        ),
        ("a X\n", {"text_pair": "2"}, "train.conll holds single sentences, not pairs. Set dataset.text_pair=null."),
        (
            "a X\n\nb X\n",
            {},
            "The training rows have only the label 'X'. Allowed: at least two labels. Check dataset.label.",
        ),
    ],
)
def test_a_file_that_cannot_be_trusted_is_refused(tmp_path, content, given, message):
    assert error_of(tmp_path / "train.conll", content, **given) == message


def test_a_label_missing_from_training_is_refused_with_its_sentence(tmp_path):
    (tmp_path / "test.conll").write_text("a X\n\nb Y\nc Z\n")
    with pytest.raises(
        DataError, match="test.conll, line 3 has the label 'Z', which no training row has. Allowed: X, Y."
    ):
        (tmp_path / "train.conll").write_text("a X\nb Y\n")
        FilesDataset(
            train=str(tmp_path / "train.conll"), test=str(tmp_path / "test.conll"), validation_fraction=0
        ).load(tmp_path)


def test_validation_takes_whole_sentences(tmp_path):
    (tmp_path / "train.conll").write_text("".join(f"w{n} X\nv{n} Y\n\n" for n in range(20)))
    splits = FilesDataset(path=str(tmp_path / "train.conll"), validation_fraction=0.25).load(tmp_path)
    assert {name: len(split) for name, split in splits.by_name.items()} == {"train": 15, "validation": 5}
    assert all(len(example.words) == 2 for split in splits.by_name.values() for example in split)


def test_new_sentences_are_read_without_their_labels(tmp_path):
    (tmp_path / "new.conll").write_text("a X\nb Y\n\nc X\n")
    read = read_unlabelled(tmp_path / "new.conll", text="text", text_pair=None, words=True)
    assert list(read) == [WordsExample(("a", "b"), None), WordsExample(("c",), None)]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=4), min_size=1, max_size=5), st.sampled_from("\t ")
)
def test_sentences_come_back_as_written_or_are_refused(tmp_path_factory, written, separator):
    path = tmp_path_factory.mktemp("conll") / "train.conll"
    content = "\n".join("".join(f"{word}{separator}{label}\n" for word, label in sentence) for sentence in written)
    labels = {label for sentence in written for _, label in sentence}
    try:
        assert sentences(path, content) == written
    except DataError as error:
        assert len(labels) < 2 or any(not word.strip() for sentence in written for pair in sentence for word in pair), (
            error
        )


def test_columns_in_a_txt_file_are_recognised_or_dataset_format_is_suggested(tmp_path):
    (tmp_path / "names.txt").write_text("Anna B-PER\nsaw O\n\nBerlin B-LOC\n")
    splits = FilesDataset(path=str(tmp_path / "names.txt"), validation_fraction=0).load(tmp_path)
    assert [example.words for example in splits.by_name["train"]] == [("Anna", "saw"), ("Berlin",)]
    (tmp_path / "one.txt").write_text("Anna B-PER\nsaw O\n")
    with pytest.raises(
        DataError, match="Set dataset.label=null, or dataset.format=conll if it has a word and its label per line"
    ):
        FilesDataset(path=str(tmp_path / "one.txt")).load(tmp_path)
    assert (
        len(
            FilesDataset(path=str(tmp_path / "names.txt"), label=None, validation_fraction=0)
            .load(tmp_path)
            .by_name["train"]
        )
        == 4
    )


IOB1 = "Ada I-PER\nmet O\nAda I-PER\nBob B-PER\n\nin O\nRome I-LOC\nNew I-LOC\n"


def test_an_entity_that_does_not_begin_with_b_is_refused_with_its_line_and_the_remedy(tmp_path):
    message = (
        "train.conll, line 3: word 2, 'Rome', has the label 'I-LOC' after 'O'. Allowed: I-TYPE only after B-TYPE or I-TYPE. "
        "Correct it, or set dataset.on_invalid_tags=repair to read labels as conlleval does (it turns IOB1 into BIO)."
    )
    assert error_of(tmp_path / "train.conll", "Ada B-PER\n\nin O\nRome I-LOC\n") == message
    first = error_of(tmp_path / "train.conll", IOB1)
    assert first.startswith("train.conll, line 1: word 1, 'Ada', has the label 'I-PER' at the start of the sentence.")


def test_iob1_becomes_bio_on_request(tmp_path):
    read = sentences(tmp_path / "train.conll", IOB1, on_invalid_tags=OnInvalidTags.repair)
    labels = [[label for _, label in sentence] for sentence in read]
    assert labels == [["B-PER", "O", "B-PER", "B-PER"], ["O", "B-LOC", "I-LOC"]]


def test_an_unfinished_bioes_entity_is_refused_or_completed(tmp_path):
    broken = "Ada B-PER\nmet O\n\nBob S-PER\nin O\nRome B-LOC\n"
    assert "word 2, 'met', has the label 'O' after 'B-PER'. Allowed: S-TYPE, or B-TYPE" in error_of(
        tmp_path / "a.conll", broken
    )
    read = sentences(tmp_path / "a.conll", broken, on_invalid_tags=OnInvalidTags.repair)
    assert [label for sentence in read for _, label in sentence] == ["S-PER", "O", "S-PER", "O", "S-LOC"]


def test_labels_that_only_look_like_entities_stay_as_they_are(tmp_path):
    assert sentences(tmp_path / "train.conll", "a I-x\nb NOUN\n") == [[("a", "I-x"), ("b", "NOUN")]]


def test_universal_dependencies_are_recognised_by_their_columns_in_any_file(tmp_path):
    line = "{}\t{}\t{}\t{}\t_\t_\t0\t{}\t_\t_\n"
    content = "# text = au bar\n" + line.format("1-2", "au", "_", "_", "_") + line.format(1, "à", "à", "ADP", "case")
    content += line.format(2, "le", "le", "DET", "det") + line.format(3, "bar", "bar", "NOUN", "root") + "\n"
    for name in ("bank.txt", "bank.conll"):
        assert [label for _, label in sentences(tmp_path / name, content * 2, label="deprel")[0]] == [
            "case",
            "det",
            "root",
        ]
    with gzip.open(tmp_path / "bank.conllu.gz", "wt", encoding="utf-8") as file:
        file.write(content)
    splits = FilesDataset(path=str(tmp_path / "bank.conllu.gz"), label="upos", validation_fraction=0).load(tmp_path)
    assert splits.by_name["train"][0].words == ("à", "le", "bar")
