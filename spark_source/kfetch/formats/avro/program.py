"""Compiles a writer's and a reader's schema to a program: the instructions that decode a record.

The instructions are rows of numbers (``instructions``), which the compiled loops interpret. The
schemas are resolved here, once, as Java's Avro library does it. Parts that can't be resolved become
the instruction FAIL, because the writer may never use them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kfetch.errors import OptionError
from kfetch.formats.avro import instructions as ops
from kfetch.formats.avro.defaults import encoded_default
from kfetch.formats.avro.matching import (
    are_equivalent,
    is_promotion,
    matching_branch,
    missing_field,
)
from kfetch.formats.avro.schema import AvroField, AvroType
from kfetch.formats.avro.types import branches, is_wide_union
from kfetch.formats.columns.node_table import SLACK
from kfetch.formats.columns.struct_column import Plan
from kfetch.formats.columns.types import Kind
from kfetch.records.arrow import Array

_ROWS_MAX = 200_000
_LEAST = {"null": 0, "float": 4, "double": 8}
_SOURCES = {"int": ops.INT_FROM, "long": ops.LONG_FROM, "float": ops.FLOAT_FROM}

ALLOWS_MORE = "the writer's schema allows more than the reader's"
"""Such a record is good. A reader's schema that knows the writer's can read it."""


class Program(NamedTuple):
    """The instructions for records of one writer."""

    rows: Array
    """int64, WIDTH numbers for each instruction. Targets are relative to the first row."""
    paths: list[str]
    """The name of the field that each row reads; empty for the record."""
    failures: list[str]
    """The sentences of the instructions FAIL."""
    buffers: list[Any]
    """The memory whose addresses the rows have."""
    unreadable_because: str
    """Why no record can be decoded; empty if some can."""
    advice: str
    """What the user can do about it."""
    unknown_fields: frozenset[str] = frozenset()
    """The writer's fields that the reader's schema lacks."""


def compile_program(
    writer: AvroType, reader: AvroType, plan: Plan, *, source: str = "valueSchema"
) -> Program:
    """Returns the program for a writer's schema. ``plan``: the nodes of the reader's column.

    ``source``: the option with the schema, for errors. Raises OptionError for schemas that need
    too many instructions.
    """
    compiler = _Compiler(plan, source)
    compiler.value(writer, reader, 0)
    compiler.add(ops.END)
    return compiler.program()


def failing_program(why: str) -> Program:
    """Returns a program for records that can't be decoded. ``why``: the reason, for errors."""
    rows = np.array([[ops.FAIL, 0, 0, 0, 0]], np.int64)
    return Program(rows, [""], [why], [], why, "correct one of the schemas")


