"""The data sets in the package: a task, to which of 150 intents a query belongs, and articles to pretrain on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from encoderlab.data.dataset import DatasetConfig
from encoderlab.data.documents import Documents, as_documents
from encoderlab.data.examples import Split, Splits

if TYPE_CHECKING:
    from encoderlab.batch import TargetKind

CLINC150 = Path(__file__).parent / "intents" / "clinc150.parquet"  # licence and origin: LICENSE.md beside it
ARTICLES = Path(__file__).parent / "articles" / "articles.parquet"  # sources and licences: LICENSE.md beside it
HELD_OUT = 0.05  # of the articles, for validation and for testing each; they are stored in random order
SPLITS = ("train", "validation", "test")


@dataclass
class IntentsDataset(DatasetConfig):
    """Queries to an assistant in 150 intents, with the official splits of CLINC150 (Larson et al. 2019)."""

    def read(self, cache_dir: Path, target: TargetKind = "label") -> Splits:
        """Read the queries from the package; nothing is cached."""
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        table = pq.read_table(CLINC150)
        names = sorted(table["label"].unique().to_pylist())
        ids = pc.index_in(table["label"], value_set=pa.array(names)).cast(pa.int64())
        rows = pa.table({"text": table["text"], "label": ids})
        by_name = {name: Split(rows.filter(pc.equal(table["split"], name))) for name in SPLITS}
        origin = {"source": "CLINC150, official splits, in-scope queries", "license": "CC BY 3.0"}
        return Splits(by_name, names, origin)


@dataclass
class ArticlesDataset(DatasetConfig):
    """1.4 million words of English in 2,500 documents: articles, speeches, dialogues, questions; needs no download."""

    def read(self, cache_dir: Path, target: TargetKind = "label") -> Splits:
        """Read the documents from the package as texts without labels; nothing is cached."""
        import pyarrow.parquet as pq

        table = pq.read_table(ARTICLES, columns=["text"])
        count = int(len(table) * HELD_OUT)
        by_name = {
            "train": Split(table.slice(2 * count)),
            "validation": Split(table.slice(0, count)),
            "test": Split(table.slice(count, count)),
        }
        return Splits(by_name, [], {"source": "articles shipped with encoderlab", "license": "CC BY-SA 4.0"})

    def read_documents(self, cache_dir: Path) -> Documents:
        """Return each row as a document."""
        return as_documents(self.limited(self.read(cache_dir)))
