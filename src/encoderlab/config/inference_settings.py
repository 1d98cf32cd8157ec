"""The settings of the commands that use a finished run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from encoderlab.config.command_settings import RUN_DIR, OpenRunConfig
from encoderlab.data.files.delimiters import refuse_unusable
from encoderlab.data.files.encodings import refuse_unknown
from encoderlab.data.files.formats import Dialect, Quoting
from encoderlab.encoders.catalogue import SHIPPED
from encoderlab.settings import REQUIRED, Names, setting
from encoderlab.training.config import Precision


class PredictionFormat(Enum):
    """How predictions are written: as a table, one JSON object per line, a Parquet file, or GLUE's submission format."""

    csv = "csv"
    jsonl = "jsonl"
    parquet = "parquet"
    glue = "glue"


@dataclass
class InputConfig(OpenRunConfig):
    """The settings of commands that read a file of new texts."""

    quoting: Quoting = setting(
        Quoting.auto, "What a double quote means in csv and tsv: auto (as trained), double, literal."
    )
    delimiter: str = setting(
        "auto", "What separates cells in csv and tsv: auto (as trained), comma, semicolon, tab, pipe, ..."
    )
    encoding: str = setting(
        "auto", "auto (UTF-8, UTF-16 by its byte-order mark, else Windows-1252), or a name such as latin-1."
    )
    sheet: str | None = setting(None, "The sheet of an Excel file; null: the one that has the columns.")

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_unusable(self.delimiter, "delimiter")
        refuse_unknown(self.encoding, "encoding")

    @property
    def dialect(self) -> Dialect:
        """Return how the file is to be read."""
        return Dialect(self.quoting, self.delimiter, self.encoding, self.sheet)


@dataclass
class PredictConfig(InputConfig):
    """Predict labels or numbers for new texts: one output row per input row, in order."""

    text: str | None = setting(None, "One text to predict.")
    text_pair: str | None = setting(None, "The second text, for a task on pairs.")
    input: str | None = setting(
        None, "File to predict (csv, xlsx, jsonl, parquet, txt, ...); null: lines of standard input.", names=Names.path
    )
    split: str | None = setting(None, "A split of the run's dataset to predict.", names=Names.split)
    text_column: str | None = setting(
        None, "Column of `input` that holds the text; null: the one the run was trained on."
    )
    text_pair_column: str | None = setting(None, "Column of `input` that holds the second text; null: as trained.")
    output: str | None = setting(
        None,
        "File to write; null: standard output. With format=glue also a folder, which gets GLUE's own file names.",
        names=Names.path,
    )
    format: PredictionFormat | None = setting(
        None, "csv, jsonl, parquet, or glue (for GLUE's server); null: by the extension of output, otherwise csv."
    )
    top_k: int | None = setting(
        None,
        "Write only this many of the most probable classes instead of all (for each word, if words are labelled).",
        least=1,
    )
    min_probability: float | None = setting(
        None, "Give no label below this probability; `unsure` is written instead.", least=0, most=1
    )
    unsure: str | None = setting(
        None,
        "What to write instead of a label below min_probability; null: nothing (in csv an empty cell), and _ for a word.",
    )


@dataclass
class ServeConfig(OpenRunConfig):
    """Serve a finished run over HTTP on this machine, with a web page to try it."""

    host: str = setting(
        "127.0.0.1", "Address to listen on; 127.0.0.1 is reachable from this machine only, 0.0.0.0 from others too."
    )
    port: int = setting(8000, "Port to listen on; 0: any free port.", least=0, most=65535)
    max_texts: int = setting(100, "Most texts, or pairs, in one request.", least=1, most=10_000)
    max_characters: int = setting(10_000, "Most characters in each text.", least=1, most=1_000_000)


@dataclass
class AttentionConfig(OpenRunConfig):
    """Plot attention maps: one figure per layer, and the arrays."""

    text: str | None = setting(None, "One text to read.")
    text_pair: str | None = setting(None, "The second text, for a task on pairs.")
    split: str | None = setting(
        None, "A split of the run's dataset to take rows from; null: validation.", names=Names.split
    )
    rows: list[int] | None = setting(
        None, "Rows of the split to read, such as [0,7], counted from 0; null: the first row."
    )
    run_dir: str | None = setting(None, RUN_DIR, names=Names.folder)


class ImportanceMethod(Enum):
    """How the importance of a token is computed; see `runs.inference.importance`."""

    both = "both"
    gradient = "gradient"
    occlusion = "occlusion"


@dataclass
class ExplainConfig(OpenRunConfig):
    """Show which words support a prediction, and which count against it: on screen, and as a page."""

    text: str | None = setting(None, "One text to explain the prediction for.")
    text_pair: str | None = setting(None, "The second text, for a task on pairs.")
    split: str | None = setting(
        None, "A split of the run's dataset to take rows from; null: validation.", names=Names.split
    )
    rows: list[int] | None = setting(
        None, "Rows of the split to explain, such as [0,7], counted from 0; null: the first row."
    )
    label: str | None = setting(None, "The class to explain; null: the most probable one.")
    word: int | None = setting(
        None, "If words are labelled, the word to explain, counted from 0; null: the first.", least=0, most=1048575
    )
    method: ImportanceMethod = setting(ImportanceMethod.both, "gradient (times input), occlusion (slower), or both.")
    precision: Precision = setting(
        Precision.fp32, "Precision of the matrix products: fp32 (exact), bf16 (faster), or auto."
    )
    run_dir: str | None = setting(None, RUN_DIR, names=Names.folder)


class VectorPooling(Enum):
    """How the vectors of a text's tokens are combined into one."""

    cls = "cls"
    mean = "mean"


@dataclass
class EmbedConfig(InputConfig):
    """Write the encoder's vectors of texts, or of their tokens, as a NumPy array with an index."""

    run: str = setting(
        SHIPPED,
        "The encoder: a name from encoderlab list encoders, a run folder, its model/ folder or a Hugging Face folder.",
        names=Names.encoder,
    )
    input: str | None = setting(
        None, "File of texts (csv, xlsx, jsonl, parquet, txt, ...); null: lines of standard input.", names=Names.path
    )
    split: str | None = setting(None, "A split of the run's dataset.", names=Names.split)
    text_column: str | None = setting(
        None, "Column of `input` that holds the text; null: the one the run was trained on."
    )
    text_pair_column: str | None = setting(
        None, "Column of `input` that holds the second text; null: as trained, or none if text_column is set."
    )
    output: str = setting(
        REQUIRED, "The .npy file to write; the index is written next to it, as .index.jsonl.", names=Names.path
    )
    pooling: VectorPooling = setting(VectorPooling.mean, "The vector of a text: mean of its tokens' vectors, or cls.")
    tokens: bool = setting(False, "Write a vector for each token instead of one for each text.")
    normalize: bool = setting(False, "Scale each vector to length 1.")
    precision: Precision = setting(
        Precision.fp32, "Precision of the matrix products: fp32 (exact), bf16 (faster), or auto."
    )
