"""The built-in task: which of 150 intents does a short query to an assistant have? (CLINC150, shipped in the package)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from encoderlab.data.examples import Split, Splits
from encoderlab.data.sources.dataset import DatasetConfig

if TYPE_CHECKING:
    from encoderlab.batch import TargetKind

CLINC150 = Path(__file__).parent / "intents" / "clinc150.parquet"  # licence and origin: LICENSE.md beside it
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
