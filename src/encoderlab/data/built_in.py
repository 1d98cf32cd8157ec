"""The data sets in the package: queries in 150 intents, articles to pretrain on, and generated brackets and digits."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from encoderlab.data.data import Data
from encoderlab.data.dataset import MAIN_SPLITS, DatasetConfig
from encoderlab.data.documents import Documents, as_documents
from encoderlab.data.examples import Split
from encoderlab.errors import SettingError
from encoderlab.settings import setting

if TYPE_CHECKING:
    from encoderlab.network.config import TargetKind

CLINC150 = Path(__file__).parent / "intents" / "clinc150.parquet"  # licence and origin: LICENSE.md beside it
ARTICLES = Path(__file__).parent / "articles" / "articles.parquet"  # sources and licences: LICENSE.md beside it
HELD_OUT = 0.05  # of the articles, for validation and for testing each; they are stored in random order
BRACKETS = "()[]{}<>"
DIGITS = "0123456789"

_BATCH = 4096  # rows drawn at once
_PATIENCE = 20  # a kind is used up when this many times its number of rows brings nothing new


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of random strings: what messages call them, the letters they consist of, and how they are drawn.

    `draw` returns about as many as it is asked for, as indices in the alphabet: uint8 [rows, length].
    """

    name: str
    alphabet: str
    draw: Callable[[int], np.ndarray]


@dataclass
class IntentsDataset(DatasetConfig):
    """Queries to an assistant in 150 intents, with the official splits of CLINC150 (Larson et al. 2019)."""

    def read(self, cache_dir: Path, target: TargetKind = "label") -> Data:
        """Read the queries from the package; nothing is cached."""
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        table = pq.read_table(CLINC150)
        names = sorted(table["label"].unique().to_pylist())
        ids = pc.index_in(table["label"], value_set=pa.array(names)).cast(pa.int64())
        rows = pa.table({"text": table["text"], "label": ids})
        by_name = {name: Split(rows.filter(pc.equal(table["split"], name))) for name in MAIN_SPLITS}
        return Data(by_name, names, {"source": "CLINC150, official splits, in-scope queries", "license": "CC BY 3.0"})


@dataclass
class ArticlesDataset(DatasetConfig):
    """1.4 million words of English in 2,500 documents: articles, speeches, dialogues, questions; needs no download."""

    def read(self, cache_dir: Path, target: TargetKind = "label") -> Data:
        """Read the documents from the package as texts without labels; nothing is cached."""
        import pyarrow.parquet as pq

        table = pq.read_table(ARTICLES, columns=["text"])
        count = int(len(table) * HELD_OUT)
        parts = {"train": table[2 * count :], "validation": table[:count], "test": table[count : 2 * count]}
        by_name = {name: Split(rows) for name, rows in parts.items()}
        return Data(by_name, [], {"source": "articles shipped with encoderlab", "license": "CC BY-SA 4.0"})

    def read_documents(self, cache_dir: Path) -> Documents:
        """Return each row as a document."""
        return as_documents(self.limited(self.read(cache_dir)))


@dataclass
class GeneratedDataset(DatasetConfig):
    """Random rows: always the same for the same settings, and never twice, within a split or across splits."""

    train_rows: int = setting(24_000, "Rows of the training split.", minimum=1)
    validation_rows: int = setting(4_000, "Rows of the validation split.", minimum=1)
    test_rows: int = setting(4_000, "Rows of the test split.", minimum=1)
    data_seed: int = setting(0, "Seed of the rows; the run's seed does not change them.", minimum=0)

    def read(self, cache_dir: Path, target: TargetKind = "label") -> Data:
        """Draw the rows again at each call, which takes a second.

        The test split is drawn first and the training split last, so that a larger training split leaves the others
        unchanged. Raises SettingError if more rows are wanted than exist.
        """
        import pyarrow as pa

        generator = np.random.default_rng(self.data_seed)
        seen = set[str]()
        columns = {split: self.draw(split, generator, seen) for split in reversed(MAIN_SPLITS)}
        splits = {split: Split(pa.table(columns[split])) for split in MAIN_SPLITS}
        shared = {field.name for field in fields(DatasetConfig)}
        settings = {name: value for name, value in asdict(self).items() if name not in shared}
        return Data(splits, self.label_names(), {"source": "generated", **settings})

    @abstractmethod
    def draw(self, split: str, generator: np.random.Generator, seen: set[str]) -> dict[str, list]:
        """Return the columns of one split, made of strings that are not yet in `seen`, and add them to it."""

    @abstractmethod
    def label_names(self) -> list[str]:
        """Return the names of the labels in the order of their ids."""

    def rows_of(self, split: str) -> int:
        return getattr(self, f"{split}_rows")

    def distinct(self, count: int, kind: Kind, split: str, seen: set[str]) -> list[str]:
        """Return `count` strings of a kind that are not in `seen`, and add them; SettingError if there are fewer."""
        texts: list[str] = []
        in_vain = 0
        letters = np.frombuffer(kind.alphabet.encode("ascii"), np.uint8)
        while len(texts) < count and in_vain <= _PATIENCE * max(len(seen), _BATCH):
            symbols = letters[kind.draw(_BATCH)]
            drawn = symbols.view(f"S{symbols.shape[1]}").ravel().astype(str).tolist()
            new = [text for text in dict.fromkeys(drawn) if text not in seen][: count - len(texts)]
            texts += new
            seen.update(new)
            in_vain = 0 if new else in_vain + _BATCH
        if len(texts) < count:
            requested = f"dataset.{split}_rows={self.rows_of(split)}"
            problem = f"There are not enough {kind.name} for {requested}: it needs {count:,}"
            allowed = f"at most {len(texts):,} besides those of the other splits"
            remedy = f"Set a smaller dataset.{split}_rows, or make sequences longer (dataset.pairs, dataset.length)"
            raise SettingError(problem, allowed=allowed, remedy=remedy)
        return texts


