"""The commands: what each does, and where its function and its settings are."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from encoderlab.config.commands import CommandConfig


class Command(NamedTuple):
    """A command: its package below encoderlab, which has its function in a module of its name; the class of its
    settings, in `settings` of an application, otherwise in `config.commands`; and what it does, in a sentence.
    """

    package: str
    settings: str
    summary: str

    def schema(self) -> "type[CommandConfig]":
        """Load and return the class of its settings: help needs no PyTorch, and the overview not even these."""
        is_application = self.package.startswith("apps.")
        module = f"encoderlab.{self.package}.settings" if is_application else "encoderlab.config.commands"
        return getattr(import_module(module), self.settings)

    def function(self) -> Callable[..., Any]:
        """Load and return what runs it."""
        name = self.schema().command
        module = f"encoderlab.{self.package}.{name}"
        return getattr(import_module(module), name)


COMMANDS = {
    "train": Command("commands", "RunConfig", "Train an encoder and report its scores."),
    "pretrain": Command(
        "commands", "PretrainConfig", "Pretrain an encoder on documents: masked tokens and next sentences."
    ),
    "finetune": Command(
        "commands", "FinetuneConfig", "Finetune a pretrained encoder on a task, and report its scores."
    ),
    "distill": Command("commands", "DistillConfig", "Train a small student to predict what a larger teacher predicts."),
    "eval": Command("commands", "EvalConfig", "Score a finished run on a split, or on other data."),
    "predict": Command("commands", "PredictConfig", "Predict labels or numbers for new texts."),
    "select": Command("apps.labelling", "SelectConfig", "Choose which texts to label next."),
    "label": Command("apps.labelling", "LabelConfig", "Label texts in the browser, the most useful ones first."),
    "serve": Command(
        "apps.serving", "ServeConfig", "Serve a run over HTTP on this machine, with a web page to try it."
    ),
    "embed": Command("commands", "EmbedConfig", "Write the vectors of texts to a file."),
    "attention": Command("commands", "AttentionConfig", "Plot attention maps."),
    "explain": Command(
        "commands", "ExplainConfig", "Show which words support a prediction, and which count against it."
    ),
    "export": Command("apps.exporting", "ExportConfig", "Export a run's model to a format that other tools read."),
    "compare": Command(
        "apps.comparing",
        "CompareConfig",
        "Compare runs: settings, scores over seeds, paired differences and their tests.",
    ),
    "data": Command(
        "apps.drift", "DataConfig", "Inspect a dataset: rows, classes, lengths, duplicates, odd rows, tokens."
    ),
    "baseline": Command("commands", "BaselineConfig", "Score simple baselines (no encoder) on a dataset."),
}
LIST = "Show every task, dataset, tokenizer, model, training preset, experiment and encoder."
SUMMARIES = {name: command.summary for name, command in COMMANDS.items()} | {"list": LIST}