class _Compiler:
    def __init__(self, plan: Plan, source: str) -> None:
        self._plan = plan
        self._source = source
        self._rows: list[list[int]] = []
        self._paths: list[str] = []
        self._path: list[str] = []
        self._failures: list[str] = []
        self._buffers: list[Any] = []
        self._optional = 0
        """Unions and lists around the present type, which a record need not use."""
        self._unreadable_because = self._advice = ""
        self._lists = 0

    def program(self) -> Program:
        """Returns what was compiled."""
        rows = np.array(self._rows, np.int64)
        parts = self._paths, self._failures, self._buffers
        return Program(rows, *parts, self._unreadable_because, self._advice)

    def add(self, op: int, node: int = 0, a: int = 0, b: int = 0, c: int = 0) -> int:
        """Adds an instruction and returns its row."""
        if len(self._rows) >= _ROWS_MAX:
            raise OptionError(
                f"{self._source} needs more than {_ROWS_MAX} instructions",
                action="use a smaller schema",
                option=self._source,
            )
        self._rows.append([op, node, a, b, c])
        self._paths.append(".".join(self._path))
        return len(self._rows) - 1

    def value(self, writer: AvroType, reader: AvroType, node: int) -> None:
        """Compiles what the writer wrote into a node's slot."""
        if writer.kind == "union":
            self._writer_union(writer, reader, node)
        elif reader.kind == "union":
            at = matching_branch(writer, reader)
            if at < 0:
                self._fail(writer, reader)
            else:
                self._branch(writer, reader, at, node)
        elif writer.kind == reader.kind:
            self._same_kind(writer, reader, node)
        elif is_promotion(writer, reader):
            self._promoted(writer, reader, node)
        else:
            self._fail(writer, reader)

    def _fail(
        self,
        writer: AvroType,
        reader: AvroType,
        more: str = "",
        advice: str = "correct one of the schemas",
    ) -> None:
        why = more or f"{reader} can't be read from {writer}"
        self._failures.append(f"{ALLOWS_MORE}: {why}")
        row = self.add(ops.FAIL, a=len(self._failures) - 1)
        if not self._optional and not self._unreadable_because:
            path = self._paths[row]
            self._unreadable_because = f"field {path}: {why}" if path else why
            self._advice = advice

    def _writer_union(self, writer: AvroType, reader: AvroType, node: int) -> None:
        equivalent = reader.kind == "union" and are_equivalent(writer, reader)

        def read(number: int, kind: AvroType) -> None:
            if equivalent:
                self._branch(kind, reader, number, node)
            else:
                self.value(kind, reader, node)

        self._cases(writer, read)

    def _cases(self, writer: AvroType, read: Callable[[int, AvroType], None]) -> None:
        """Compiles the branches of a writer's union, and the table of their rows."""
        start = self.add(ops.UNION, a=len(writer.inside))
        for _ in writer.inside:
            self.add(ops.JUMP)
        ends = []
        self._optional += 1
        for number, kind in enumerate(writer.inside):
            self._rows[start + 1 + number][ops.A] = len(self._rows)
            read(number, kind)
            ends.append(self.add(ops.JUMP))
        self._optional -= 1
        for row in ends:
            self._rows[row][ops.A] = len(self._rows)

    def _branch(self, writer: AvroType, union: AvroType, at: int, node: int) -> None:
        """Compiles a branch of a reader's union. The writer's type is no union."""
        branch, kinds = union.inside[at], branches(union)
        if branch.kind == "null":
            if writer.kind == "null":
                self.add(ops.NULL, node)
            else:
                self._fail(writer, branch)
        elif len(kinds) == 1:
            self.value(writer, branch, node)
        elif is_wide_union(kinds):
            self._wide(writer, branch, node)
        else:
            member = kinds.index(branch)
            child = self._plan.children(node)[member]
            self.add(ops.NULL_OTHERS, node, a=member)
            self.value(writer, branch, child)
            self.add(ops.STRUCT, node)

    def _wide(self, writer: AvroType, branch: AvroType, node: int) -> None:
        """Compiles int and long into a column of long, or float and double into one of double."""
        if writer.kind != branch.kind and not is_promotion(writer, branch):
            self._fail(writer, branch)
        elif self._plan.types[node].kind == Kind.LONG:
            self.add(ops.WIDEN if writer.kind == "int" else ops.INT64, node)
        elif writer.kind == "double":
            self.add(ops.DOUBLE8, node)
        else:
            by_float = branch.kind == "float"
            self.add(ops.CONVERT, node, a=_SOURCES[writer.kind], b=int(by_float))

    def _same_kind(self, writer: AvroType, reader: AvroType, node: int) -> None:
        match writer.kind:
            case "record":
                self._record(writer, reader, node)
            case "array":
                with self._list(ops.LIST, ops.NEXT, node, writer) as child:
                    self.value(writer.inside[0], reader.inside[0], child)
            case "map":
                with self._list(ops.LIST, ops.NEXT, node, writer) as key:
                    self.add(ops.KEY, key)
                    self.value(writer.inside[0], reader.inside[0], key + 1)
            case "enum":
                self._enum(writer, reader, node)
            case "fixed":
                if writer.short_name != reader.short_name or writer.size != reader.size:
                    self._fail(writer, reader)
                else:
                    self._bytes(node, writer.size)
            case "bytes" | "string":
                self._bytes(node, -1)
            case "long" if _is_millis(reader):
                self.add(ops.MILLIS, node)
            case _:
                self.add(_NUMBERS[reader.kind], node)

    def _promoted(self, writer: AvroType, reader: AvroType, node: int) -> None:
        match reader.kind:
            case "long" if _is_millis(reader):
                self.add(ops.MILLIS, node, a=1)
            case "long":
                self.add(ops.WIDEN, node)
            case "float" | "double":
                self.add(ops.CONVERT, node, a=_SOURCES[writer.kind])
            case _:
                self._bytes(node, -1)

    def _bytes(self, node: int, size: int) -> None:
        """Compiles bytes to a decimal, or to text. ``size``: below 0 if it stands in the record."""
        if self._plan.types[node].kind == Kind.DECIMAL:
            power = 10 ** self._plan.types[node].precision
            upper, lower = power >> 64, power & (2**64 - 1)
            lower -= (lower >> 63) << 64  # the same bits with a sign
            self.add(ops.DECIMAL, node, a=size, b=upper, c=lower)
        else:
            self.add(ops.TEXT if size < 0 else ops.FIXED, node, a=size)

    def _enum(self, writer: AvroType, reader: AvroType, node: int) -> None:
        if writer.short_name != reader.short_name:
            self._fail(writer, reader)
            return
        texts = []
        for symbol in writer.symbols:
            known = symbol if symbol in reader.symbols else reader.default
            texts.append(None if known is None else known.encode())
        address = self._keep(b"".join((text or b"") + bytes(SLACK) for text in texts))
        pairs = np.zeros((max(len(texts), 1), 2), np.int64)
        for i, text in enumerate(texts):
            pairs[i] = address, -1 if text is None else len(text)
            address += len(text or b"") + SLACK
        self._buffers.append(pairs)
        self.add(ops.ENUM, node, a=len(texts), b=pairs.ctypes.data)

    def _keep(self, data: bytes) -> int:
        """Returns the address of bytes that live as long as the program."""
        buffer = pa.py_buffer(data + bytes(SLACK))
        self._buffers.append(buffer)
        return buffer.address

    def _record(self, writer: AvroType, reader: AvroType, node: int) -> None:
        missing = missing_field(writer, reader)
        if missing is not None:
            why = f"{writer} has no field {missing.name}, and the reader's has no default"
            advice = "give the reader's field a default, or correct one of the schemas"
            self._fail(writer, reader, why, advice)
            return
        children = self._plan.children(node)
        numbers = {field.name: child for field, child in zip(reader.fields, children, strict=True)}
        for field in writer.fields:
            with self._named(field.name):
                wanted = reader.field(field.name)
                if wanted is None:
                    self._skip(field.type)
                else:
                    self.value(field.type, wanted.type, numbers[field.name])
        for field in reader.fields:
            if writer.field(field.name) is None:
                with self._named(field.name):
                    self._default(field, numbers[field.name])
        self.add(ops.STRUCT, node)

    @contextmanager
    def _named(self, name: str) -> Iterator[None]:
        self._path.append(name)
        yield
        self._path.pop()

    def _default(self, field: AvroField, node: int) -> None:
        try:
            data = encoded_default(field.type, field.default)
        except ValueError as cause:
            more = f"the default of the field {field.name} does not fit its type: {cause}"
            self._fail(field.type, field.type, more, "correct the default")
            return
        if _is_null(field.type, data):
            self.add(ops.NULL, node)
            return
        self.add(ops.DEFAULT, a=self._keep(data), b=len(data))
        self.value(field.type, field.type, node)
        self.add(ops.RESTORE)

    @contextmanager
    def _list(self, first: int, last: int, node: int, writer: AvroType) -> Iterator[int]:
        """Compiles a list around the instructions of its element. Yields the first child."""
        least = _least(writer.inside[0]) + (writer.kind == "map")  # a key has a byte at least
        child = self._plan.children(node)[0] if first == ops.LIST else 0
        start = self.add(first, node, a=child, c=least)
        self._lists += 1
        self._optional += 1
        if self._lists > ops.LISTS_MAX:
            raise OptionError(
                f"{self._source} has more than {ops.LISTS_MAX} lists inside each other",
                action="use a flatter schema",
                option=self._source,
            )
        yield child
        self._optional -= 1
        self._lists -= 1
        self.add(last, node, a=child, b=start + 1, c=least)
        self._rows[start][ops.B] = len(self._rows)

    def _skip(self, writer: AvroType) -> None:
        """Compiles a field that the reader does not have."""
        match writer.kind:
            case "record":
                for field in writer.fields:
                    with self._named(field.name):
                        self._skip(field.type)
            case "array" | "map":
                with self._list(ops.SKIP_LIST, ops.SKIP_NEXT, 0, writer):
                    if writer.kind == "map":
                        self.add(ops.SKIP_TEXT)
                    self._skip(writer.inside[0])
            case "union":
                self._cases(writer, lambda _, kind: self._skip(kind))
            case "int" | "enum":
                self.add(ops.SKIP_INT)
            case "long":
                self.add(ops.SKIP_LONG)
            case "string" | "bytes":
                self.add(ops.SKIP_TEXT)
            case "null":
                pass
            case _:
                self.add(ops.SKIP_BYTES, a=_least(writer))


def _is_null(kind: AvroType, data: bytes) -> bool:
    """Returns whether the bytes of a value are a union's null."""
    if kind.kind != "union" or data[0] > 0x7F:
        return False
    return kind.inside[data[0] >> 1].kind == "null"


def _least(kind: AvroType) -> int:
    """Returns the fewest bytes of a value, where it matters whether they are 0."""
    if kind.kind == "record":
        return sum(_least(field.type) for field in kind.fields)
    return kind.size if kind.kind == "fixed" else _LEAST.get(kind.kind, 1)


def _is_millis(reader: AvroType) -> bool:
    return reader.logical is not None and reader.logical.name in (
        "timestamp-millis",
        "local-timestamp-millis",
    )


_NUMBERS = {
    "boolean": ops.BOOL,
    "int": ops.INT32,
    "long": ops.INT64,
    "float": ops.FLOAT4,
    "double": ops.DOUBLE8,
}
