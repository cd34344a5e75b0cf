"""Writes Protobuf's wire format, for tests: right, or as wrong as a test wants it."""

from __future__ import annotations

import struct

__all__ = ["fixed32", "fixed64", "group", "number", "sized", "tag", "varint"]


def varint(value: int, padding: int = 0) -> bytes:
    """Returns a number of variable length, with ``padding`` bytes more than it needs."""
    value &= (1 << 64) - 1
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    if padding:
        made[-1] |= 0x80
        made += b"\x80" * (padding - 1) + b"\x00"
    return bytes(made)


def tag(field: int, wire: int) -> bytes:
    """Returns a tag."""
    return varint(field << 3 | wire)


def number(field: int, value: int) -> bytes:
    """Returns a field with a number."""
    return tag(field, 0) + varint(value)


def sized(field: int, data: bytes) -> bytes:
    """Returns a field with text, bytes, a message or a packed list."""
    return tag(field, 2) + varint(len(data)) + data


def fixed32(field: int, value: float) -> bytes:
    """Returns a field with a float, or with an integer's four bytes."""
    return tag(field, 5) + struct.pack("<f" if isinstance(value, float) else "<i", value)


def fixed64(field: int, value: float) -> bytes:
    """Returns a field with a double, or with an integer's eight bytes."""
    return tag(field, 1) + struct.pack("<d" if isinstance(value, float) else "<q", value)


def group(field: int, data: bytes = b"") -> bytes:
    """Returns a group."""
    return tag(field, 3) + data + tag(field, 4)
