"""encoderlab tokenizer: trains a tokenizer, shows how it splits a text, and compares vocabularies on the same texts."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import asdict
from pathlib import Path

from encoderlab.config.preparation_settings import TableFormat, TokenizerCommandConfig
from encoderlab.config.schemas import settings_to_dict
from encoderlab.data.inspection.cutting import cutting_of, first_words
from encoderlab.data.tokenizers.tokenizer import Tokenizer
from encoderlab.errors import DataError, SettingError
from encoderlab.reports.screens.vocabulary import show_cuttings, show_pieces
from encoderlab.runs.corpora.vocabularies import open_tokenizer, texts_by_split
from encoderlab.runs.models.assembly import cache_folder
from encoderlab.system.atomic_files import atomic_write

COUNTED_WORDS = 1_000_000  # more would not change the figures shown


def tokenizer(config: TokenizerCommandConfig) -> None:
    """Train or open the tokenizer, print how it and others split held-out texts, and write it. Raises SettingError,
    DataError.
    """
    if config.output is not None and (not config.output or Path(config.output).exists()):
        wrong = f"output={config.output} already exists" if config.output else "output is empty"
        raise SettingError(wrong, allowed="a new folder", remedy="Choose another name")
    compared = {name: open_tokenizer(name) for name in config.compare or []}
    cache = cache_folder(config.cache_dir)
    texts = texts_by_split(config.dataset, cache)
    made = config.tokenizer.build(texts["train"], cache)
    split = "validation" if "validation" in texts else "train"
    counted = first_words(texts[split](), COUNTED_WORDS)
    if not counted:
        raise DataError(f"The {split} split has no words to tokenize", remedy="Use more rows, or another dataset")
    _show(config, {_name(config): made} | compared, split, counted)
    if config.output is not None:
        _write(made, config.output)


def _name(config: TokenizerCommandConfig) -> str:
    """Return the name of the configured tokenizer in the table."""
    return getattr(config.tokenizer, "name", None) or settings_to_dict(config.tokenizer)["schema"]


def _show(config: TokenizerCommandConfig, tokenizers: dict[str, Tokenizer], split: str, counted: list[str]) -> None:
    """Print the figures, and the tokens of `text`, on standard output, because they are the result of the command."""
    figures = {name: asdict(cutting_of(one, counted)) for name, one in tokenizers.items()}
    cuts = {name: _pieces(one, config.text) for name, one in tokenizers.items()} if config.text is not None else {}
    words = sum(len(text.split()) for text in counted)
    if config.format is TableFormat.table:
        show_cuttings(figures, f"{words:,} words in {len(counted):,} texts of the {split} split", sys.stdout)
        show_pieces(cuts, sys.stdout)
        return
    found = {"split": split, "texts": len(counted), "words": words, "tokenizers": figures}
    if config.text is not None:
        found |= {
            "text": config.text,
            "pieces": {name: [{"piece": p, "id": i} for p, i in cut] for name, cut in cuts.items()},
        }
    print(json.dumps(found, indent=2, ensure_ascii=False))


def _pieces(one: Tokenizer, text: str) -> list[tuple[str, int]]:
    ids = one.encode([text])[0]
    return list(zip(one.pieces(ids), ids, strict=True))


def _write(made: Tokenizer, output: str) -> None:
    """Write the tokenizer to a new folder, and print how to use it."""
    try:
        with atomic_write(Path(output)) as temporary:
            made.save(temporary / "tokenizer.json")
    except OSError as error:
        raise DataError(
            f"output={output} cannot be written: {error.strerror}", remedy="Choose another folder"
        ) from None
    print(
        f"Written to {output}. To use it: tokenizer=pretrained {shlex.quote(f'tokenizer.name={output}')}",
        file=sys.stderr,
    )
