"""The decoder of JSON in Confluent's wire format. The writer's schema has no meaning for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from kfetch.formats.columns.decoded import DecodedColumn, Problem
from kfetch.formats.json.decoder import JsonDecoder
from kfetch.formats.registry.framing import bodies, body
from kfetch.formats.registry.headers import read_header
from kfetch.records.memory import UNLIMITED, Memory

_NO_JSON = b"}"
"""A document that is corrupt for sure."""


class FramedJson:
    """Decodes JSON behind a header."""

    def __init__(self, decoder: JsonDecoder) -> None:
        self._decoder = decoder
        self.row_bytes = decoder.row_bytes

    def decode_column(self, column: pa.Array[Any], memory: Memory = UNLIMITED) -> DecodedColumn:
        """See JsonDecoder. A value without a header is corrupt."""
        data, positions, lengths, headers = bodies(column, indexed=False)
        damaged = np.array([*(bool(each.damage) for each in headers.distinct), False])
        if not damaged.any():
            return self._decoder.decode(data, positions, lengths, memory)
        bad = damaged[headers.which]
        memory.reserve(len(data) + 1)
        whole = memoryview(bytes(data) + _NO_JSON)
        starts, sizes = np.where(bad, len(data), positions), np.where(bad, 1, lengths)
        texts = positions, lengths
        return self._decoder.decode(whole, starts, sizes, memory, texts=texts)

    def problem(self, value: bytes, memory: Memory = UNLIMITED) -> Problem | None:
        """Returns why a value is corrupt, and where; None if it is not."""
        header = read_header(value, indexed=False)
        if header.damage:
            return Problem(header.damage, header.at)
        found = self._decoder.problem(value[header.size :], memory)
        return Problem(found.what, found.at + header.size) if found else None

    def unknown_fields(self, value: bytes) -> Iterable[str]:
        """Returns the fields that the schema lacks."""
        return self._decoder.unknown_fields(body(value, indexed=False))
