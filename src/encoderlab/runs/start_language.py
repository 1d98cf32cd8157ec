"""Whether an encoder reads the languages of a run's texts, or their scripts where py3langid is not installed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from encoderlab.config.commands import RunConfig
from encoderlab.data.corpus import Corpus
from encoderlab.metrics.languages import UNCLEAR, languages, scripts
from encoderlab.runs.summary import start_metadata

MOST_TEXTS = 500  # spread evenly over the training rows
MANY_FOREIGN = 0.05  # of the texts: of eleven English sets, none had more than 0.8% that seemed foreign
SHOWN = 0.01  # share of a language that is named
# Scripts of languages that are not written in Latin letters, by ISO 639's codes of two letters.
SCRIPTS = {
    **dict.fromkeys(("ru", "uk", "bg", "sr", "be", "mk", "kk"), "Cyrillic"),
    **dict.fromkeys(("ar", "fa", "ur"), "Arabic"),
    **dict.fromkeys(("hi", "mr", "ne"), "Devanagari"),
    **{"zh": "Han", "ja": "Japanese", "ko": "Hangul", "el": "Greek", "he": "Hebrew", "th": "Thai", "bn": "Bengali"},
}
MULTILINGUAL = "init_from=distilbert/distilbert-base-multilingual-cased"


@dataclass(frozen=True, slots=True)
class TrainingLanguages:
    """The `shares` of training texts in each language, by ISO 639's code, or in each script, the largest first.

    `kind` says which of the two; `of_encoder` is what the encoder reads that the run starts from.
    """

    kind: str
    shares: Mapping[str, float]
    of_encoder: str
    encoder: str  # its name

    @property
    def warning(self) -> str:
        """Return that many texts are not in the encoder's language, and what to start from; "" if few are."""
        # Texts whose language is unclear are no reason to warn.
        foreign = {}
        for name, share in self.shares.items():
            if name not in (UNCLEAR, self.of_encoder):
                foreign[name] = share

        # Some foreign texts are in every set of texts, and detection errs, too.
        total = sum(foreign.values())
        if total < MANY_FOREIGN:
            return ""
        named = ", ".join(f"{name} {share:.0%}" for name, share in foreign.items() if share >= SHOWN)
        unclear = self.shares.get(UNCLEAR, 0.0)
        named += f" (unclear: {unclear:.0%})" if unclear >= SHOWN else ""
        remedy = f"start from an encoder that reads them, such as {MULTILINGUAL}, or run encoderlab train"
        where = f"the {self.kind.removesuffix('s')} of {self.encoder} ({self.of_encoder})"
        return f"{total:.0%} of the training texts are not in {where}: {named}. For these, {remedy}"


def training_languages(config: RunConfig, data: Corpus) -> TrainingLanguages | None:
    """Return in which languages or scripts the training rows are; None if the run starts from no encoder whose card
    states one language, or its rows are no texts in a language.
    """
    encoder = config.starts_from or ""
    stated = start_metadata(encoder).get("language")
    if stated is None or config.task.of_documents or config.tokenizer.of_symbols:
        return None

    # A sample from all parts of the rows is enough for shares of some percent.
    texts = list(data.split("train").evenly(MOST_TEXTS).texts())
    shares = languages(texts)
    if shares is not None:
        return TrainingLanguages("languages", shares, stated, encoder)

    # Without py3langid, scripts can still tell Russian texts from English ones.
    return TrainingLanguages("scripts", scripts(texts), SCRIPTS.get(stated, "Latin"), encoder)
