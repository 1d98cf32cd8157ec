"""The part of an exported ONNX folder's README.md that shows how to use it with only onnxruntime and tokenizers."""

from __future__ import annotations

from typing import Any

BEGIN = """\
import json
from pathlib import Path

import numpy as np
import onnxruntime
import tokenizers

folder = Path("path/to/this/folder")
config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))  # it also truncates, and pads to the longest
tokenizer.encode_special_tokens = True  # "[MASK]" in a text is text
session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])


def run(encoded):
    columns = {
        "input_ids": [one.ids for one in encoded],
        "attention_mask": [one.attention_mask for one in encoded],
        "token_type_ids": [one.type_ids for one in encoded],
    }
    feed = {name: np.array(columns[name], dtype=np.int64) for name in config["inputs"]}
    return dict(zip(config["outputs"], session.run(config["outputs"], feed)))


"""
OF_TEXTS = """\
texts = {texts}
logits = run(tokenizer.encode_batch(texts))["{logits}"]
odds = np.exp(logits - logits.max(-1, keepdims=True))
probabilities = odds / odds.sum(-1, keepdims=True)
for text, row in zip(texts, probabilities):
    print(json.dumps({{"text": text, "predicted": config["id2label"][str(row.argmax())], "probability": float(row.max())}}))
"""
OF_TWO = """\
texts = {texts}
logits = run(tokenizer.encode_batch(texts))["{logits}"]
odds = np.exp(logits - logits.max(-1, keepdims=True))
((label, least),) = config["thresholds"].items()
place = config["label2id"][label]
for text, chance in zip(texts, (odds / odds.sum(-1, keepdims=True))[:, place]):
    predicted = config["id2label"][str(place if chance >= least else 1 - place)]
    print(json.dumps({{"text": text, "predicted": predicted, "probability of " + label: float(chance)}}))
"""
OF_SETS = """\
texts = {texts}
chances = 1 / (1 + np.exp(-run(tokenizer.encode_batch(texts))["{logits}"]))
least = np.array([config["thresholds"][config["id2label"][str(label)]] for label in range(chances.shape[1])])
for text, row in zip(texts, chances):
    predicted = [config["id2label"][str(label)] for label in np.flatnonzero(row >= least)]
    print(json.dumps({{"text": text, "predicted": predicted}}))
"""
OF_NUMBERS = """\
texts = {texts}
for text, row in zip(texts, run(tokenizer.encode_batch(texts))["{logits}"]):
    print(json.dumps({{"text": text, "predicted": float(row[0])}}))
"""
OF_WORDS = """\
texts = ["A text to read", "Another one"]
encoded = tokenizer.encode_batch([text.split() for text in texts], is_pretokenized=True, add_special_tokens={special})
logits = run(encoded)["logits"]
for text, one, row in zip(texts, encoded, logits):
    first_piece = {{}}  # of each word: the one that predicts its label
    for place, word in enumerate(one.word_ids):
        if word is not None:
            first_piece.setdefault(word, place)
    predicted = [config["id2label"][str(row[place].argmax())] for place in first_piece.values()]
    print(json.dumps({{"text": text, "predicted": " ".join(predicted)}}))
"""
OF_VECTORS = """\
texts = ["A text to read.", "Another one."]
for text, vectors in zip(texts, run(tokenizer.encode_batch(texts))["last_hidden_state"]):
    print(json.dumps({"text": text, "vector of the first token": vectors[0].tolist()}))
"""


def onnx_card(fields: dict[str, Any], *, paired: bool | None) -> str:
    """Return the section about ONNX; `fields` is the folder's config.json, and `paired` tells whether the model reads pairs."""
    return (
        f"## With onnxruntime\n\nmodel.onnx (opset {fields['opset']}) takes batches of any size, with up to {fields['max_length']} "
        f"tokens per row. Its outputs were compared with the model's own on batches of several sizes and lengths; they are off by "
        f"{fields['largest_difference']:.1e} of the largest (at most {fields['tolerance']:g} is allowed). "
        "Required: `pip install onnxruntime tokenizers`.\n\n"
        f"```python\n{BEGIN}{_answers(fields, paired)}```\n"
    )


def _answers(fields: dict[str, Any], paired: bool | None) -> str:
    """Return the part of the example that differs between models."""
    texts = '[("A text.", "And another."), ("One more.", "The last.")]' if paired else '["A text to read.", "Another one."]'
    if fields["answers_for"] == "words":
        return OF_WORDS.format(special=fields["special_tokens"])
    if fields["answers_for"] == "texts":
        by_problem = {"multi_label_classification": OF_SETS, "regression": OF_NUMBERS}
        of_classes = OF_TWO if "thresholds" in fields else OF_TEXTS
        return by_problem.get(fields["problem_type"], of_classes).format(texts=texts, logits=fields["outputs"][-1])
    return OF_VECTORS
