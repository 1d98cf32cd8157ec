"""encoderlab export: a run's model as a folder that transformers opens with no code of ours.

Its tokenizer gives the ids that ours gives, also of cut texts, with two exceptions. It takes [MASK] and the like in a text for
the special token, as users of transformers expect, where we never let a text hold one. And of a pair that leaves an odd number
of places, both texts being cut and the second no shorter, it gives the odd place to the second text, and we, as BERT's own code
does, to the first.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import safetensors.torch

from encoderlab.aside import written_aside
from encoderlab.command_settings import ExportConfig
from encoderlab.data.tokenizer import Tokenizer
from encoderlab.errors import DataError, SettingError
from encoderlab.model.huggingface import to_huggingface
from encoderlab.runs.folder import model_folder
from encoderlab.runs.saved_model import SavedModel, read_model

CLASSES = {  # what opens an architecture, by the end of its name
    "ForSequenceClassification": "AutoModelForSequenceClassification",
    "ForTokenClassification": "AutoModelForTokenClassification",
    "ForMaskedLM": "AutoModelForMaskedLM",
    "ForPreTraining": "BertForPreTraining",
    "Model": "AutoModel",
}


def export(config: ExportConfig) -> Path:
    """Write the folder `path`. Raises SettingError where `path` is taken or the model has no equivalent, DataError."""
    path = Path(config.path)
    if not config.path or path.exists():
        wrong = f"path={config.path} is already there" if config.path else "path is empty"
        raise SettingError(wrong, allowed="a new folder", remedy="Choose another name")
    folder = model_folder(config.run)
    saved = read_model(folder)
    said, weights = _as_huggingface(saved)
    card = folder / "README.md"
    text = card.read_text(encoding="utf-8") if card.is_file() else f"# {saved.config.task.name}\n"
    _write(path, said, weights, saved.tokenizer, f"{text}\n{_usage(said)}")
    print(f"{path}\n{_line_that_opens(said, config.path)}")
    return path


def _as_huggingface(saved: SavedModel) -> tuple[dict[str, Any], dict[str, Any]]:
    if not getattr(saved.config.task, "special_tokens", True):
        raise SettingError(
            "The model was trained with task.special_tokens=false, and tokenizers of transformers put [CLS] and [SEP] around words",
            remedy="To export, train with task.special_tokens=true",
        )
    task = saved.config.task.build(saved.tokenizer, saved.labels, saved.config.model.max_length)
    return to_huggingface(
        saved.config.model,
        task.heads,
        saved.weights,
        labels=task.labels,
        vocabulary_size=saved.tokenizer.vocabulary_size,
        pad_id=saved.tokenizer.pad_id,
    )


def _write(path: Path, said: dict[str, Any], weights: dict[str, Any], tokenizer: Tokenizer, card: str) -> None:
    """Write all files; the folder appears whole or not at all. Raises DataError where it cannot be written."""
    try:
        with written_aside(path) as aside:
            aside.mkdir(parents=True)
            _write_json(aside / "config.json", said)
            safetensors.torch.save_file(weights, aside / "model.safetensors", metadata={"format": "pt"})
            tokenizer.save(aside / "tokenizer.json")
            _complete(aside / "tokenizer_config.json", said)
            (aside / "README.md").write_text(card, encoding="utf-8")
    except OSError as error:
        raise DataError(f"path={path} cannot be written: {error.strerror}", remedy="Choose another folder") from None


def _complete(path: Path, said: dict[str, Any]) -> None:
    """Tell transformers' tokenizer how long a sequence may be, and, for DistilBERT, that there are no segments."""
    content = json.loads(path.read_text(encoding="utf-8"))
    content["model_max_length"] = said["max_position_embeddings"]
    if said["model_type"] == "distilbert":
        content["model_input_names"] = ["input_ids", "attention_mask"]
    _write_json(path, content)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _opened_by(said: dict[str, Any]) -> str:
    return next(name for end, name in CLASSES.items() if said["architectures"][0].endswith(end))


def _line_that_opens(said: dict[str, Any], path: str) -> str:
    name = _opened_by(said)
    code = f"from transformers import {name}; print({name}.from_pretrained({json.dumps(path, ensure_ascii=False)}))"
    return f"python -c {shlex.quote(code)}"


def _usage(said: dict[str, Any]) -> str:
    """The part of the model card that shows how transformers uses the model."""
    name = _opened_by(said)
    read = {
        "AutoModelForSequenceClassification": "print(model.config.id2label[int(answer.logits.argmax())])",
        "AutoModelForTokenClassification": "print([model.config.id2label[int(n)] for n in answer.logits[0].argmax(-1)])",
        "AutoModelForMaskedLM": "print(tokenizer.convert_ids_to_tokens(answer.logits[0].argmax(-1)))",
        "BertForPreTraining": "print(tokenizer.convert_ids_to_tokens(answer.prediction_logits[0].argmax(-1)))",
        "AutoModel": "print(answer.last_hidden_state.shape)",
    }[name]
    return (
        "## With transformers\n\n```python\nimport torch\n"
        f"from transformers import {name}, AutoTokenizer\n\n"
        'folder = "path/to/this/folder"\n'
        f"tokenizer, model = AutoTokenizer.from_pretrained(folder), {name}.from_pretrained(folder)\n"
        'inputs = tokenizer("A text to read.", truncation=True, return_tensors="pt")\n'
        f"with torch.inference_mode():\n    answer = model(**inputs)\n{read}\n```\n"
    )
