"""Reads the fields of Protobuf messages that describe types (google/protobuf/descriptor.proto)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

FieldValue = int | bytes | None
"""A number of variable length, or bytes with a length; None for a number of fixed width."""
Fields = list[tuple[int, FieldValue]]
"""The fields of a message: their numbers and values."""


class Damaged(Exception):
    """The bytes are no message. It says why."""


def fields_of(data: bytes) -> Iterator[tuple[int, FieldValue]]:
    """Yields the numbers and values of a message's fields. Raises Damaged."""
    at = 0
    while at < len(data):
        label, at = _varint(data, at)
        wire = label & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield label >> 3, value
            continue
        size = {1: 8, 5: 4}.get(wire, 0)
        if wire == 2:
            size, at = _varint(data, at)
        elif not size:
            raise Damaged(f"byte {at} is no field")
        if at + size > len(data):
            raise Damaged("it ends inside a field")
        yield label >> 3, data[at : at + size] if wire == 2 else None
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70 and at < len(data):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if byte < 0x80:
            return value, at
    raise Damaged("it ends inside a number" if at == len(data) else f"byte {at} is no number")


def all_of(fields: Iterable[tuple[int, FieldValue]], number: int) -> list[bytes]:
    """Returns the values of a repeated field of messages."""
    return [value for found, value in fields if found == number and isinstance(value, bytes)]


def message_of(fields: Fields, number: int) -> Fields:
    """Returns the fields of a message inside: its parts merged, as the format has it."""
    return list(fields_of(b"".join(all_of(fields, number))))


def text_of(fields: Fields, number: int) -> str:
    """Returns the text of a field, empty without it. Raises Damaged for other bytes than UTF-8."""
    values = all_of(fields, number)
    try:
        return values[-1].decode() if values else ""
    except UnicodeDecodeError:
        raise Damaged("a name is not UTF-8") from None


def number_of(fields: Fields, number: int) -> int:
    """Returns the number in a field, 0 without it."""
    values = [value for found, value in fields if found == number and isinstance(value, int)]
    return values[-1] if values else 0


def signed(value: int, bits: int) -> int:
    """Returns a number of so many bits with its sign."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def inner_name(outer: str, name: str) -> str:
    """Returns the full name of a type. ``outer``: that of the package or message around it."""
    return f"{outer}.{name}" if outer else name


def sized_field(number: int, value: bytes) -> bytes:
    """Returns a field of bytes, as it stands in a message."""
    head, rest = bytearray([number << 3 | 2]), len(value)
    while rest >= 0x80:
        head.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes((*head, rest)) + value
