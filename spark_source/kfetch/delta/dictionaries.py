"""Which columns of a Parquet file get a dictionary. Pure.

A writer tries a dictionary for each column, and gives it up after a mebibyte of different values.
For an offset, that takes longer than to write it, and makes the file larger. So a column whose
first values are nearly all different gets none.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kfetch.delta.columns import value_at
from kfetch.delta.statistics import column_paths, leaves

_ROWS = 10_000
_FEW_ROWS = 1_000
"""So few rows say nothing of those behind them."""
_DIFFERENT = 0.9


def dictionary_columns(rows: pa.RecordBatch) -> list[str]:
    """Returns the paths of the columns that get a dictionary, by the first rows of a file."""
    first = rows.slice(0, _ROWS)
    without = {
        ".".join(leaf.path)
        for leaf in leaves(rows.schema)
        if leaf.type is not None and _nearly_all_different(value_at(first, leaf.path))
    }
    return [path for path in column_paths(rows.schema) if path not in without]


def _nearly_all_different(values: pa.Array[Any]) -> bool:
    filled = len(values) - values.null_count
    return filled >= _FEW_ROWS and pc.count_distinct(values).as_py() > _DIFFERENT * filled
