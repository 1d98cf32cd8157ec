"""The encoder that a run starts from, or learns from: where it is, and how its weights get into another model."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from encoderlab.config.commands import RunConfig
from encoderlab.config.schemas import settings_to_dict
from encoderlab.data.corpus import Corpus
from encoderlab.data.hub import http_error, hub_answers, quiet
from encoderlab.data.tokenizer_config import AsPretrainedTokenizer
from encoderlab.data.tokenizers import Tokenizer
from encoderlab.errors import DataError, SettingError
from encoderlab.exchange.sentence_transformers import SENTENCE_CONFIG, modules_left_out, sentence_pooling
from encoderlab.models.folder import encoder_shape, model_folder, read_model
from encoderlab.models.model import Model
from encoderlab.network.config import ModelConfig, Pairs, Pooling
from encoderlab.network.heads import EncoderWithHeads
from encoderlab.shipped import shipped_folder, suggestion
from encoderlab.system.files import expanded, sha256_of
from encoderlab.system.messages import say_once
from encoderlab.system.processes import Processes
from encoderlab.tasks.task import TaskConfig
from encoderlab.training.distribution import is_sharded

TOKEN_TABLE = "encoder.embeddings.token.weight"
# one row per position or token: a shorter table holds the first rows of a longer one
TABLES = (
    "encoder.embeddings.position.embedding.weight",
    TOKEN_TABLE,
    "masked_token_head.decoder.weight",
    "masked_token_head.bias",
)
DOWNLOADED = [
    "README.md",
    "config.json",
    "model*.safetensors",
    "model.safetensors.index.json",
    "1_Pooling/config.json",
    "vocab.txt",
]
DOWNLOADED += ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"]
DOWNLOADED += ["modules.json", SENTENCE_CONFIG]  # of sentence-transformers
DOWNLOADED += ["vocab.json", "merges.txt", "sentencepiece.bpe.model"]  # of byte-level and Unigram vocabularies
PROBE = "Déjà vu: the U.S. re-entered 12% of it, (so they say)"  # distinguishes case, accents and punctuation
STARTS = "a shipped encoder, a run folder, a Hugging Face folder or a hub name (OWNER/NAME)"
TASK_HEADS = ("sequence_head", "token_head")


def load_start(config: RunConfig, processes: Processes) -> tuple[Model | None, dict[str, str]]:
    """Return the encoder that the run starts from, read by the main process, and the hashes of its weights by the
    setting that names them; (None, {}) for fresh weights.

    If the model is to be sharded, the others only get the shapes of the weights. Raises SettingError if the settings
    of the model contradict it, before any data is read.
    """
    init_from = config.starts_from
    if init_from is None:
        config.model.resolve(None)  # refuses model=as_pretrained
        return None, {}

    def load() -> tuple[Model, dict[str, str]]:
        folder = encoder_folder(init_from)
        start = _read_encoder(folder, copied=False)
        config.model.resolve(shape_for(config.task, start))
        return start, {"init_from": weights_hash(folder)}

    if not is_sharded(config.training, processes):
        return processes.broadcast_from_main(load)
    whole: list[Model] = []  # on the main process

    def shapes() -> tuple[Model, dict[str, str]]:
        start, files = load()
        whole.append(start)
        without = copy.deepcopy(start.network).to("meta")
        return replace(start, network=without, pooler={}), files

    shared, files = processes.broadcast_from_main(shapes)
    return (whole[0] if whole else shared), files


def weights_hash(folder: Path) -> str:
    """Return the hashes of the weights in a model folder."""
    return " ".join(map(sha256_of, sorted(folder.glob("model*.safetensors"))))


def load_pretrained(init_from: str, setting: str = "init_from") -> Model:
    """Open the encoder that `setting`=`init_from` names, with the settings that a run starts from as its shape.

    Raises SettingError or DataError if there is none, or it is damaged or of an unsupported kind.
    """
    return _read_encoder(encoder_folder(init_from, setting))


def _read_encoder(folder: Path, *, copied: bool = True) -> Model:
    """Return the model in a folder, with the settings that a run starts from as its shape."""
    start = read_model(folder, copied=copied)
    if start.config.task.of_encoder_alone and sentence_pooling(folder) is not None:
        start.pooler = {}  # it is untrained
        if left_out := modules_left_out(folder):
            say_once(f"{folder}: what follows its pooling is left out: {', '.join(left_out)}")
    return start.with_shape(encoder_shape(start.config))


def shape_for(task: TaskConfig, start: Model | None) -> ModelConfig | None:
    """Return the shape of a pretrained encoder for a run of `task`; None without one.

    The pooling is kept if a task with labels, a pooler or sentence vectors were trained with it. Otherwise it is the
    mean, which from pretraining alone scored 0.727 on the built-in task, and the first token 0.699; an encoder of
    another family keeps that family's own, with which it can be exported. Pretraining reads a pair as one sequence.
    """
    if start is None:
        return None
    if task.of_vectors:
        return replace(start.shape, pooling=Pooling.cls, pairs=Pairs.separate)  # it trains the first token
    if task.command == "pretrain":
        return start.shape.for_pretraining()
    has_pooler = "pool.dense.weight" in start.pooler or "pool.dense.weight" in start.network.state_dict()
    is_trained = start.task.heads.judges_texts or has_pooler or start.first_token_is_trained
    if is_trained or start.shape.keeps_pooling:
        return start.shape
    return replace(start.shape, pooling=Pooling.mean)


def tokenizer_for(config: RunConfig, data: Corpus, start: Model | None, teacher: Model | None) -> Tokenizer:
    """Return the run's tokenizer: that of its starting encoder, of its teacher, or the one that its settings name.

    Raises SettingError if it is not that of the encoder that the run starts from.
    """
    source = start or teacher
    if source is not None and isinstance(config.tokenizer, AsPretrainedTokenizer):
        return source.tokenizer
    settings = config.tokenizer.for_task(of_words=config.task.of_words)
    tokenizer = settings.build(data.training_texts, config.cache)
    difference = "" if start is None else vocabulary_difference(tokenizer, start.tokenizer)
    if difference:
        name = getattr(settings, "name", None) or settings_to_dict(settings)["schema"]
        problem = f"The tokenizer {name} is not that of init_from={config.starts_from}: {difference}"
        raise SettingError(problem, remedy="Use tokenizer=as_pretrained")
    return tokenizer


def load_into(network: EncoderWithHeads, start: Model, labels: Sequence[str] = ()) -> list[str]:
    """Copy the weights of `start` into `network`; return the names of the parts that stay fresh.

    The encoder is taken over whole, with tables cut to the rows that are needed. Heads of a task are always fresh,
    except those of continued pretraining, and the head of pairs only if it has the same `labels`. A `network` of shapes
    only stays one. Otherwise it shares the memory of `start`, which must not be used any more once a step is taken.
    """
    theirs = start.weights
    continues = "masked_token_head.bias" in theirs and list(labels) == start.labels
    keeps_heads = continues and network.masked_token_head is not None
    own = network.state_dict()
    copied = {}
    for name, weight in own.items():
        is_fresh_head = name.startswith(TASK_HEADS) and not keeps_heads
        if name not in theirs or is_fresh_head:
            continue
        pretrained = theirs[name][: len(weight)] if name in TABLES else theirs[name]
        if pretrained.shape == weight.shape:
            copied[name] = pretrained
    assert all(name in copied for name in own if name.startswith("encoder."))
    if network.has_weights:
        # A parameter takes the memory of its pretrained values: with a table of a hundred languages, a second copy of
        # the encoder is half a gigabyte or more.
        for name, weight in network.named_parameters():
            if name in copied and copied[name].dtype is weight.dtype and copied[name].device == weight.device:
                weight.data = copied[name]
        network.load_state_dict(copied, strict=False)
    return sorted({name.rpartition(".")[0] for name in own if name not in copied})


def vocabulary_difference(mine: Tokenizer, other: Tokenizer) -> str:
    """Return the first difference between two tokenizers in words; "" if their ids mean the same."""
    if mine.fingerprint == other.fingerprint:
        return ""
    own_pieces = mine.pieces(range(mine.vocabulary_size))
    other_pieces = other.pieces(range(other.vocabulary_size))
    if own_pieces != other_pieces:
        return f"{len(own_pieces):,} tokens, which are not its {len(other_pieces):,}"
    return "" if mine.encode([PROBE]) == other.encode([PROBE]) else f"it splits {PROBE!r} differently"


def encoder_folder(name: str, setting: str = "init_from") -> Path:
    """Return the model folder that `setting`=`name` names: a shipped encoder's, a run's, a Hugging Face folder or a hub
    model's.

    Raises DataError if there is none.
    """
    path = expanded(name, setting)
    if shipped_folder(name) is not None or (name and path.is_dir()):
        if path.parent.name == "checkpoints":
            remedy = f"Set {setting}={path.parent.parent}, the run it belongs to"
            raise DataError(f"{setting}={name} is a checkpoint", remedy=remedy)
        return model_folder(name, setting)
    remedy = suggestion(name, setting)
    if not name or remedy or path.is_file():
        remedy = remedy or "Use a name from encoderlab list encoders"
        raise DataError(f"{setting}={name} is neither a shipped encoder nor a folder", allowed=STARTS, remedy=remedy)
    return fetch_model_folder(name)


def fetch_model_folder(name: str) -> Path:
    """Return a model's folder in the hub's cache (HF_HOME), updated if the hub answers.

    Pickles and code are never downloaded. Raises DataError if there is no such model, or if it can neither be
    downloaded nor is in the cache.
    """
    from huggingface_hub import constants, snapshot_download

    online = not constants.HF_HUB_OFFLINE and hub_answers(constants.ENDPOINT)
    try:
        with quiet():
            folder = Path(snapshot_download(name, allow_patterns=DOWNLOADED, local_files_only=not online))
    except (OSError, ValueError, http_error()) as error:  # the hub's own errors are of these kinds
        reason = str(error).strip().partition("\n")[0].rstrip(".")[:200] if online else "it cannot be reached"
        problem = f"{name} is not a folder, and not available on the hub {constants.ENDPOINT}: {reason}"
        remedy = "Check the name (OWNER/NAME), the network and HF_TOKEN, or set HF_HOME to a cache that has it"
        raise DataError(problem, remedy=remedy) from None
    if not any(folder.glob("model*.safetensors")):
        remedy = "Convert weights in another format with transformers' save_pretrained, if you trust them"
        raise DataError(f"{name} has no readable weights", allowed="a model with model.safetensors", remedy=remedy)
    return folder
