"""Predict with the model in this folder: python predict.py "A text." "One more.", or texts on standard input, one per
line.

Needs numpy, onnxruntime and tokenizers. A tab separates the two texts of a pair. Each prediction is a line of JSON.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import tokenizers


def predict(texts: list[str], folder: Path) -> list[dict]:
    """Return a prediction for each text, or for each pair with a tab in it, in order."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))["graph"]
    words = config["answers_for"] == "words"
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))  # also truncates, and pads
    tokenizer.encode_special_tokens = True  # "[MASK]" in a text is text
    slower = ["SkipLayerNormFusion"]
    graph = folder / config["file"]
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"], disabled_optimizers=slower)
    no_text: dict = {"predicted": None}
    if config["problem_type"] != "regression":
        no_text["probabilities"] = dict.fromkeys(config["id2label"].values())
    inputs: list = texts
    if words:
        inputs = [text.split() for text in texts]
    elif config["paired"]:
        inputs = [tuple(text.split("\t", 1)) for text in texts]
    predictions: list[dict] = []
    for start in range(0, len(inputs), 16):
        some = tokenizer.encode_batch(inputs[start : start + 16], words, add_special_tokens=config["special_tokens"])
        fields = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
        feed = {
            name: np.array([getattr(one, fields[name]) for one in some], dtype=np.int64) for name in config["inputs"]
        }
        predictions += [
            prediction(config, *each)
            for each in zip(some, np.asarray(session.run([config["answer"]], feed)[0]), strict=True)
        ]
    if config["answers_for"] == "texts":  # nothing can be predicted for a blank one
        blank = [not all(part.strip() for part in text.split("\t", 1 if config["paired"] else 0)) for text in texts]
        predictions = [no_text if is_blank else each for is_blank, each in zip(blank, predictions, strict=True)]
    return predictions


def prediction(config: dict, read: tokenizers.Encoding, logits: np.ndarray) -> dict:
    """Return the prediction of one text from its logits: [classes], or those of each token, [length, classes]."""
    labels = list(config["id2label"].values())
    if config["answers_for"] == "nothing":
        return {"vector": logits[np.array(read.attention_mask) > 0].mean(0).tolist()}
    if config["answers_for"] == "words":
        first = {word: place for place, word in reversed(list(enumerate(read.word_ids))) if word is not None}
        words = range(max(first, default=-1) + 1)  # a text of only control characters has no token
        return {"predicted": [labels[logits[first[word]].argmax()] if word in first else None for word in words]}
    if config["problem_type"] == "regression":
        return {"predicted": float(logits[0])}
    several = config["problem_type"] == "multi_label_classification"
    odds = np.exp(logits - logits.max())
    probabilities = 1 / (1 + np.exp(-logits)) if several else odds / odds.sum()
    chances = dict(zip(labels, probabilities.tolist(), strict=True))
    least = config.get("thresholds", {})
    predicted = [label for label in labels if chances[label] >= least.get(label, 2)]
    if not several:  # with two labels, one may have a threshold; below it the other is predicted
        others = [label for label in labels if label not in least]
        predicted = (predicted or others)[0] if least else max(labels, key=lambda label: chances[label])
    return {"predicted": predicted, "probabilities": chances}


if __name__ == "__main__":
    texts = sys.argv[1:] or [line.rstrip("\r\n") for line in sys.stdin]
    for text, predicted in zip(texts, predict(texts, Path(__file__).parent), strict=True):
        print(json.dumps({"text": text} | predicted, ensure_ascii=False))
