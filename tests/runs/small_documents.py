"""A few documents whose sentences end with full stops, as the corpus of a pretraining run."""

from encoderlab.data.dataset import Pack
from encoderlab.data.documents import Documents, DocumentSplit, fingerprint
from encoderlab.data.sentences import SentenceSplitter
from encoderlab.data.tokenizers import WordPieceConfig
from encoderlab.runs.corpus import DocumentCorpus
from encoderlab.runs.task import build_task
from encoderlab.tasks.config import PretrainingConfig


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


def documents_in(cache, documents=DOCUMENTS, pack=Pack.sentences, **task):
    """Return the corpus of these documents, with its token stores in `cache`."""
    split = DocumentSplit(lambda: iter(documents), len(documents), fingerprint(repr(documents).encode()))
    config = PretrainingConfig(name="test", **task)
    return DocumentCorpus(
        Documents({"train": split, "validation": split}, {"source": "test"}), SPLITTER, config, pack, cache
    )


def task_of(corpus, max_length=32):
    tokenizer = WordPieceConfig(vocabulary_size=200, min_frequency=1).build(corpus.training_texts, corpus.cache)
    return build_task(corpus.task, tokenizer, [], max_length)
