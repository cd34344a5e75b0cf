"""Arrow columns as plain Python values that can be compared and written as JSON, bit by bit."""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Any

import pyarrow as pa

__all__ = ["plain"]


def plain(array: pa.Array[Any]) -> list[Any]:
    """Returns a list: structs and maps as lists of pairs, floats and odd bytes as hexadecimal."""
    kind = array.type
    if pa.types.is_struct(kind):
        return _structs(array)
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        return _lists(array)
    return [None if value is None else _scalar(kind, value) for value in _raw(array)]


def _structs(array: Any) -> list[Any]:
    children = [plain(array.field(i)) for i in range(array.type.num_fields)]
    names = [array.type.field(i).name for i in range(array.type.num_fields)]
    valid = array.is_valid().to_pylist()
    rows = zip(*children, strict=True) if children else iter([()] * len(array))
    return [
        dict(zip(names, row, strict=True)) if ok else None
        for ok, row in zip(valid, rows, strict=True)
    ]


def _lists(array: Any) -> list[Any]:
    is_map = pa.types.is_map(array.type)
    ends = array.offsets.to_pylist()
    if is_map:
        items = [list(pair) for pair in zip(plain(array.keys), plain(array.items), strict=True)]
    else:
        items = plain(array.values)
    valid = array.is_valid().to_pylist()
    bounds = pairwise(ends)
    return [items[a:b] if ok else None for ok, (a, b) in zip(valid, bounds, strict=True)]


def _raw(array: Any) -> list[Any]:
    kind = array.type
    if pa.types.is_string(kind):
        buffers = array.buffers()
        array = pa.Array.from_buffers(pa.binary(), len(array), buffers, offset=array.offset)
    elif pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        array = array.view(pa.int64())
    elif pa.types.is_date32(kind):
        array = array.view(pa.int32())
    return array.to_pylist()


def _scalar(kind: pa.DataType, value: Any) -> Any:
    if pa.types.is_string(kind):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"bytes": value.hex()}
    if pa.types.is_binary(kind):
        return {"bytes": value.hex()}
    if pa.types.is_float32(kind):
        return "NaN" if value != value else struct.pack(">f", value).hex()
    if pa.types.is_float64(kind):
        return "NaN" if value != value else struct.pack(">d", value).hex()
    return str(value) if pa.types.is_decimal(kind) else value
