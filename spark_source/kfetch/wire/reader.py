"""Reads Kafka's primitive types from a frame without a copy: one position that moves forward.

Flexible versions (KIP-482) have compact lengths and tagged fields; the others have neither. A read
past the frame raises ValueError, IndexError or struct.error, and the caller names the message. No
length that is read here allocates memory.
"""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


class Reader:
    """Decodes one frame. ``flexible``: whether the message's version is."""

    __slots__ = ("_data", "_flexible", "_position")

    def __init__(self, data: memoryview, *, flexible: bool) -> None:
        self._data = data
        self._flexible = flexible
        self._position = 0

    @property
    def remaining_bytes(self) -> int:
        """Bytes not yet read."""
        return len(self._data) - self._position

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Reads the fields of a fixed layout."""
        values = layout.unpack_from(self._data, self._position)
        self._position += layout.size
        return values

    def int16(self) -> int:
        """Reads INT16."""
        return int(self.unpack(_INT16)[0])

    def int32(self) -> int:
        """Reads INT32."""
        return int(self.unpack(_INT32)[0])

    def int64(self) -> int:
        """Reads INT64."""
        return int(self.unpack(_INT64)[0])

    def uuid(self) -> UUID:
        """Reads UUID."""
        return UUID(bytes=bytes(self._bytes(16)))

    def string(self) -> str:
        """Reads STRING or COMPACT_STRING, not null."""
        value = self.nullable_string()
        if value is None:
            raise ValueError("a string is null")
        return value

    def nullable_string(self) -> str | None:
        """Reads NULLABLE_STRING or COMPACT_NULLABLE_STRING."""
        size = self._uvarint() - 1 if self._flexible else self.int16()
        return None if size < 0 else str(self._bytes(size), "utf-8")

    def bytes(self) -> memoryview:
        """Reads RECORDS or COMPACT_RECORDS as a view; null is empty."""
        size = self._uvarint() - 1 if self._flexible else self.int32()
        return self._bytes(max(size, 0))

    def array(self) -> range:
        """Reads the length of an ARRAY or COMPACT_ARRAY and returns its indices; null is empty."""
        count = self._uvarint() - 1 if self._flexible else self.int32()
        if count > self.remaining_bytes:  # no element takes less than a byte
            raise ValueError(
                f"an array claims {count} elements, but {self.remaining_bytes} bytes are left"
            )
        return range(count)

    def tags(self) -> dict[int, memoryview]:
        """Reads the tagged fields of a flexible version, undecoded; empty for the others."""
        if not self._flexible:
            return {}
        return {self._uvarint(): self._bytes(self._uvarint()) for _ in range(self._uvarint())}

    def _bytes(self, size: int) -> memoryview:
        end = self._position + size
        if end > len(self._data):
            raise ValueError(f"{size} bytes are wanted, but {self.remaining_bytes} are left")
        data = self._data[self._position : end]
        self._position = end
        return data

    def _uvarint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):  # at most five bytes: an UNSIGNED_VARINT has 32 bits
            byte = self._data[self._position]
            self._position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise ValueError("an unsigned varint has more than five bytes")
