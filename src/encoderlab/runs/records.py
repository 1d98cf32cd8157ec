"""What a run writes down before it starts: its settings and its environment."""

import json

import yaml

from encoderlab.command_settings import CommandConfig
from encoderlab.config import settings_to_dict
from encoderlab.device import Compute
from encoderlab.runs.corpus import Corpus
from encoderlab.runs.document_corpus import DocumentCorpus
from encoderlab.runs.environment import environment
from encoderlab.runs.folder import RunFolder


def record_start(folder: RunFolder, config: CommandConfig, compute: Compute, corpus: Corpus | DocumentCorpus | None = None) -> None:
    """Write config.yaml, every setting with its final value, and environment.json."""
    settings = yaml.safe_dump(settings_to_dict(config), sort_keys=False, allow_unicode=True)
    folder.config.write_text(settings, encoding="utf-8")
    found = json.dumps(environment(compute, corpus), indent=2, ensure_ascii=False, default=str)
    folder.environment.write_text(found + "\n", encoding="utf-8")
