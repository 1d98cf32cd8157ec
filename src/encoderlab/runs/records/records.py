"""What a run records before it starts: its settings and its environment.

A run begins with its config.yaml, the last of its records: a folder without one counts as empty.
"""

import json
from collections.abc import Mapping

import yaml

from encoderlab.config.commands import CommandConfig
from encoderlab.config.schemas import settings_to_dict
from encoderlab.runs.corpora.corpus import Corpus
from encoderlab.runs.corpora.document_corpus import DocumentCorpus
from encoderlab.runs.folder import RunFolder
from encoderlab.runs.records.environment import environment
from encoderlab.system.device import Compute
from encoderlab.system.files import atomic_write_text

CONTINUED = ("argv", "versions", "hardware", "git_commit")


def record_start(
    folder: RunFolder,
    command: str,
    config: CommandConfig,
    compute: Compute,
    corpus: Corpus | DocumentCorpus | None = None,
    beside: Mapping[str, str] | None = None,
) -> None:
    """Write environment.json and then config.yaml, every setting with its final value: with that file a run has begun.

    `beside` are the fingerprints of files it reads besides the corpus, by the setting that names them.
    For a resumed run, environment.json keeps what it was started with, and records under `continued` what it resumes
    with.
    """
    found = environment(command, compute, corpus)
    found |= {"files": dict(beside)} if beside else {}
    if folder.is_nested:  # the command line is that of the surrounding run
        found["overrides"] = None
    if folder.config.is_file():
        started = json.loads(folder.environment.read_text(encoding="utf-8"))
        found = started | {"continued": [*started.get("continued", []), {key: found[key] for key in CONTINUED}]}
    atomic_write_text(folder.environment, json.dumps(found, indent=2, ensure_ascii=False, default=str) + "\n")
    atomic_write_text(folder.config, yaml.safe_dump(settings_to_dict(config), sort_keys=False, allow_unicode=True))
