"""Builds message sets of formats v0 and v1, also sets that no client writes."""

from __future__ import annotations

import struct
import zlib

from tests.kfetch.records.batch_builder import CODECS, T0

__all__ = ["message", "wrapped"]


def message(
    offset: int,
    value: bytes | None = b"v",
    key: bytes | None = None,
    *,
    magic: int = 1,
    attributes: int = 0,
    time: int = T0,
    fields: bytes | None = None,
) -> bytes:
    """Returns one message. ``fields`` replaces key and value with their lengths."""
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", time) if magic else b"")
    body += _sized(key) + _sized(value) if fields is None else fields
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def _sized(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def wrapped(
    offset: int, *inner: bytes, codec: str = "gzip", magic: int = 1, attributes: int = 0
) -> bytes:
    """Returns a compressed message around a message set."""
    number, pack = CODECS[codec]
    packed = pack(b"".join(inner))
    return message(offset, packed, magic=magic, attributes=attributes | number, time=T0 + 9)
