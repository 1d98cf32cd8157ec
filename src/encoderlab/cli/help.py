"""`--help` of a command: usage, examples, the config groups, and every setting with its line of help."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, fields
from enum import Enum
from pathlib import Path
from typing import Any

from encoderlab.commands.list import GROUPS, options_of
from encoderlab.config.command_settings import SweepConfig
from encoderlab.config.schemas import COMMAND_CONFIGS, SCHEMAS
from encoderlab.settings import allowed_range, brought_along

EXAMPLES = {
    "train": [
        ("encoderlab train", "the built-in task: no download, no account, no GPU"),
        ("encoderlab train task=sst2 model.n_layers=2", "another task brings its dataset along"),
        ("encoderlab train task=classification dataset=files dataset.path=reviews.csv", "your own file"),
        ("encoderlab train -m seed=1,2,3 model.n_layers=1,2,4", "every combination, one run each, and a table of them"),
        ("encoderlab train -m sweep=seeds task=sst2", "a sweep by its name: seeds, model_size, learning_rate, learning_curve"),
        ("encoderlab train folds=5 task=sst2", "cross-validation: every training row tested once"),
        ("encoderlab train -m trials=20 'training.learning_rate=log(1e-5,1e-2)'", "a search by Optuna, judged on validation"),
        ("encoderlab train experiment=sst2", "a whole recipe; further settings win over it"),
        ("encoderlab train resume=outputs/train/...", "resume a stopped run; resume=auto finds the latest"),
    ],
    "pretrain": [
        ("encoderlab pretrain", "masked tokens and next sentences on the built-in corpus"),
        ("encoderlab pretrain dataset=wikipedia model=mini training.budget=30m", "for half an hour on Wikipedia"),
        ("encoderlab pretrain dataset=files dataset.path=articles.txt", "your own text: a blank line between documents"),
        ("encoderlab pretrain task.second_sentence=none", "masked tokens only"),
    ],
    "finetune": [
        ("encoderlab finetune task=sst2", "from the encoder that comes with encoderlab: encoderlab list encoders"),
        ("encoderlab finetune task=sst2 init_from=outputs/pretrain/...", "from a run of yours"),
        ("encoderlab finetune task=amazon_polarity init_from=google-bert/bert-base-uncased", "from the Hugging Face hub"),
        ("encoderlab finetune ... training.layer_decay=0.9 training.freeze_layers=2", "lower layers learn less, or nothing"),
    ],
    "distill": [
        ("encoderlab distill teacher=outputs/finetune/... model=mini task=sst2", "a task: labels and the teacher's probabilities"),
        ("encoderlab distill teacher=... task=sst2 unlabelled=more.txt", "with texts that only the teacher labels"),
        ("encoderlab distill teacher=outputs/pretrain/... model=mini dataset=wikipedia", "documents: the teacher's vectors"),
        ("encoderlab distill teacher=... model.n_heads=8 start=pruned", "from the teacher pruned to the student's shape"),
    ],
    "eval": [
        ("encoderlab eval run=outputs/train/... split=validation", "a split of the run's own dataset"),
        ("encoderlab eval run=... dataset=files dataset.path=more.csv", "other labelled data"),
    ],
    "predict": [
        ("encoderlab predict run=... text='A gorgeous, witty film.'", "one text"),
        ("encoderlab predict run=... input=new.csv output=answers.csv", "a file"),
        ("cat lines.txt | encoderlab predict run=...", "lines of standard input (pairs: a tab between the texts)"),
        ("encoderlab predict run=... input=new.csv output=answers.parquet top_k=3 min_probability=0.8", "open where it is unsure"),
        ("encoderlab predict run=... split=test format=glue output=submission", "GLUE's submission, files under its names"),
    ],
    "serve": [
        ("encoderlab serve run=...", "a page to try the run by hand, at http://127.0.0.1:8000/"),
        ("encoderlab serve run=... port=0", "at any free port"),
    ],
    "embed": [
        ("encoderlab embed input=texts.txt output=vectors.npy", "a vector for each line, by the encoder that comes along"),
        ("encoderlab embed run=... input=texts.txt output=vectors.npy", "by one of yours"),
        ("encoderlab embed run=... split=test output=test.npy tokens=true", "a vector for each token of a split"),
    ],
    "export": [
        ("encoderlab export run=... format=huggingface path=exported", "a folder for transformers' Auto classes"),
        ("encoderlab export run=... format=onnx path=exported", "a graph for onnxruntime, checked with it"),
        ("encoderlab export run=... format=int8 path=exported", "the same with 8-bit weights, compared on the run's own split"),
        ("encoderlab export run=... format=compact path=small", "our own folder at about a third of the size"),
    ],
    "compare": [
        ("encoderlab compare outputs/train/sst2/*", "all runs of a task; those that are not finished are left out and named"),
        ("encoderlab compare outputs/multirun/...", "a sweep's folder stands for its runs"),
        ("encoderlab compare FOLDER FOLDER reference=FOLDER output=compared", "against one of them; written as page, table, plots"),
    ],
    "verify": [
        ("encoderlab verify run=outputs/train/...", "exit code 0 where all of a run is as it should be, else 3"),
    ],
    "data": [
        ("encoderlab data task=sst2 model.max_length=64", "a task brings its dataset along"),
        ("encoderlab data task=classification dataset=files dataset.path=reviews.csv", "your own file"),
        ("encoderlab data task=pretraining dataset=docs", "documents, sentences and pairs"),
        ("encoderlab data task=sst2 format=json examples=0", "for programs"),
    ],
    "baseline": [
        ("encoderlab baseline task=sst2", "the most frequent label, and a linear model of words"),
        ("encoderlab baseline task=classification dataset=files dataset.path=reviews.csv words=20", "your own file"),
        ("encoderlab baseline task=sst2 output=baselines.json", "the figures as JSON"),
    ],
    "check": [
        ("encoderlab check", "exit code 0 where all of it works, else 4"),
        ("encoderlab check device=cpu threads=1", "on one core, whatever else there is"),
    ],
    "tokenizer": [
        ("encoderlab tokenizer dataset=sst2 tokenizer.vocabulary_size=4000 output=my_tokenizer", "train one"),
        ("encoderlab tokenizer text='Unbelievably good.'", "see how a text is cut"),
        ("encoderlab tokenizer compare=[google-bert/bert-base-uncased]", "pieces per word, side by side"),
    ],
    "attention": [
        ("encoderlab attention run=... text='A gorgeous, witty film.'", "one text"),
        ("encoderlab attention run=... split=validation rows=[0,7]", "rows of a split"),
    ],
    "explain": [
        ("encoderlab explain run=... text='A gorgeous, witty film.'", "one text, by both methods"),
        ("encoderlab explain run=... text='1 2 3 4' word=3", "the label of a word"),
        ("encoderlab explain run=... split=test rows=[0,7] label=positive", "what speaks for a class, in rows of a split"),
    ],
}
USAGE = {"compare": "FOLDER [FOLDER ...] "}
RECIPES = ("train", "pretrain", "finetune", "distill")
SWEEPS = """
Settings of a sweep (with -m: several runs, then a table of them; hydra/launcher=parallel runs them at the same time):"""
HYDRA_FLAGS = """Hydra's own flags work too:
  --cfg job           print the config that would run     --config-dir DIR    add configs of your own
  -m, --multirun      run every combination of a,b values --hydra-help        more of Hydra"""


def print_help(command: str, description: str, configs: Path) -> None:
    """Print the help of `command`, whose shipped configs lie in `configs`."""
    print(f"encoderlab {command}: {description}\n\nusage: encoderlab {command} {USAGE.get(command, '')}[name=value ...]\n")
    width = max(len(example) for example, _ in EXAMPLES[command])
    print("\n".join(f"  {example:<{width}}  {line}" for example, line in EXAMPLES[command]))
    schema = COMMAND_CONFIGS[command]
    groups = groups_of(schema)
    if groups:
        print("\nConfig groups (encoderlab list describes each option):")
        for group in [*groups, *(["experiment", "sweep"] if command in RECIPES else [])]:
            print(f"  {group:<12}{', '.join(options_of(configs, group))}")
    print("\nSettings (name=value), with their defaults:")
    print("\n".join(_settings(schema, "", skip=groups)))
    for group in groups:
        for (owner, option), member in SCHEMAS.items():
            if owner == group:
                kind = f" ({group} of kind {option})" if option != group else ""
                print(f"\n{group}{kind}: {first_line(member)}")
                print("\n".join(_settings(member, f"{group}.", skip=[])))
    if command in RECIPES:
        print(SWEEPS, *_settings(SweepConfig, "", skip=[]), sep="\n")
    print(f"\n{HYDRA_FLAGS}")


def groups_of(schema: type) -> list[str]:
    """The config groups of which a command takes one option each."""
    return [declared.name for declared in fields(schema) if declared.name in GROUPS and declared.name not in brought_along(schema)]


def _settings(schema: type, prefix: str, skip: list[str]) -> Iterator[str]:
    return (f"  {setting:<38} {line}" for setting, line in settings_of(schema, prefix, skip))


def settings_of(schema: type, prefix: str, skip: list[str]) -> Iterator[tuple[str, str]]:
    """Each setting of a dataclass as name=default, with `prefix` in front, and its line of help with the range."""
    for declared in fields(schema):
        if declared.name in skip or declared.name in brought_along(schema):
            continue
        limits = allowed_range(declared.metadata)
        yield f"{prefix}{declared.name}={_default(declared)}", declared.metadata["help"] + (f" ({limits})" if limits else "")


def _default(declared: Any) -> str:
    default = declared.default_factory() if declared.default_factory is not MISSING else declared.default
    if isinstance(default, Enum):
        return default.name
    words = {None: "null", True: "true", False: "false", "???": "..."}
    return words[default] if isinstance(default, bool | str | None) and default in words else str(default).replace("'", "")


def first_line(schema: type) -> str:
    """What a dataclass of settings says of itself."""
    return (schema.__doc__ or "").strip().splitlines()[0]
