"""Both record decoders as functions from slices to rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from kfetch import decoding, records
from kfetch.compiled import kernel
from kfetch.records import Columns, Slice
from kfetch.records.faults import UnexplainedFault
from kfetch.records.sections import sections
from tests.kfetch.records import reference

Rows = list[tuple[Any, ...]]
Decode = Callable[..., Rows]


def decode(slices: Sequence[Slice], **how: Any) -> pa.RecordBatch | None:
    """Returns all rows of the slices, in one part. ``how``: as for ``decode_part``."""
    return decoding.decode_part(slices, **how)[0]


class _Reference:
    """The slow decoder with the kernel's functions. It decodes sections alone."""

    decode = staticmethod(reference.decode)

    @staticmethod
    def decode_slices(*_: object, **__: object) -> None:
        raise UnexplainedFault


DECODERS: dict[str, Any] = {"reference": _Reference, "kernel": kernel}
"""What may stand for ``decoding.kernel()``."""


def rows_of(batch: pa.RecordBatch) -> Rows:
    """Returns the rows as tuples; timestamps as microseconds, headers as pairs."""
    times = batch.column("timestamp").cast(pa.int64()).to_pylist()
    batch = batch.drop_columns(["timestamp"])
    rows = []
    for row, time in zip(batch.to_pylist(), times, strict=True):
        headers = row.get("headers")
        pairs = headers and [(h["key"], h["value"]) for h in headers]
        five = (row["key"], row["value"], row["topic"], row["partition"], row["offset"])
        rows.append((*five, time, row["timestampType"], pairs))
    return rows


def decode_with(name: str) -> Decode:
    """Returns a function that decodes slices with one decoder and checks the batch.

    It uses the kernel in both ways, from slices and from sections, and compares the two.
    """
    decode_sections = DECODERS[name].decode

    def decode_to_batch(
        slices: Sequence[Slice], columns: Columns, check_crcs: bool
    ) -> pa.RecordBatch | None:
        in_range = sections(slices, check_crcs=check_crcs)
        batch = decode_sections(in_range, columns=columns) if in_range else None
        if name == "kernel":
            from_slices = kernel.decode_slices(slices, columns=columns, check_crcs=check_crcs)
            assert batch == from_slices
        return batch

    def decode(slices: Sequence[Slice], headers: bool = True, check_crcs: bool = True) -> Rows:
        columns = Columns(headers=headers)
        batch = decode_to_batch(slices, columns, check_crcs)
        if batch is None:
            return []
        batch.validate(full=True)
        assert batch.num_rows > 0
        assert records.schema_of(columns) == batch.schema
        return rows_of(batch)

    return decode
