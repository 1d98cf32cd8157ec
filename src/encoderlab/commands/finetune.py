"""encoderlab finetune: trains a pretrained encoder on a task, and reports how good it is."""

from __future__ import annotations

from collections.abc import Callable

from encoderlab.commands.pretrain import pretrain_on
from encoderlab.commands.train import train_on_labels
from encoderlab.config.commands import FinetuneConfig, PretrainConfig, RunConfig
from encoderlab.data.documents import Documents
from encoderlab.errors import SettingError
from encoderlab.runs.corpora.corpus import Corpus
from encoderlab.runs.fitting.adaptation import Adaptation
from encoderlab.runs.fitting.teaching import UNTAUGHT, Teaching
from encoderlab.runs.folders.folder import RunFolder
from encoderlab.system.processes import SINGLE_PROCESS, Processes


def finetune(config: FinetuneConfig, processes: Processes = SINGLE_PROCESS) -> RunFolder | None:
    """Train as `encoderlab train` does, from the encoder of `init_from`, with a fresh head for the task.

    With `config.adapt`, the encoder is first pretrained on the task's training texts for that long; see
    `runs.fitting.adaptation`. Raises SettingError, DataError or TrainingError before the run folder is created.
    """
    return train_on_labels(config, "finetune", processes, adapting(processes))


def adapting(processes: Processes) -> Callable[[RunConfig, Corpus], Teaching]:
    """Return the step that first pretrains on the task's training texts if the run's `adapt` is set; see
    `train_on_labels`.
    """

    def adapt(settings: PretrainConfig, documents: Documents) -> object:
        return pretrain_on(documents, settings, processes)

    def prepared(config: RunConfig, corpus: Corpus) -> Teaching:
        if not isinstance(config, FinetuneConfig) or config.adapt is None:
            return UNTAUGHT
        if processes.size > 1:
            raise SettingError(
                f"adapt={config.adapt} needs a single process, and there are {processes.size}",
                remedy="Start one process, or use encoderlab pretrain and then init_from=... with the run",
            )
        return Adaptation(config, corpus, adapt)

    return prepared
