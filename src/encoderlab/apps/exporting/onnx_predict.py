"""Predict with the model in this folder: python predict.py "A text." "One more.", or texts on standard input, one per
line.

Needs numpy, onnxruntime and tokenizers. A tab separates the two texts of a pair. Each prediction is a line of JSON. If
the folder has a linear.json, a linear model of n-grams is pooled with the graph. If it has a novelty.safetensors,
--unlike-training=0.05 as the first argument gives no label to texts unlike those the model was trained on, at the price
of about 5% of the others. OMP_NUM_THREADS sets the number of threads.
"""

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from math import log, prod, sqrt
from pathlib import Path

import numpy as np
import onnxruntime
import tokenizers

ITEMS = {"word": r"\b\w\w+\b", "token": r"\w+|[^\w\s]"}  # of n-grams of words, and of words and marks
NUMBERS = {"F16": np.float16, "F32": np.float32}  # in a file of safetensors


def predict(texts: list[str], folder: Path, unlike_training: float | None = None) -> list[dict]:
    """Return a prediction for each text, or for each pair with a tab in it, in order.

    With `unlike_training`, the share of texts like the training texts that may be lost, each also has a `reason`:
    "unlike training", or None. Raises ValueError if it is no share, or the model cannot tell, or a file is damaged.
    """
    check_files(folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))["graph"]
    known = None if unlike_training is None else known_texts(folder, config, unlike_training)
    words = config["answers_for"] == "words"
    linear = linear_model(folder) if config["linear"] else None
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))  # also truncates, and pads
    tokenizer.encode_special_tokens = True  # "[MASK]" in a text is text
    session = session_of(folder / config["file"])
    no_text: dict = {"predicted": None}
    if config["problem_type"] != "regression":
        no_text["probabilities"] = dict.fromkeys(config["id2label"].values())
    inputs: list = texts
    if words:
        inputs = [[config["before_word"] + word for word in text.split()] for text in texts]
    elif config["paired"]:
        inputs = [tuple(text.split("\t", 1)) for text in texts]
    predictions: list[dict] = []
    for start in range(0, len(inputs), 16):
        some = tokenizer.encode_batch(inputs[start : start + 16], words, add_special_tokens=config["special_tokens"])
        fields = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
        feed = {
            name: np.array([getattr(one, fields[name]) for one in some], dtype=np.int64) for name in config["inputs"]
        }
        outputs = [config["answer"], *([] if known is None else ["vectors"])]
        values = [np.asarray(value) for value in session.run(outputs, feed)]
        logits = values[0] if linear is None else pooled(values[0], linear, inputs[start : start + 16])
        answers = [prediction(config, *each) for each in zip(some, logits, strict=True)]
        if known is not None and unlike_training is not None:
            answers = with_reasons(answers, novelty(values[1], known), threshold(known["held_out"], unlike_training))
        predictions += answers
    if config["answers_for"] == "texts":  # nothing can be predicted for a blank one
        no_text |= {} if known is None else {"reason": None}
        blank = [not all(part.strip() for part in text.split("\t", 1 if config["paired"] else 0)) for text in texts]
        predictions = [no_text if is_blank else each for is_blank, each in zip(blank, predictions, strict=True)]
    return predictions


