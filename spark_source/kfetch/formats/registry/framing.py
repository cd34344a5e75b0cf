"""What the decoders of values in Confluent's wire format share.

A value stands behind a header that names the writer's schema. The registry is asked on the first
sight of an id. A registry that does not answer is an error, and never makes values null.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from kfetch.errors import KfetchError
from kfetch.formats.columns.struct_column import positions_of
from kfetch.formats.registry.headers import Headers, SchemaUnavailable, read_header, read_headers
from kfetch.records.arrow import Array

V = TypeVar("V")


class SchemaCache(Generic[V]):
    """What a decoder knows about schemas: the values that were used last, up to a weight."""

    def __init__(self, limit: int, weigh: Callable[[V], int] = lambda _: 1) -> None:
        self._limit, self._weigh = limit, weigh
        self._values: OrderedDict[Hashable, V] = OrderedDict()
        self._weight = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """Returns the value of a key. Two threads may make one at the same time."""
        known = self.known(key)
        return self.keep(key, make()) if known is None else known

    def known(self, key: Hashable) -> V | None:
        """Returns the value of a key, None if there is none."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def keep(self, key: Hashable, value: V) -> V:
        """Returns the value of a key, which is ``value`` if there was none."""
        with self._lock:
            if key in self._values:
                return self._values[key]
            self._values[key] = value
            self._weight += self._weigh(value)
            while self._weight > self._limit and len(self._values) > 1:
                _, oldest = self._values.popitem(last=False)
                self._weight -= self._weigh(oldest)
        return value


def answer_for(headers: Headers, number: int, ask: Callable[[], Any]) -> Any:
    """Returns what the registry says. Raises SchemaUnavailable with the first value of a header."""
    try:
        return ask()
    except KfetchError as cause:
        raise SchemaUnavailable(int(np.argmax(headers.which == number)), cause) from None


class Bodies(NamedTuple):
    """Where values start behind their headers."""

    data: memoryview
    positions: Array
    lengths: Array
    headers: Headers


def bodies(column: pa.Array[Any], *, indexed: bool) -> Bodies:
    """Returns what is behind the headers of a column. ``indexed``: as for ``read_headers``."""
    data, positions, lengths = positions_of(column)
    headers = read_headers(data, positions, lengths, indexed=indexed)
    sizes = headers.sizes[headers.which]
    return Bodies(data, positions + sizes, lengths - sizes, headers)


def body(value: bytes, *, indexed: bool) -> bytes:
    """Returns what is behind the header; nothing behind a damaged one."""
    header = read_header(value, indexed=indexed)
    return b"" if header.damage else value[header.size :]
