"""Bytes that others wrote: both decoders read from them what their writer's own reader does.

How they were made: tests/vectors/README.md.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kfetch.records import Columns, Slice
from kfetch.records.batch import iter_batches
from kfetch.records.sections import sections
from tests.kfetch.decoders import DECODERS, rows_of
from tests.kfetch.records.batch_builder import TP

VECTORS = Path(__file__).parents[2] / "vectors"
FILES = sorted(VECTORS.glob("*/*.bin"))


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def test_there_are_vectors() -> None:
    """The files are there: all formats, all codecs."""
    names = {file.stem for file in FILES if file.parent.name == "java"}

    codecs = ("none", "gzip", "snappy", "lz4")
    expected = {f"v{magic}-{codec}" for magic in (0, 1, 2) for codec in codecs}
    expected |= {"v2-zstd", "mixed", "v2-empty", "v1-lz4-append", "v0-lz4-compacted"}
    assert expected <= names


@pytest.mark.parametrize("client", ["librdkafka", "kafka-python"])
def test_vectors_of_clients(client: str) -> None:
    """Each client's file holds what its name says: every codec's number stands in a batch."""
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    files = [VECTORS / client / f"{codec}.bin" for codec in codecs]

    codec_numbers = [
        {batch.header.codec for batch in iter_batches(memoryview(f.read_bytes()))} for f in files
    ]
    assert [{number} for number in range(len(codecs))] == codec_numbers


@pytest.mark.parametrize("name", ["reference", "kernel"])
@pytest.mark.parametrize("file", FILES, ids=[f"{f.parent.name}-{f.stem}" for f in FILES])
def test_vector(file: Path, name: str) -> None:
    """Every row, with its leader epoch, as the writer's own reader saw it."""
    rows = [json.loads(line) for line in file.with_suffix(".jsonl").read_text().splitlines()]
    data = memoryview(file.read_bytes())
    in_range = sections([Slice(tp=TP, start=0, end=2**62, data=data)], check_crcs=True)
    batch = DECODERS[name].decode(in_range, columns=Columns(headers=True, leader_epoch=True))

    assert batch is not None
    assert [
        (_bytes(r["key"]), _bytes(r["value"]), *TP, r["offset"], r["timestamp"] * 1000, r["type"],
         [(key, _bytes(value)) for key, value in r["headers"]] or None)
        for r in rows
    ] == rows_of(batch)  # fmt: skip
    epochs = [None if r["epoch"] < 0 else r["epoch"] for r in rows]
    assert epochs == batch.column("leaderEpoch").to_pylist()
