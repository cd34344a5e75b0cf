"""The Protobuf decoder against Spark's recorded results for edge cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kfetch.formats.loading import load
from kfetch.formats.protobuf.decoder import ProtobufDecoder
from tests.kfetch.formats.json.plain import plain
from tests.kfetch.formats.protobuf.proto_text import descriptor_set

_FILES = sorted((Path(__file__).parents[3] / "vectors" / "protobuf").glob("*.jsonl"))


def _read(path: Path) -> tuple[dict[str, str], list[bytes], list[Any]]:
    head, *cases = map(json.loads, path.read_text().splitlines())
    return head, [bytes.fromhex(case[0]) for case in cases], [case[1] for case in cases]


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.stem)
def test_the_decoder_gives_the_rows_of_spark(path: Path) -> None:
    """Values, nulls, defaults and refused values are those of from_protobuf (record 103)."""
    head, values, rows = _read(path)
    decoder = ProtobufDecoder(descriptor_set(head["file"]), "t.M", load("protobuf"))
    result = decoder.decode_column(pa.array(values, pa.binary()))
    result.values.validate(full=True)
    actual = plain(result.values)
    for value, expected, row in zip(values, rows, actual, strict=True):
        assert (expected, value.hex()) == (row, value.hex())
    assert [i for i, row in enumerate(rows) if row is None] == result.corrupt.tolist()


def test_there_are_vectors() -> None:
    """A run without vectors would prove nothing."""
    assert len(_FILES) >= 15
