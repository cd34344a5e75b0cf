"""Spark's recorded answers about Avro (tests/vectors/avro), and decoders for tests."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kfetch.formats.avro.decoder import AvroDecoder
from kfetch.formats.columns.decoded import DecodedColumn
from kfetch.formats.loading import load
from tests.kfetch.formats.avro.records import written

__all__ = ["GROUPS", "Group", "asks_for_java_text", "comparable", "decode", "decoder"]

_REPLACED = re.compile("\ufffd+")
_DIRECTORY = Path(__file__).parents[3] / "vectors" / "avro"


class Group(NamedTuple):
    """Records of one pair of schemas, with Spark's rows."""

    name: str
    writer: Any
    reader: Any
    documents: list[bytes | None]
    rows: list[Any]


def decoder(writer: Any, reader: Any = None) -> AvroDecoder:
    """Returns a decoder for schemas as JSON."""
    text = "" if reader is None else json.dumps(reader)
    return AvroDecoder(json.dumps(writer), load("avro"), reader=text)


def decode(using: AvroDecoder, items: list[bytes | None]) -> DecodedColumn:
    """Decodes records that lie one behind the other; None is a null value."""
    data, positions, lengths = written(items)
    return using.decode(data, np.array(positions, np.int64), np.array(lengths, np.int32))


def comparable(value: Any, *, java_text: bool = False) -> Any:
    """Returns a plain value without what docs/how-to/avro.md says may differ.

    That is the order of a map's keys, and all but the last of equal keys. With ``java_text``, the
    schema asks for Java's String, which replaces bytes that are no UTF-8.
    """
    if isinstance(value, str):
        return _REPLACED.sub("\ufffd", value) if java_text else value
    if isinstance(value, dict):
        if java_text and value.keys() == {"bytes"} and isinstance(value["bytes"], str):
            text = bytes.fromhex(value["bytes"]).decode("utf-8", "replace")
            return _REPLACED.sub("\ufffd", text)
        return {name: comparable(item, java_text=java_text) for name, item in value.items()}
    if isinstance(value, list):
        items = [comparable(item, java_text=java_text) for item in value]
        if items and all(isinstance(item, list) and len(item) == 2 for item in items):
            return sorted({str(key): [key, item] for key, item in items}.items(), key=str)
        return items
    return value


def asks_for_java_text(schema: Any) -> bool:
    """Returns whether a schema has strings that are Java's String."""
    return "avro.java.string" in json.dumps(schema)


def _read(path: Path) -> Group:
    head, *cases = map(json.loads, path.read_text().splitlines())
    documents = [None if case[0] is None else bytes.fromhex(case[0]) for case in cases]
    rows = [case[1] for case in cases]
    return Group(head["name"], head["writer"], head["reader"], documents, rows)


GROUPS = [_read(path) for path in sorted(_DIRECTORY.glob("*.jsonl"))]
