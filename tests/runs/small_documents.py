"""A few documents whose sentences end with full stops, for tests of pretraining on them."""

from encoderlab.data.dataset import Pack
from encoderlab.data.documents import Documents, DocumentSplit, SentenceReader, fingerprint
from encoderlab.data.sentences import SentenceSplitter
from encoderlab.data.tokenizer_config import WordPieceConfig
from encoderlab.runs.load_data import DocumentTokens
from encoderlab.tasks.pretraining import PretrainingConfig


class FullStops:
    """Split at full stops, for corpora in which every sentence ends with one."""

    def tokenize(self, paragraph):
        return [f"{part.strip()}." for part in paragraph.split(".") if part.strip()]


SPLITTER = SentenceSplitter(FullStops(), "full stops", "full stops 1")
LONG = "one two three. four five six. seven eight nine. ten eleven twelve."
DOCUMENTS = [
    [LONG, "too short. to be. kept."],
    [LONG.upper(), "only two sentences are here. this is the second and last of them."],
    [LONG] * 2,
]


def config_of(**task):
    return PretrainingConfig(name="test", **task)


def documents_of(documents=DOCUMENTS, splitter=SPLITTER, **task):
    """Return these documents, read as the settings of a task say."""
    config = config_of(**task)
    split = DocumentSplit(lambda: iter(documents), len(documents), fingerprint(repr(documents).encode()))
    reader = SentenceReader(splitter, config.min_characters, config.min_sentences)
    return Documents({"train": split, "validation": split}, origin={"source": "test"}, reader=reader)


def tokenizer_of(documents, cache):
    return WordPieceConfig(vocabulary_size=200, min_frequency=1).build(documents.training_texts, cache)


def rows_in(cache, documents=DOCUMENTS, pack=Pack.sentences, max_length=32, tokenizer=None, splitter=SPLITTER, **task):
    """Return the training rows of these documents, whose token stores are in `cache`."""
    read = documents_of(documents, splitter, **task)
    tokenizer = tokenizer or tokenizer_of(documents_of(), cache)
    tokens = DocumentTokens(read, tokenizer, ["train"], cache, pack=pack, seed=0)
    return tokens.rows(config_of(**task).build(tokenizer, [], max_length))["train"]
