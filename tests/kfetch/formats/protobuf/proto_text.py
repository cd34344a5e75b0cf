"""A FileDescriptorSet from the text of a .proto file, for tests: protoc is not needed.

It knows what the tests use: packages, messages, enums, oneofs, maps, labels and defaults. Names of
types are full names, or those of the same file. The well-known types are there without an import.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kfetch.formats.protobuf import field_table as table
from tests.kfetch.formats.protobuf.wire import number, sized

__all__ = ["WELL_KNOWN", "descriptor_set"]

_TYPES = {
    "double": table.DOUBLE_TYPE, "float": table.FLOAT_TYPE, "int64": table.INT64_TYPE,
    "uint64": table.UINT64_TYPE, "int32": table.INT32_TYPE, "fixed64": table.FIXED64_TYPE,
    "fixed32": table.FIXED32_TYPE, "bool": table.BOOL_TYPE, "string": table.STRING_TYPE,
    "bytes": table.BYTES_TYPE, "uint32": table.UINT32_TYPE, "sfixed32": table.SFIXED32_TYPE,
    "sfixed64": table.SFIXED64_TYPE, "sint32": table.SINT32_TYPE, "sint64": table.SINT64_TYPE,
}  # fmt: skip
_LABELS = {"optional": 1, "required": 2, "repeated": 3}
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\w.+-]+|[^\s\w]')
WELL_KNOWN = """
syntax = "proto3"; package google.protobuf;
message Timestamp { int64 seconds = 1; int32 nanos = 2; }
message Duration { int64 seconds = 1; int32 nanos = 2; }
message Any { string type_url = 1; bytes value = 2; }
message Empty { }
message Int32Value { int32 value = 1; }
message StringValue { string value = 1; }
"""


def descriptor_set(*files: str) -> bytes:
    """Returns the FileDescriptorSet of files. The well-known types stand in front."""
    texts = [WELL_KNOWN, *files]
    return b"".join(sized(1, _File(text, i).descriptor()) for i, text in enumerate(texts))


class _File:
    def __init__(self, text: str, number_of_file: int) -> None:
        self._tokens = _TOKEN.findall(text)
        self._at = 0
        self._name = f"{number_of_file}.proto"
        self._package = self._syntax = ""
        self._enums: set[str] = set()

    def descriptor(self) -> bytes:
        """Returns the FileDescriptorProto."""
        self._enums = {b for a, b in zip(self._tokens, self._tokens[1:], strict=False)
                       if a == "enum"}  # fmt: skip
        body, options = b"", b""
        while self._at < len(self._tokens):
            match self._next():
                case "syntax":
                    self._syntax = self._until(";")[-1].strip('"')
                case "package":
                    self._package = self._until(";")[0]
                case "option":
                    name, _, value = self._until(";")
                    assert name == "java_string_check_utf8"
                    options = number(27, int(value == "true"))
                case "message":
                    body += sized(4, self._message(self._package))
                case "enum":
                    body += sized(5, self._enum())
        head = sized(1, self._name.encode()) + sized(2, self._package.encode())
        if self._name != "0.proto":
            head += sized(3, b"0.proto")
        return head + body + sized(8, options) + sized(12, self._syntax.encode())

    def _next(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1]

    def _until(self, end: str) -> list[str]:
        start = self._at
        while self._next() != end:
            pass
        return self._tokens[start : self._at - 1]

    def _enum(self) -> bytes:
        made = sized(1, self._next().encode())
        self._next()
        while (name := self._next()) != "}":
            if name == "option":
                self._until(";")
                made += sized(3, number(2, 1))  # allow_alias
                continue
            value = int("".join(self._until(";")[1:]))
            made += sized(2, sized(1, name.encode()) + number(2, value))
        return made

    def _message(self, outer: str) -> bytes:
        name = self._next()
        full_name = f"{outer}.{name}"
        self._next()
        body, oneofs, synthetic = b"", list[str](), list[bytes]()
        while (token := self._next()) != "}":
            match token:
                case "message":
                    body += sized(3, self._message(full_name))
                case "enum":
                    body += sized(4, self._enum())
                case "oneof":
                    oneofs.append(self._next())
                    self._next()
                    while (kind := self._next()) != "}":
                        body += sized(
                            2, self._field(kind, 1, full_name) + number(9, len(oneofs) - 1)
                        )
                case "map":
                    entry, field = self._map(full_name)
                    body += sized(3, entry) + sized(2, field)
                case _ if token in _LABELS:
                    field = self._field(self._next(), _LABELS[token], full_name)
                    if token == "optional" and self._syntax == "proto3":
                        synthetic.append(field)
                    else:
                        body += sized(2, field)
                case _:
                    body += sized(2, self._field(token, 1, full_name))
        for i, field in enumerate(synthetic):
            body += sized(2, field + number(9, len(oneofs) + i) + number(17, 1))
        named = [*oneofs, *(f"_synthetic{i}" for i in range(len(synthetic)))]
        return (
            sized(1, name.encode()) + body + b"".join(sized(8, sized(1, o.encode())) for o in named)
        )

    def _field(self, kind: str, label: int, outer: str) -> bytes:
        name, _, field_number, *more = self._until(";")
        if "default" in more:
            default = more[more.index("default") + 2]
        made = self._plain_field(kind, label, name, int(field_number), outer)
        if "default" in more:
            made += sized(7, default.strip('"').encode())
        return made

    def _plain_field(self, kind: str, label: int, name: str, at: int, outer: str) -> bytes:
        made = sized(1, name.encode()) + number(3, at) + number(4, label)
        if kind in _TYPES:
            return made + number(5, _TYPES[kind])
        if kind == "group":
            return made + number(5, table.GROUP_TYPE) + sized(6, f".{outer}".encode())
        is_enum = kind.rpartition(".")[2] in self._enums
        full_name = kind if kind.startswith("google.") else f"{self._package}.{kind}"
        made += number(5, table.ENUM_TYPE if is_enum else table.MESSAGE_TYPE)
        return made + sized(6, f".{full_name}".encode())

    def _map(self, outer: str) -> tuple[bytes, bytes]:
        tokens = list(self._map_tokens())
        key, value, name, at = tokens[1], tokens[3], tokens[5], tokens[7]
        entry_name = "".join(part.capitalize() for part in name.split("_")) + "Entry"
        fields = [self._plain_field(key, 1, "key", 1, outer),
                  self._plain_field(value, 1, "value", 2, outer)]  # fmt: skip
        entry = sized(1, entry_name.encode()) + b"".join(sized(2, field) for field in fields)
        entry += sized(7, number(7, 1))
        field = sized(1, name.encode()) + number(3, int(at)) + number(4, 3)
        field += number(5, table.MESSAGE_TYPE) + sized(6, f".{outer}.{entry_name}".encode())
        return entry, field

    def _map_tokens(self) -> Iterator[str]:
        yield from self._until(";")
