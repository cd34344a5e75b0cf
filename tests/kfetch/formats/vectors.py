"""Spark's recorded answers (tests/vectors/json) and the time zones for them."""

from __future__ import annotations

import json
import zoneinfo
from collections.abc import Iterator
from datetime import tzinfo
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kfetch.formats.columns.ddl import parse_schema
from kfetch.formats.columns.decoded import DecodedColumn
from kfetch.formats.json.decoder import JsonDecoder
from kfetch.formats.json.times import Zones
from kfetch.formats.loading import load

__all__ = ["GROUPS", "Group", "decode", "decoder", "find_zone"]

UTC = Zones()
_DIRECTORY = Path(__file__).parents[2] / "vectors" / "json"


class Group(NamedTuple):
    """Documents of one schema, with Spark's rows and whether Spark calls them corrupt."""

    name: str
    schema: str
    zones: Zones
    documents: list[bytes]
    rows: list[Any]
    corrupt: list[int]


def find_zone(name: str) -> tzinfo | None:
    """Returns a zone by its name."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None


def decoder(schema: str, zones: Zones = UTC) -> JsonDecoder:
    """Returns a decoder for a schema in DDL."""
    return JsonDecoder(parse_schema(schema), load("json"), zones)


def decode(using: JsonDecoder, documents: list[bytes | None]) -> DecodedColumn:
    """Decodes documents that lie one behind the other; None is a null value."""
    lengths = np.array([-1 if item is None else len(item) for item in documents], np.int32)
    positions = np.concatenate([[0], np.cumsum(lengths.clip(0))[:-1]]).astype(np.int64)
    return using.decode(b"".join(item or b"" for item in documents), positions, lengths)


def _read(path: Path) -> Group:
    head, *cases = map(json.loads, path.read_text().splitlines())
    session = 19_800 if head["zone"] == "+05:30" else find_zone(head["zone"])
    return Group(
        head["name"],
        head["schema"],
        Zones(session or 0, find_zone),
        [_bytes(case[0]) for case in cases],
        [case[1] for case in cases],
        [number for number, case in enumerate(cases) if case[2]],
    )


def _bytes(document: str | dict[str, str]) -> bytes:
    return bytes.fromhex(document["bytes"]) if isinstance(document, dict) else document.encode()


def _groups() -> Iterator[Group]:
    for path in sorted(_DIRECTORY.glob("*.jsonl")):
        yield _read(path)


GROUPS = list(_groups())
