"""The part of an exported Hugging Face folder's README.md that shows how to use it, and the line that opens the folder."""

from __future__ import annotations

import json
import shlex
from typing import Any

CLASSES = {  # the class that opens an architecture, by the end of its name
    "ForSequenceClassification": "AutoModelForSequenceClassification",
    "ForTokenClassification": "AutoModelForTokenClassification",
    "ForMaskedLM": "AutoModelForMaskedLM",
    "ForPreTraining": "BertForPreTraining",
    "Model": "AutoModel",
}

READ_SEQUENCE = {
    "single_label_classification": "print(model.config.id2label[int(output.logits.argmax())])",
    "two_labels": (
        "label, threshold = next(iter(model.config.thresholds.items()))\nindex = model.config.label2id[label]\n"
        "probability = float(output.logits.softmax(-1)[0, index])\n"
        "print(model.config.id2label[index if probability >= threshold else 1 - index])"
    ),
    "multi_label_classification": (
        "probabilities = zip(model.config.id2label.values(), output.logits[0].sigmoid().tolist())\n"
        "print([label for label, probability in probabilities if probability >= model.config.thresholds[label]])"
    ),
    "regression": "print(float(output.logits))",
}


def _opened_by(fields: dict[str, Any]) -> str:
    return next(name for end, name in CLASSES.items() if fields["architectures"][0].endswith(end))


def line_that_opens(fields: dict[str, Any], path: str) -> str:
    """Return a command line that opens the folder `path` in transformers."""
    name = _opened_by(fields)
    code = f"from transformers import {name}; print({name}.from_pretrained({json.dumps(path, ensure_ascii=False)}))"
    return f"python -c {shlex.quote(code)}"


def huggingface_card(fields: dict[str, Any]) -> str:
    """Return the section about transformers; `fields` is the content of the folder's config.json."""
    name, problem = _opened_by(fields), fields.get("problem_type", "single_label_classification")
    problem = "two_labels" if problem == "single_label_classification" and "thresholds" in fields else problem
    read = {
        "AutoModelForSequenceClassification": READ_SEQUENCE[problem],
        "AutoModelForTokenClassification": "print([model.config.id2label[int(n)] for n in output.logits[0].argmax(-1)])",
        "AutoModelForMaskedLM": "print(tokenizer.convert_ids_to_tokens(output.logits[0].argmax(-1)))",
        "BertForPreTraining": "print(tokenizer.convert_ids_to_tokens(output.prediction_logits[0].argmax(-1)))",
        "AutoModel": "print(output.last_hidden_state.shape)",
    }[name]
    return (
        "## With transformers\n\n```python\nimport torch\n"
        f"from transformers import {name}, AutoTokenizer\n\n"
        'folder = "path/to/this/folder"\n'
        f"tokenizer, model = AutoTokenizer.from_pretrained(folder), {name}.from_pretrained(folder)\n"
        'inputs = tokenizer("A text to read.", truncation=True, return_tensors="pt")\n'
        f"with torch.inference_mode():\n    output = model(**inputs)\n{read}\n```\n"
    )