@dataclass
class BracketsDataset(GeneratedDataset):
    """Is a string of brackets balanced? Half of the rows are.

    Balanced strings are drawn uniformly from all possible ones. Easy negatives are random unbalanced strings of
    brackets; hard ones become balanced when two characters change places. Of 10 pairs of one kind there are 16,796
    balanced strings (a Catalan number), which bounds the rows.
    """

    pairs: int = setting(10, "Pairs of brackets: a text has twice as many characters.", minimum=1)
    kinds: int = setting(1, "Kinds of brackets, out of ( [ { <.", minimum=1, maximum=len(BRACKETS) // 2)
    hard_negatives: float = setting(
        0.0, "Share of the unbalanced strings that are one swap away from balanced.", minimum=0, maximum=1
    )

    def label_names(self) -> list[str]:
        return ["unbalanced", "balanced"]

    def draw(self, split: str, generator: np.random.Generator, seen: set[str]) -> dict[str, list]:
        rows = self.rows_of(split)
        n_balanced = rows // 2
        n_hard = round((rows - n_balanced) * self.hard_negatives)

        def balanced(rows: int) -> np.ndarray:
            return uniform_balanced(rows, self.pairs, self.kinds, generator)

        def hard(rows: int) -> np.ndarray:
            symbols = balanced(rows)
            every = np.arange(rows)
            left, right = generator.integers(2 * self.pairs, size=(2, rows))
            symbols[every, left], symbols[every, right] = symbols[every, right], symbols[every, left]
            return symbols[~is_balanced(symbols)]

        def easy(rows: int) -> np.ndarray:
            symbols = generator.integers(2 * self.kinds, size=(rows, 2 * self.pairs), dtype=np.uint8)
            return symbols[~is_balanced(symbols)]

        texts = self.distinct(n_balanced, Kind("balanced strings", BRACKETS, balanced), split, seen)
        texts += self.distinct(n_hard, Kind("unbalanced (hard) strings", BRACKETS, hard), split, seen)
        texts += self.distinct(rows - n_balanced - n_hard, Kind("unbalanced strings", BRACKETS, easy), split, seen)
        order = generator.permutation(rows).tolist()
        return {"text": [texts[row] for row in order], "label": [int(row < n_balanced) for row in order]}


@dataclass
class ReverseDataset(GeneratedDataset):
    """Label every digit of a sequence with the digit at its position in the reversed sequence."""

    train_rows: int = setting(50_000, "Rows of the training split.", minimum=1)
    validation_rows: int = setting(5_000, "Rows of the validation split.", minimum=1)
    test_rows: int = setting(5_000, "Rows of the test split.", minimum=1)
    length: int = setting(8, "Digits of a sequence.", minimum=1)
    digits: int = setting(10, "Different digits: 0 to this number minus one.", minimum=1, maximum=len(DIGITS))

    def label_names(self) -> list[str]:
        return list(DIGITS[: self.digits])

    def draw(self, split: str, generator: np.random.Generator, seen: set[str]) -> dict[str, list]:
        def drawn(rows: int) -> np.ndarray:
            return generator.integers(self.digits, size=(rows, self.length), dtype=np.uint8)

        texts = self.distinct(self.rows_of(split), Kind("different sequences", DIGITS, drawn), split, seen)
        labels = [[int(digit) for digit in text[::-1]] for text in texts]
        return {"words": [list(text) for text in texts], "labels": labels}


def uniform_balanced(rows: int, pairs: int, kinds: int, generator: np.random.Generator) -> np.ndarray:
    """Return balanced strings drawn uniformly from all Catalan(pairs) * kinds**pairs: indices in `BRACKETS`, uint8
    [rows, 2 pairs].

    From left to right: with `left` characters remaining and `depth` brackets open, the next one opens with probability
    (depth + 2) (left - depth) / (2 left (depth + 1)). Source: Arnold and Sleep, Uniform random generation of balanced
    parenthesis strings, ACM TOPLAS 2(1), 1980, section 2.
    """
    symbols = np.empty((rows, 2 * pairs), np.uint8)
    open_kinds = np.empty((rows, pairs + 1), np.uint8)  # for each row, a stack of `depth` kinds
    depth = np.zeros(rows, np.int64)
    every = np.arange(rows)
    for place in range(2 * pairs):
        left = 2 * pairs - place
        opens = generator.random(rows) * 2 * left * (depth + 1) < (depth + 2) * (left - depth)
        top = np.where(opens, depth, depth - 1)
        open_kinds[every, top] = np.where(opens, generator.integers(kinds, size=rows), open_kinds[every, top])
        symbols[:, place] = 2 * open_kinds[every, top] + ~opens
        depth += np.where(opens, 1, -1)
    return symbols


def is_balanced(symbols: np.ndarray) -> np.ndarray:
    """Return whether each row of indices in `BRACKETS`, uint8 [rows, length], is balanced: bool [rows]."""
    rows, length = symbols.shape
    open_kinds = np.zeros((rows, length + 1), np.uint8)
    depth = np.zeros(rows, np.int64)
    right = np.ones(rows, bool)
    every = np.arange(rows)
    for place in range(length):
        kind = symbols[:, place] // 2
        closes = symbols[:, place] % 2 == 1
        right &= ~closes | ((depth > 0) & (open_kinds[every, depth - 1] == kind))
        open_kinds[every, depth] = kind
        depth = np.maximum(depth + np.where(closes, -1, 1), 0)
    return right & (depth == 0)
