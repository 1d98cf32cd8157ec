"""Token classification: one label for each word, predicted at its first token (Devlin et al. 2019, section 5.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from torch import Tensor

from encoderlab.batch import Batch, Encoded, HeadSizes, Prediction
from encoderlab.data.examples import Example, WordsExample
from encoderlab.data.tokenizers import Tokenizer
from encoderlab.errors import DataError, SettingError
from encoderlab.metrics.entities import ValidDecoder, entity_labels
from encoderlab.metrics.tagging import TaggingMetrics
from encoderlab.tasks.config import Decoding, TaggingConfig
from encoderlab.tasks.task import RowPrediction, Task


class Tagging(Task):
    """Predicts a label for each word; words beyond `max_length` tokens have no target, and the run counts such rows."""

    def __init__(self, config: TaggingConfig, tokenizer: Tokenizer, labels: Sequence[str], max_length: int) -> None:
        super().__init__(
            tokenizer, labels, max_length, config.main_score(labels), shortest=3 if config.special_tokens else 1
        )
        self.special_tokens = config.special_tokens
        self.heads = HeadSizes(token_classes=len(self.labels))
        entities = None if config.decoding is Decoding.argmax else entity_labels(self.labels)
        if entities is None and config.decoding is Decoding.valid:
            wrong = "task.decoding=valid needs BIO or BIOES labels, such as B-person, I-person and O"
            raise SettingError(wrong, remedy="Set task.decoding=argmax")
        self.decoder = None if entities is None else ValidDecoder(entities)

    @property
    def key(self) -> str:
        return f"{super().key} {self.special_tokens}"

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        if not all(isinstance(example, WordsExample) for example in examples):
            wrong = "This dataset holds labelled texts, but a tagging task needs sequences of labelled words"
            raise DataError(wrong, remedy="Set task=classification, or choose a dataset of words")
        sentences = cast("Sequence[WordsExample]", examples)
        pieces = self.tokenizer.encode_words([example.words for example in sentences])
        before, after = ([self.tokenizer.cls_id], [self.tokenizer.sep_id]) if self.special_tokens else ([], [])
        kept, encoded = max(self.max_length - len(before) - len(after), 0), []
        for example, (ids, word_of) in zip(sentences, pieces, strict=True):
            sequence = [*before, *ids[:kept], *after]
            firsts = [place for place, word in enumerate(word_of[:kept]) if not place or word_of[place - 1] != word]
            labels = example.labels or [None] * len(example.words)
            token_labels = {place + len(before): labels[word_of[place]] for place in firsts}
            one = Encoded(sequence, [0] * len(sequence), token_labels=token_labels, truncated=len(ids) > kept)
            encoded.append(one)
        return encoded

    def metrics(self) -> TaggingMetrics:
        return TaggingMetrics(self.labels, self.main_score, self._decoded)

    def _decoded(self, logits: Tensor, batch: Batch) -> Tensor:
        """Return the id of the label of each target word: [targets, labels] -> int64 [targets]."""
        if self.decoder is None:
            return logits.argmax(-1)
        n_rows, longest = batch.input_ids.shape
        return self.decoder.decode(logits, batch.target_positions // longest, n_rows, longest)

    def predictions(self, prediction: Prediction, batch: Batch) -> list[RowPrediction]:
        """Return the labels of each row's words; truncated words have none, which a caller that knows them fills in."""
        assert prediction.token_logits is not None
        logits = prediction.token_logits.float()
        ids = self._decoded(logits, batch).cpu().numpy()
        chances = logits.softmax(-1).cpu().numpy()
        chances = chances[np.arange(len(ids)), ids]
        rows = (batch.target_positions // batch.input_ids.shape[1]).cpu().numpy()
        starts = np.searchsorted(rows, np.arange(1, len(batch)))
        return [
            RowPrediction(tuple(self.labels[id_] for id_ in of_row), None, tuple(confidences.tolist()))
            for of_row, confidences in zip(np.split(ids, starts), np.split(chances, starts), strict=True)
        ]
