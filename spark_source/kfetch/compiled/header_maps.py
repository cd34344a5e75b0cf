"""The entries of header maps: each key once in a row, with its last value.

Kafka allows a key twice in a record, and a map of Spark does not. Works on all rows at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from kfetch.records import arrow

Numbers = np.ndarray[Any, Any]


def last_of_each_key(
    lists: pa.Buffer, keys: pa.Array[Any], values: pa.Array[Any]
) -> tuple[pa.Buffer, pa.Array[Any], pa.Array[Any]]:
    """Returns the entries without repeated keys: where each row ends, the keys, and the values.

    A key has the place of its first header in the row, and the value of the last one.
    ``lists``: int32, where the headers of each row end, with 0 in front.
    """
    list_ends: Any = lists
    headers_of_rows: Numbers = np.diff(np.frombuffer(list_ends, np.int32))
    if headers_of_rows.max() < 2:
        return lists, keys, values
    rows = np.repeat(np.arange(len(headers_of_rows), dtype=np.int64), headers_of_rows)
    numbers = rows * len(keys) + _numbers_of(keys)  # the same for the same key in the same row
    _, first = np.unique(numbers, return_index=True)
    if len(first) == len(keys):
        return lists, keys, values
    _, from_end = np.unique(numbers[::-1], return_index=True)
    in_order = np.argsort(first)
    last = len(keys) - 1 - from_end
    kept_of_rows = np.bincount(rows[first], minlength=len(headers_of_rows))
    ends: Any = np.concatenate(([0], np.cumsum(kept_of_rows))).astype(np.int32)
    kept_keys, kept_values = (
        keys.take(_indices(first[in_order])),
        values.take(_indices(last[in_order])),
    )
    return pa.py_buffer(ends), kept_keys, kept_values


def _numbers_of(keys: pa.Array[Any]) -> Numbers:
    """Returns a number below the number of keys for each key, the same for equal keys."""
    encoded: Any = keys.dictionary_encode()
    return np.frombuffer(encoded.indices.buffers()[1], np.int32)[: len(keys)]


def _indices(numbers: Numbers) -> pa.Array[Any]:
    # pa.array(numbers) imports pandas, which takes a second.
    whole: Any = numbers.astype(np.int64)
    return arrow.column(pa.int64(), len(numbers), None, pa.py_buffer(whole))
