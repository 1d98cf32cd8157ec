"""Pretraining: masked tokens, and whether one text follows another (Devlin et al. 2019, section 3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from encoderlab.batch import Batch, Encoded, HeadSizes, Prediction
from encoderlab.data.examples import Example
from encoderlab.data.tokenizers import Tokenizer
from encoderlab.errors import DataError
from encoderlab.metrics.pretraining import PretrainingMetrics
from encoderlab.tasks.config import PretrainingConfig, SecondSentence
from encoderlab.tasks.masking import Masking
from encoderlab.tasks.sequences import sequences_of, texts_among
from encoderlab.tasks.task import Answer, Task

PAIR_LABELS = {
    SecondSentence.next: ["follows", "random"],
    SecondSentence.swapped: ["in_order", "swapped"],
    SecondSentence.none: [],
}


class Pretraining(Task):
    """Predicts the masked tokens and, for a pair, whether the second text follows the first.

    The labels are the task's own, in the order of BERT's code: 0 means that it follows. Raises DataError if the
    tokenizer has no mask token.
    """

    def __init__(self, config: PretrainingConfig, tokenizer: Tokenizer, labels: Sequence[str], max_length: int) -> None:
        super().__init__(tokenizer, PAIR_LABELS[config.second_sentence], max_length, "mlm_accuracy", shortest=5)
        self.config = config
        self.heads = HeadSizes(sequence_classes=len(self.labels) or None, vocabulary=True)
        self.masking = Masking(config, tokenizer)

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        """Return new texts or pairs as sequences without masks or targets; see `Task.encode`.

        The rows of the run itself are not examples; see `tasks.sentence_rows`.
        """
        sequences = sequences_of(self.tokenizer, texts_among(examples), self.max_length)
        return [replace(sequence, token_labels={}) for sequence in sequences]

    @property
    def is_ordinary(self) -> np.ndarray:
        """Return whether each id is an ordinary token: [vocabulary]."""
        return self.masking.is_ordinary.numpy()

    def count_targets(self, flat: np.ndarray, lengths: np.ndarray) -> int | None:
        return self.masking.count(flat, lengths)

    def ask(self, batch: Batch, key: int) -> Batch:
        return self.masking(batch, key)

    def metrics(self) -> PretrainingMetrics:
        return PretrainingMetrics(self.config.second_sentence.value if self.labels else None)

    def answers(self, prediction: Prediction, batch: Batch) -> list[Answer]:
        """Return the relation of the second text to the first, for each row.

        Raises DataError if the run was not trained on pairs.
        """
        if prediction.sequence_logits is None:
            raise DataError(
                "This model was pretrained with task.second_sentence=none and predicts nothing for a whole text",
                remedy="Train it on a task with encoderlab finetune init_from=..., or get its vectors with "
                "encoderlab embed",
            )
        return self.answers_of(prediction.sequence_logits)
