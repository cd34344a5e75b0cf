"""What the decoder of each format does with memory, places and columns of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from kfetch.errors import KfetchError
from kfetch.formats.avro.decoder import AvroDecoder
from kfetch.formats.json.decoder import JsonDecoder
from kfetch.formats.loading import load
from kfetch.formats.protobuf.decoder import ProtobufDecoder
from kfetch.records.memory import Memory
from tests.kfetch.formats.avro import cases as avro
from tests.kfetch.formats.avro.records import number as zigzag
from tests.kfetch.formats.json.plain import plain
from tests.kfetch.formats.protobuf.proto_text import descriptor_set
from tests.kfetch.formats.protobuf.wire import number, sized
from tests.kfetch.formats.vectors import decoder as json_decoder

_MANY = 100_000
_FIELDS = [
    {"name": "id", "type": "long"},
    {"name": "name", "type": "string"},
    {"name": "sizes", "type": {"type": "array", "items": "int"}},
]
_PROTO = """
syntax = "proto3"; package t;
message M { int64 id = 1; string name = 2; repeated int32 sizes = 3; }
"""


def _protobuf() -> ProtobufDecoder:
    return ProtobufDecoder(descriptor_set(_PROTO), "t.M", load("protobuf"))


class Example(NamedTuple):
    """A decoder of records with the fields id, name and sizes, and values for it."""

    decoder: Callable[[], AvroDecoder | JsonDecoder | ProtobufDecoder]
    good: bytes
    """The id is 7, the name is kept, and there are no sizes."""
    bad: bytes
    long: bytes
    """Its name has 100,000 bytes, and it has 100,000 sizes."""


EXAMPLES = {
    "avro": Example(
        lambda: avro.decoder({"type": "record", "name": "R", "fields": _FIELDS}),
        zigzag(7) + zigzag(4) + b"kept" + zigzag(0),
        zigzag(7),
        zigzag(7) + zigzag(_MANY) + b"x" * _MANY + zigzag(_MANY) + zigzag(1) * _MANY + zigzag(0),
    ),
    "json": Example(
        lambda: json_decoder("id BIGINT, name STRING, sizes ARRAY<INT>"),
        b'{"id":7,"name":"kept","sizes":[]}',
        b"x",
        b'{"name":"' + b"x" * _MANY + b'","sizes":[' + b",".join([b"1"] * _MANY) + b"]}",
    ),
    "protobuf": Example(
        _protobuf,
        number(1, 7) + sized(2, b"kept"),
        b"\xff",
        sized(2, b"x" * _MANY) + sized(3, b"\x01" * _MANY),
    ),
}


@pytest.fixture(params=EXAMPLES)
def example(request: pytest.FixtureRequest) -> Example:
    """An example of each format."""
    return EXAMPLES[request.param]


class _Counted(Memory):
    """Counts what a call reserves."""

    size = 0

    def reserve(self, size: int) -> None:
        self.size += size


def _one(example: Example, value: bytes | bytearray, memory: Memory | None = None) -> Any:
    places = np.array([0]), np.array([len(value)], np.int32)
    return example.decoder().decode(memoryview(value), *places, memory or Memory()).values


def test_the_result_does_not_need_the_data(example: Example) -> None:
    """The column keeps its values when the caller's memory changes."""
    data = bytearray(example.good)
    values = _one(example, data)
    data[:] = bytes(len(data))
    assert [{"id": 7, "name": "kept", "sizes": []}] == plain(values)


def test_memory_is_reserved_before_it_is_used(example: Example) -> None:
    """The buffers of the column are counted, those that grow too."""
    memory = _Counted()
    values = _one(example, example.long, memory)
    (row,) = plain(values)
    assert (_MANY, _MANY) == (len(row["name"]), len(row["sizes"]))
    assert sum(buffer.size for buffer in values.buffers() if buffer) <= memory.size < 1 << 22


@pytest.mark.parametrize("part", [slice(0, 5), slice(1, 4), slice(0, 0)])
def test_a_binary_column_is_decoded_in_place(example: Example, part: slice) -> None:
    """Nulls, slices and empty columns of values give the rows of their values."""
    values = [example.good, None, example.bad, example.good, example.bad]
    result = example.decoder().decode_column(pa.array(values, pa.binary())[part])
    expected = [7 if value is example.good else None for value in values[part]]
    assert expected == [row and row["id"] for row in plain(result.values)]
    bad = [n for n, value in enumerate(values[part]) if value is example.bad]
    assert bad == result.corrupt.tolist()


@pytest.mark.parametrize("position", [-1, 1, 1 << 40])
def test_a_place_outside_the_data_is_refused(example: Example, position: int) -> None:
    """The loops never see such a place."""
    lengths = np.array([len(example.good)], np.int32)
    with pytest.raises(KfetchError, match="outside the memory"):
        example.decoder().decode(example.good, np.array([position]), lengths)


def test_too_many_bytes_are_refused(example: Example) -> None:
    """Offsets of Arrow columns have 32 bits, so values of more than 2 GiB are an error."""
    lengths = np.full(3, 1 << 30, np.int32)
    with pytest.raises(KfetchError, match=r"lower kafka\.max\.partition\.fetch\.bytes"):
        example.decoder().decode(example.good, np.zeros(3, np.int64), lengths)
