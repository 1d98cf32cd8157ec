"""The settings of the commands that ask something of a finished run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from encoderlab.config.command_settings import RUN_DIR, OpenRunConfig
from encoderlab.data.files.delimiters import refuse_unusable
from encoderlab.data.files.encodings import refuse_unknown
from encoderlab.data.files.formats import Dialect, Quoting
from encoderlab.encoders.catalogue import SHIPPED
from encoderlab.settings import REQUIRED, setting
from encoderlab.training.config import Precision


class PredictionFormat(Enum):
    """How predictions are written: a table, a JSON object a line, a Parquet file, or GLUE's submission form."""

    csv = "csv"
    jsonl = "jsonl"
    parquet = "parquet"
    glue = "glue"


@dataclass
class InputConfig(OpenRunConfig):
    """How a file of new texts is read."""

    quoting: Quoting = setting(Quoting.auto, "What a double quote means in csv and tsv: auto (as trained), double, literal.")
    delimiter: str = setting("auto", "What separates cells in csv and tsv: auto (as trained), comma, semicolon, tab, pipe, ...")
    encoding: str = setting("auto", "auto (UTF-8, UTF-16 by its byte-order mark, else Windows-1252), or a name such as latin-1.")
    sheet: str | None = setting(None, "The sheet of an Excel file; null: the one that has the columns.")

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_unusable(self.delimiter, "delimiter")
        refuse_unknown(self.encoding, "encoding")

    @property
    def dialect(self) -> Dialect:
        """How the file is to be read."""
        return Dialect(self.quoting, self.delimiter, self.encoding, self.sheet)


@dataclass
class PredictConfig(InputConfig):
    """Answer for new texts: one row out for each row in, in order."""

    text: str | None = setting(None, "One text to answer for.")
    text_pair: str | None = setting(None, "The second text, for a task on pairs.")
    input: str | None = setting(None, "File to answer for (csv, xlsx, jsonl, parquet, txt, ...); null: lines of standard input.")
    split: str | None = setting(None, "A split of the run's dataset to answer for.")
    text_column: str | None = setting(None, "Column of `input` that holds the text; null: the one the run was trained on.")
    text_pair_column: str | None = setting(None, "Column of `input` that holds the second text; null: as trained.")
    output: str | None = setting(
        None, "File to write; null: standard output. With format=glue also a folder, for files under GLUE's own names."
    )
    format: PredictionFormat | None = setting(
        None, "csv, jsonl, parquet, or glue (for GLUE's server); null: by the ending of output, csv where it says nothing."
    )
    top_k: int | None = setting(
        None, "Write only this many of the most probable classes (of each word, where words are labelled), instead of all.", least=1
    )
    min_probability: float | None = setting(
        None, "Give no label below this probability; `unsure` is written instead.", least=0, most=1
    )
    unsure: str | None = setting(
        None, "What is predicted where the answer is left open; null: nothing (in csv an empty cell), and _ for a word."
    )


@dataclass
class ServeConfig(OpenRunConfig):
    """Try a finished run by hand: a page, and answers over HTTP, on this machine."""

    host: str = setting("127.0.0.1", "Address to listen to; 127.0.0.1 is reached from this machine alone, 0.0.0.0 from any other.")
    port: int = setting(8000, "Port to listen to; 0: any that is free.", least=0, most=65535)
    max_texts: int = setting(100, "Texts, or pairs, that one request may hold.", least=1, most=10_000)
    max_characters: int = setting(10_000, "Characters that each text may have.", least=1, most=1_000_000)


@dataclass
class AttentionConfig(OpenRunConfig):
    """Plot attention maps: one figure per layer, and the arrays."""

    text: str | None = setting(None, "One text to look at.")
    text_pair: str | None = setting(None, "The second text, for a task on pairs.")
    split: str | None = setting(None, "A split of the run's dataset to take rows from; null: validation.")
    rows: list[int] | None = setting(None, "Rows of the split to look at, such as [0,7], counted from 0; null: the first.")
    run_dir: str | None = setting(None, RUN_DIR)


class ImportanceMethod(Enum):
    """How the importance of a token is found; see `runs.inference.importance`."""

    both = "both"
    gradient = "gradient"
    occlusion = "occlusion"


@dataclass
class ExplainConfig(OpenRunConfig):
    """Show which words speak for an answer, and which against it: on the screen, and as a page."""

    text: str | None = setting(None, "One text to explain the answer for.")
    text_pair: str | None = setting(None, "The second text, for a task on pairs.")
    split: str | None = setting(None, "A split of the run's dataset to take rows from; null: validation.")
    rows: list[int] | None = setting(None, "Rows of the split to explain, such as [0,7], counted from 0; null: the first.")
    label: str | None = setting(None, "The class to explain; null: the likeliest one.")
    word: int | None = setting(
        None, "Where words are labelled, the one to explain, counted from 0; null: the first.", least=0, most=1048575
    )
    method: ImportanceMethod = setting(ImportanceMethod.both, "gradient (times input), occlusion (slower), or both.")
    precision: Precision = setting(Precision.fp32, "Format of the matrix products: fp32 (exact), bf16 (faster), or auto.")
    run_dir: str | None = setting(None, RUN_DIR)


class VectorPooling(Enum):
    """How the vectors of a text's tokens become one."""

    cls = "cls"
    mean = "mean"


@dataclass
class EmbedConfig(InputConfig):
    """Write the encoder's vectors of texts, or of their tokens, as a NumPy array with an index."""

    run: str = setting(SHIPPED, "The encoder: one of encoderlab list encoders, a run folder, its model/ or a Hugging Face folder.")
    input: str | None = setting(None, "File of texts (csv, xlsx, jsonl, parquet, txt, ...); null: lines of standard input.")
    split: str | None = setting(None, "A split of the run's dataset.")
    text_column: str | None = setting(None, "Column of `input` that holds the text; null: the one the run was trained on.")
    text_pair_column: str | None = setting(
        None, "Column of `input` that holds the second text; null: as trained, but none where text_column is given."
    )
    output: str = setting(REQUIRED, "The .npy file to write; the index lies beside it, as .index.jsonl.")
    pooling: VectorPooling = setting(VectorPooling.mean, "What stands for a text: mean of its tokens' vectors, or cls.")
    tokens: bool = setting(False, "Write a vector for each token instead of one for each text.")
    normalize: bool = setting(False, "Bring each vector to length 1.")
    precision: Precision = setting(Precision.fp32, "Format of the matrix products: fp32 (exact), bf16 (faster), or auto.")
