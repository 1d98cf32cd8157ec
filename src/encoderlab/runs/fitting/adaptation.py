"""Adapting a pretrained encoder to a task's own training texts, by masked tokens only, before it learns the task.

It is a pretraining inside the run's folder: the same command, with the task's training rows as documents. It is
finished before the first step of the task, so every checkpoint of the task already holds it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from encoderlab.config.commands import FinetuneConfig, PretrainConfig
from encoderlab.config.schemas import AsPretrained
from encoderlab.data.documents import Documents, as_documents
from encoderlab.data.examples import Splits
from encoderlab.data.sources.dataset import Pack
from encoderlab.data.splitting import hold_out
from encoderlab.data.tokenizers.config import AsPretrainedTokenizer
from encoderlab.metrics import AnswerScores
from encoderlab.runs.corpora.corpus import Corpus
from encoderlab.runs.fitting.teaching import Teaching
from encoderlab.runs.folders.folder import RunFolder
from encoderlab.runs.models.assembly import Assembly
from encoderlab.runs.models.pretrained import load_into, load_pretrained
from encoderlab.tasks.config import PretrainingConfig, SecondSentence
from encoderlab.training.batches import Rows
from encoderlab.training.config import Keep, TrainingConfig, seconds_of

BATCH_SIZE, LEARNING_RATE, WARMUP = 64, 5e-4, 0.05
HELD_OUT = 0.05  # share of the training texts, to score what was learned
# settings that adapting and finetuning share, because they run on the same machine
SHARED = ("precision", "compile", "deterministic", "device", "threads", "log_every")


class Adaptation(Teaching):
    """Pretrains the encoder further inside the run's folder, for the time in `config.adapt` (Gururangan et al. 2020).

    No text of the validation or test split is read. `pretrain` is the command, given its settings and the documents.
    """

    def __init__(
        self, config: FinetuneConfig, corpus: Corpus, pretrain: Callable[[PretrainConfig, Documents], object]
    ) -> None:
        self.config, self.corpus, self.pretrain = config, corpus, pretrain

    def prepare(self, assembly: Assembly, corpus: Corpus, rows: Rows) -> Rows:
        """See `Teaching.prepare`: the rows stay as they are."""
        self.assembly = assembly
        return rows

    def train_before(self, folder: RunFolder) -> None:
        """See `Teaching.train_before`: an interrupted adaptation is resumed, a finished one is not repeated."""
        adapted = RunFolder(folder.adapted)
        if not adapted.finished:
            print(
                f"Adapting the encoder to the training texts for {self.config.adapt} first (adapt=null skips this)",
                file=sys.stderr,
            )
            self.pretrain(self._settings(adapted), self._documents())
        load_into(self.assembly.model, load_pretrained(str(adapted.root)))
        torch.manual_seed(
            self.config.seed
        )  # the task's random draws do not depend on where the adaptation was interrupted

    def seconds_before(self, own: float) -> dict[str, float]:
        """See `Teaching.seconds_before`."""
        assert self.config.adapt is not None
        return {"adapting": seconds_of(self.config.adapt, "adapt")}

    def compared(
        self, assembly: Assembly, corpus: Corpus, folder: RunFolder, split: str, scores: AnswerScores
    ) -> dict[str, Any]:
        """See `Teaching.compared`: records how long the encoder was adapted."""
        return {"adapted_for": self.config.adapt}

    def _settings(self, adapted: RunFolder) -> PretrainConfig:
        config = self.config
        shared = {name: getattr(config.training, name) for name in SHARED}
        training = TrainingConfig(
            budget=config.adapt,
            batch_size=BATCH_SIZE,
            learning_rate=LEARNING_RATE,
            warmup=WARMUP,
            keep=Keep.last,
            **shared,
        )
        is_started = adapted.config.is_file()
        return PretrainConfig(
            cache_dir=config.cache_dir,
            task=PretrainingConfig(
                name=config.task.name, second_sentence=SecondSentence.none, min_characters=1, min_sentences=1
            ),
            dataset=replace(config.dataset, pack=Pack.segments, fold=None, train_share=1.0),
            tokenizer=AsPretrainedTokenizer(),
            model=AsPretrained(max_length=self.assembly.config.model.max_length),
            training=training,
            seed=config.seed,
            run_dir=None if is_started else str(adapted.root),
            resume=str(adapted.root) if is_started else None,
            init_from=config.init_from,
        )

    def _documents(self) -> Documents:
        """Return the training rows as documents, some of them held out."""
        parts = hold_out(self.corpus.split("train"), {"validation": HELD_OUT}, seed=0)
        return as_documents(Splits(parts, [], self.corpus.splits.origin))
