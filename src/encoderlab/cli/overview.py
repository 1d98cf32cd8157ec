"""The commands with a line each, and the overview that `encoderlab --help` prints."""

from __future__ import annotations

COMMANDS = {
    "train": "Train an encoder and report its scores.",
    "pretrain": "Pretrain an encoder on documents: masked tokens and next sentences.",
    "finetune": "Finetune a pretrained encoder on a task, and report its scores.",
    "distill": "Train a small student to predict what a larger teacher predicts.",
    "eval": "Score a finished run on a split, or on other data.",
    "predict": "Predict labels or numbers for new texts.",
    "serve": "Serve a run over HTTP on this machine, with a web page to try it.",
    "embed": "Write the vectors of texts, or of their tokens, to a file.",
    "attention": "Plot attention maps.",
    "explain": "Show which words support a prediction, and which count against it.",
    "export": "Export a run's model to a format that other tools read.",
    "compare": "Compare runs: settings, scores over seeds, paired differences and their tests.",
    "data": "Inspect a dataset: rows, classes, lengths, duplicates, odd rows, tokens.",
    "baseline": "Score simple baselines (no encoder) on a dataset.",
    "list": "Show every task, dataset, tokenizer, model, training preset, experiment and encoder.",
}
OVERVIEW = """encoderlab {version}: train transformer encoders for text

usage: encoderlab COMMAND [name=value ...]

{commands}

  encoderlab train                                   the built-in task: no download, no GPU
  encoderlab train task=sst2 model.n_layers=2        another task and a smaller model
  encoderlab train -m seed=1,2,3                     several runs, and a table to compare them
  encoderlab compare outputs/train/sst2/*            compare finished runs
  encoderlab COMMAND --help                          every setting of a command, one line each"""
