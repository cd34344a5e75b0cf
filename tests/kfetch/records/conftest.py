"""Every test that asks for ``decode`` runs over both decoders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from kfetch import decoding, records
from kfetch.compiled import kernel
from kfetch.records import Columns, Slice
from kfetch.records.sections import sections

Rows = list[tuple[Any, ...]]
Decode = Callable[..., Rows]


def pytest_report_header() -> str:
    """Say which decoder ``decode`` itself would use."""
    return f"records: {decoding.IMPLEMENTATION}"


def rows_of(batch: pa.RecordBatch) -> Rows:
    """The rows as tuples; timestamps as microseconds, headers as pairs."""
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
    """Slices to rows with one of the decoders; the batch itself is checked on the way.

    The kernel by both of its ways: from slices, and from sections, which tells what is wrong.
    """
    decoder = decoding.decoder(name)

    def both(slices: Sequence[Slice], columns: Columns, check_crcs: bool) -> pa.RecordBatch | None:
        found = sections(slices, check_crcs=check_crcs)
        batch = decoder(found, columns=columns) if found else None
        if name == "kernel":
            straight = kernel.decode_slices(slices, columns=columns, check_crcs=check_crcs)
            assert batch == straight
        return batch

    def decode(slices: Sequence[Slice], headers: bool = True, check_crcs: bool = True) -> Rows:
        columns = Columns(headers=headers)
        batch = both(slices, columns, check_crcs)
        if batch is None:
            return []
        batch.validate(full=True)
        assert batch.num_rows > 0
        assert records.schema_of(columns) == batch.schema
        return rows_of(batch)

    return decode


@pytest.fixture(scope="session", params=["reference", "kernel"])
def decode(request: pytest.FixtureRequest) -> Decode:
    """A decoder that yields rows."""
    return decode_with(request.param)
