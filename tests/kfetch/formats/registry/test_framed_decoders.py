"""Decoders of values in Confluent's wire format: rows, unknown fields, and what they keep."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kfetch.formats.avro.decoder import AvroDecoder
from kfetch.formats.avro.framed import FramedAvro
from kfetch.formats.columns.ddl import parse_schema
from kfetch.formats.json.decoder import JsonDecoder
from kfetch.formats.json.framed import FramedJson
from kfetch.formats.loading import load
from kfetch.formats.registry.framing import SchemaCache
from kfetch.formats.registry.schemas import Schema, SchemaUnknown
from tests.kfetch.formats.avro.records import evolved, record
from tests.kfetch.formats.avro.records import schema as random_schema
from tests.kfetch.formats.json.plain import plain
from tests.kfetch.formats.registry.scripted_registry import framed
from tests.kfetch.formats.registry.test_framed_values import ONE, V1, V2


class _Known:
    """A registry of some Avro schemas."""

    def __init__(self, writers: list[Any]) -> None:
        self._writers = writers

    def by_id(self, number: int, *, form: str = "") -> Schema:
        """As the real one."""
        if number >= len(self._writers):
            raise SchemaUnknown(f"no {number}")
        text = json.dumps(self._writers[number])
        return Schema(id=number, version=0, kind="AVRO", text=text)


@given(st.integers(0, 1 << 32))
def test_mixed_writers_are_like_single_ones(seed: int) -> None:
    """Random writers in one batch have the rows that each one has alone."""
    rng = Random(seed)
    reader = random_schema(rng, fields_max=3)
    writers = [evolved(rng, reader) for _ in range(3)]
    decoder = AvroDecoder(json.dumps(reader), load("avro"))
    made = FramedAvro(decoder, _Known(writers))  # type: ignore[arg-type]
    values = [
        framed(i, record(rng, writers[i])) if rng.random() < 0.9 else b"\0\0"
        for i in (rng.randrange(3) for _ in range(20))
    ]
    together = made.decode_column(pa.array(values, pa.binary()))
    alone = [made.decode_column(pa.array([value], pa.binary())) for value in values]
    assert plain(pa.concat_arrays([each.values for each in alone])) == plain(together.values)
    assert [i for i, each in enumerate(alone) if len(each.corrupt)] == together.corrupt.tolist()
    problems = [made.problem(value) is not None for value in values]
    assert problems == [bool(len(each.corrupt)) for each in alone]


def test_unknown_fields_behind_headers() -> None:
    """Drift sees the fields of each writer, and none behind a damaged header."""
    avro = FramedAvro(AvroDecoder(json.dumps(V2), load("avro")), _Known([V1]))  # type: ignore[arg-type]
    schema = parse_schema("id INT", option="valueSchema")
    plain_json = FramedJson(JsonDecoder(schema, load("json")))
    document = b'{"id": 1, "more": 2}'

    assert ["gone"] == [*avro.unknown_fields(framed(0, ONE))]
    assert ["more"] == [*plain_json.unknown_fields(framed(1, document))]
    assert [] == [*avro.unknown_fields(b"\0\0"), *plain_json.unknown_fields(document)]


def test_what_a_decoder_keeps_has_a_limit() -> None:
    """The values that were used last stay, up to a weight. The newest one stays in any case."""
    kept = SchemaCache[str](4, len)
    asked: list[str] = []

    def get(key: str, value: str) -> str:
        return kept.get(key, lambda: asked.append(key) or value)

    for key, value in [("a", "xx"), ("b", "xx"), ("a", ""), ("c", "xx"), ("a", ""), ("b", "y" * 9)]:
        get(key, value)
    assert ["a", "b", "c", "b"] == asked
    assert ("y" * 9, ["a", "b", "c", "b"]) == (get("b", ""), asked)


def test_bad_batches_do_not_fill_the_memory() -> None:
    """A decoder keeps the tables of good schemas only: bad headers come in any combination."""
    good = json.dumps(V1)
    made = FramedAvro(AvroDecoder(good, load("avro")), _Known([V1]))  # type: ignore[arg-type]
    for bad in (framed(9, b""), b"\1", b""):
        for _ in range(3):
            made.decode_column(pa.array([framed(0, ONE), bad], pa.binary()))
    tables = made._tables._values
    assert 0 == len(tables)
    for _ in range(3):
        made.decode_column(pa.array([framed(0, ONE)], pa.binary()))
    assert 1 == len(tables)