def check_files(folder: Path) -> None:
    """Raise ValueError if a file is not as it was exported, by the hashes in manifest.json if that is there."""
    manifest = folder / "manifest.json"
    if not manifest.is_file():
        return
    try:
        hashes = dict(json.loads(manifest.read_text(encoding="utf-8"))["sha256"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(f"{manifest} is damaged. Use another copy of the folder") from None
    for name, stated in hashes.items():
        file = folder / name
        if not file.is_file() or sha256(file.read_bytes()).hexdigest() != stated:
            remedy = f"Use another copy; if you changed it yourself, remove {manifest}"
            raise ValueError(f"{file} is damaged: it does not match {manifest.name}. {remedy}")


def session_of(graph: Path) -> onnxruntime.InferenceSession:
    """Return the graph, opened; onnxruntime has threads of its own, and does not read OMP_NUM_THREADS for them."""
    options = onnxruntime.SessionOptions()
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if threads.isdecimal():
        options.intra_op_num_threads = int(threads)  # 0: one for each core
    slower = ["SkipLayerNormFusion"]
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"], disabled_optimizers=slower)


def prediction(config: dict, read: tokenizers.Encoding, logits: np.ndarray) -> dict:
    """Return the prediction of one text from its logits: [classes], or those of each token, [length, classes]."""
    labels = list(config["id2label"].values())
    if config["answers_for"] == "nothing":
        return {"vector": logits[np.array(read.attention_mask) > 0].mean(0).tolist()}
    if config["answers_for"] == "words":
        first = {word: place for place, word in reversed(list(enumerate(read.word_ids))) if word is not None}
        ids = dict(zip(sorted(first), likeliest(config, logits[sorted(first.values())]), strict=True))
        words = range(max(first, default=-1) + 1)  # a text of only control characters has no token
        return {"predicted": [labels[ids[word]] if word in ids else None for word in words]}
    if config["problem_type"] == "regression":
        return {"predicted": float(logits[0])}
    several = config["problem_type"] == "multi_label_classification"
    odds = np.exp(logits - logits.max())
    probabilities = 1 / (1 + np.exp(-logits)) if several else odds / odds.sum()
    chances = dict(zip(labels, probabilities.tolist(), strict=True))
    least = config.get("thresholds", {})
    predicted = [label for label in labels if chances[label] >= least.get(label, 2)]
    if not several:  # the label that is furthest above its threshold; else the likeliest without one, if there is any
        others = [label for label in labels if label not in least] or labels
        predicted = max(predicted or others, key=lambda label: chances[label] / max(least.get(label, 1), 1e-300))
    return {"predicted": predicted, "probabilities": chances}


def known_texts(folder: Path, config: dict, share: float) -> dict[str, np.ndarray]:
    """Return what tells texts unlike the training texts. Raises ValueError if `share` is none or the model cannot."""
    if not 0 < share < 1:
        raise ValueError(f"unlike_training is {share}, and not a share between 0 and 1, such as 0.05")
    if config["windows"] is not None:
        raise ValueError("unlike_training needs all windows of a text, and this program reads the first one")
    path = folder / "novelty.safetensors"
    if not path.is_file():
        raise ValueError("unlike_training does not work with this model, which has no record of its training texts")
    return arrays_of(path, "whitening", "means", "held_out")


def arrays_of(path: Path, *names: str) -> dict[str, np.ndarray]:
    """Return the arrays of a file of safetensors by their names: a header's length in 8 bytes, the header in JSON, and
    the numbers. Raises ValueError if it is damaged.
    """
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    arrays = {}
    try:
        header = json.loads(content[8:start])
        for name in names:
            shape = header[name]["shape"]
            offset = start + header[name]["data_offsets"][0]
            numbers = NUMBERS[header[name]["dtype"]]
            arrays[name] = np.frombuffer(content, numbers, count=prod(shape), offset=offset).reshape(shape)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    return arrays


def linear_model(folder: Path) -> dict:
    """Return the linear model of a folder: its settings, the column of each n-gram, and its arrays."""
    linear = json.loads((folder / "linear.json").read_text(encoding="utf-8"))
    linear["columns"] = {ngram: column for column, ngram in enumerate(linear["vocabulary"])}
    return linear | arrays_of(folder / "linear.safetensors", "idf", "weights", "intercept")


def pooled(logits: np.ndarray, linear: dict, texts: list) -> np.ndarray:
    """Return the graph's logits pooled with those of the linear model for the same texts or pairs: [texts, outputs]."""
    added = np.array([linear_outputs(linear, text) for text in texts])
    return ((1 - linear["weight"]) * logits + linear["weight"] * added) / linear["temperature"]


def linear_outputs(linear: dict, text: str | tuple[str, ...]) -> np.ndarray:
    """Return the logits of a linear model, or its number, for a text or a pair: [outputs]."""
    texts = (text,) if isinstance(text, str) else text
    if linear["setting"]["compared"]:
        first, second = (tf_idf(linear, each) for each in texts)
        held = compared(first, second, len(linear["columns"]))
    else:
        held = tf_idf(linear, " ".join(texts))
    weights = linear["weights"][list(held)].astype(np.float64)
    return np.array(list(held.values())) @ weights + linear["intercept"]


def compared(first: dict[int, float], second: dict[int, float], n_ngrams: int) -> dict[int, float]:
    """Return the features of two texts: what both hold, what each holds beyond that, and their cosine."""
    both = {column: min(value, second[column]) for column, value in first.items() if column in second}
    features = dict(both)
    for number, held in enumerate((first, second), start=1):
        features |= {number * n_ngrams + column: value - both.get(column, 0) for column, value in held.items()}
    return features | {3 * n_ngrams: sum(first[column] * second[column] for column in both)}


def tf_idf(linear: dict, text: str) -> dict[int, float]:
    """Return the value of each known n-gram of a text by its column; the squares of all add up to 1.

    With n-grams beside others, whose names begin with a blank, those of each kind add up to 1/2.
    """
    setting = linear["setting"]["ngrams"]
    kinds = [("", setting), *([(" ", setting["beside"])] if setting["beside"] else [])]
    features = {}
    for begin, kind in kinds:
        values = {}
        for ngram, count in Counter(ngrams_of(text.lower(), kind)).items():
            column = linear["columns"].get(begin + ngram)
            if column is not None:
                times = 1 + log(count) if kind["sublinear"] else count
                values[column] = times * float(linear["idf"][column])
        length = sqrt(sum(value**2 for value in values.values()) * len(kinds))
        features |= {column: value / length for column, value in values.items()}
    return features


def ngrams_of(text: str, setting: dict) -> Iterator[str]:
    """Yield each n-gram of words, of words and marks, or of the characters of a word between two spaces."""
    lengths = range(setting["shortest"], setting["longest"] + 1)
    if setting["analyzer"] in ITEMS:
        items = re.findall(ITEMS[setting["analyzer"]], text)
        for n in lengths:
            yield from (" ".join(items[start : start + n]) for start in range(len(items) - n + 1))
        return
    for word in text.split():
        padded = f" {word} "
        for n in lengths:
            yield from (padded[start : start + n] for start in range(max(len(padded) - n, 0) + 1))
            if n >= len(padded):  # a short word counts once
                break


def novelty(vectors: np.ndarray, known: dict[str, np.ndarray]) -> np.ndarray:
    """Return how unlike the training texts are texts with these vectors, [texts, width] -> [texts]: the squared
    distance to the mean of the nearest class, where the classes' common covariance is the identity.
    """
    whitened = vectors @ known["whitening"]
    squares = (whitened**2).sum(1)[:, None] - 2 * whitened @ known["means"].T + (known["means"] ** 2).sum(1)
    return squares.min(1)


def threshold(held_out: np.ndarray, share: float) -> float:
    """Return the novelty that this share of texts like the training texts exceeds, by quantiles of held-out ones."""
    return float(np.interp(1 - share, np.linspace(0, 1, len(held_out)), held_out))


def with_reasons(predictions: list[dict], novelties: np.ndarray, most: float) -> list[dict]:
    """Return the predictions with reasons, without a label where the novelty exceeds `most`."""
    return [
        each | ({"predicted": None, "reason": "unlike training"} if value > most else {"reason": None})
        for each, value in zip(predictions, novelties, strict=True)
    ]


def likeliest(config: dict, logits: np.ndarray) -> list[int]:
    """Return the id of each word's label, [words, labels] -> [words].

    If the config has `valid`, they form the likeliest valid sequence (Viterbi 1967): a label that may begin or end a
    sequence, or follow another, has a 1 in it.
    """
    if "valid" not in config or len(logits) == 0:
        return [int(each) for each in logits.argmax(1)]
    valid = config["valid"]
    follows = np.array([log_allowed(flags) for flags in valid["follows"]])
    best = logits[0] + log_allowed(valid["begin"])
    came_from = []
    for word in logits[1:]:
        reached = best[:, None] + follows
        came_from.append(reached.argmax(0))
        best = word + reached.max(0)
    path = [int((best + log_allowed(valid["end"])).argmax())]
    for before in reversed(came_from):
        path.insert(0, int(before[path[0]]))
    return path


def log_allowed(flags: str) -> np.ndarray:
    return np.array([0.0 if flag == "1" else -1e4 for flag in flags])


if __name__ == "__main__":
    given = sys.argv[1:]
    try:
        share = None
        if given and given[0].startswith("--unlike-training="):
            share = float(given.pop(0).partition("=")[2])
        texts = given or [line.rstrip("\r\n") for line in sys.stdin]
        predictions = predict(texts, Path(__file__).parent, share)
    except ValueError as error:
        sys.exit(str(error))
    except (KeyError, TypeError, AttributeError, OSError, RecursionError) as error:
        sys.exit(f"{Path(__file__).parent} is damaged: {error!r}")
    for text, predicted in zip(texts, predictions, strict=True):
        print(json.dumps({"text": text} | predicted, ensure_ascii=False))
