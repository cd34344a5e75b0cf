"""Edge cases of Protobuf. Spark's answers are the vectors of the unit tests."""

from __future__ import annotations

from typing import NamedTuple

from tests.kfetch.formats.protobuf.wire import fixed32, fixed64, group, number, sized, tag, varint

__all__ = ["GROUPS", "Group"]


class Group(NamedTuple):
    """Values of the message t.M of a file."""

    name: str
    file: str
    values: list[bytes]


_PROTO3 = 'syntax = "proto3"; package t; '
_PROTO2 = 'syntax = "proto2"; package t; '
_ENUM = "enum E { ZERO = 0; ONE = 1; TWO = 2; FAR = 1000; NEG = -3; } "
_EDGES = [0, 1, 127, 128, (1 << 31) - 1, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
_VARINTS = ["int32", "int64", "uint32", "uint64", "sint32", "sint64", "bool"]
_BAD_TEXTS = [
    "80", "c0af", "c3", "c328", "e282", "e28228", "e2", "e228a1", "eda080", "edb080", "f09f98",
    "f0", "f09f", "f028", "f0808080", "f4908080", "f5808080", "ff", "41c3", "e0808041", "f09f9828",
    "f0909041", "e28241", "c2a9", "efbfbd", "eda0bdedb880", "f08041", "f49041", "f880808080",
]  # fmt: skip
_TEXTS = [b"", b"a", "Łódź 😀".encode(), *(bytes.fromhex(text) for text in _BAD_TEXTS),
          *(b"12345678" + bytes.fromhex(text) + b"x" for text in _BAD_TEXTS)]  # fmt: skip


def _numbers() -> list[bytes]:
    values = [number(i, edge) for i in range(1, 8) for edge in _EDGES]
    long = [varint(1, padding) for padding in (1, 4, 8, 9)]
    overlong = [b"\xff" * 9 + b"\x01", b"\xff" * 9 + b"\x7f", b"\xff" * 10 + b"\x01", b"\x80", b""]
    ten = [
        tag(i, 0) + bits
        for i in range(1, 8)
        for bits in (varint(1, 9), varint(0, 9), b"\xff" * 9 + b"\0")
    ]
    return [*values, *ten, *(tag(1, 0) + bits for bits in [*long, *overlong])]


_INNER = "message I { int32 x = 1; repeated int32 l = 2; string s = 3; } "
_WIRE = [
    number(1, 5), fixed32(1, 5), fixed64(1, 5), sized(1, b"\x05"), group(1), tag(1, 4), tag(1, 6),
    tag(1, 7), tag(0, 0), b"\x08", b"", tag(5, 2) + b"\x05abc", tag(5, 2) + b"\x05abcde",
    tag(5, 2) + varint(-1), tag(5, 2) + varint((1 << 32) + 2) + b"ab", varint((1 << 40) + 8) + b"\x07",
    varint(8, 3) + b"\x07", tag((1 << 29) - 1, 0) + b"\x01", tag(5, 5) + b"abc", tag(5, 1) + b"1234567",
    group(5, number(9, 1)), tag(5, 3) + tag(6, 4), tag(5, 3), group(5, group(6, group(5))),
    tag(5, 3) * 100 + b"".join([tag(5, 4)] * 100), tag(5, 3) * 101 + b"".join([tag(5, 4)] * 101),
    sized(3, tag(5, 3) * 99 + tag(5, 4) * 99), sized(3, tag(5, 3) * 100 + tag(5, 4) * 100),
    sized(3, fixed32(1, 5)), sized(3, tag(1, 4)), sized(3, b"\x08"), number(3, 1), number(2, 1),
    number(1, 5) + number(1, 0), number(1, 0), sized(2, b"a") + sized(2, b""), sized(2, b"a") + sized(2, b"b"),
    sized(3, number(1, 4)) + sized(3, number(2, 9)) + sized(3, number(1, 7)), sized(3, b""),
    sized(3, sized(2, b"\x01\x02") + number(2, 3)) + sized(3, sized(2, b"")), sized(3, sized(2, b"\x80")),
    sized(4, number(1, 1)) + number(1, 3) + sized(4, number(2, 2)) + sized(4, b""), sized(4, b"\x08"),
]  # fmt: skip
_ONEOF = [
    number(1, 5), number(1, 0), number(1, 5) + sized(2, b""), sized(2, b"") + number(1, 5),
    sized(3, number(1, 1) + sized(2, b"\x01\x02")) + number(1, 7),
    sized(3, sized(2, b"\x01\x02")) + number(1, 7) + sized(3, sized(2, b"\x03")),
    sized(3, sized(2, b"\x01")) + sized(3, sized(2, b"\x02") + number(1, 9)),
    sized(3, sized(2, b"\x01\x02")) + sized(4, b""), number(5, 0), number(5, 1) + number(1, 0),
    sized(7, sized(1, sized(3, b"lost")) + sized(2, b"")) + number(1, 1) + sized(7, sized(1, b"")),
    sized(7, sized(1, sized(3, b"kept"))) + sized(8, number(1, 3)), sized(4, b"\x08"), sized(4, b"\xff\xff"),
]  # fmt: skip
_MAPS = [
    sized(1, sized(1, b"k") + number(2, 1)), sized(1, b""), sized(1, sized(1, b"k")), sized(1, number(2, 1)),
    sized(1, sized(1, b"k") + number(2, 1)) * 2, sized(1, number(2, 1) + sized(1, b"k") + sized(1, b"j")),
    sized(2, number(1, 7) + sized(2, number(1, 1))), sized(2, number(1, 7)), sized(2, number(9, 7)),
    sized(2, number(1, 7) + sized(2, number(1, 1)) + sized(2, sized(2, b"\x01"))), sized(3, b""),
    sized(3, number(1, 1) + number(2, 1000)), sized(3, number(1, 1) + number(2, 77)), sized(4, b""),
    sized(4, number(1, 1) + sized(2, number(1, 5))), sized(1, sized(1, b"\xff")), sized(1, fixed32(1, 1)),
    sized(5, number(1, 1) + fixed64(2, 1.5)), sized(5, b""), sized(6, number(1, 1) + sized(2, b"")),
]  # fmt: skip
_ENUMS = [number(i, n) for i in (1, 2, 3) for n in (0, 1, 1000, -3, 77, -77, 1 << 32, (1 << 31) - 1)] + [
    sized(2, b"\x00\x01\x4d\x02"), sized(2, varint(-3) + varint(5)), sized(4, number(1, 77)),
    sized(4, number(1, 2)), sized(4, sized(2, b"\x4d\x01")), number(2, 77) + sized(2, b"\x01"),
]  # fmt: skip
_TIMES = [
    sized(field, number(1, seconds) + number(2, nanos))
    for field in (1, 2)
    for seconds, nanos in [
        (0, 0), (1, 1_999), (-1, -1_999), (9_223_372_036_854, 775_807_000), (9_223_372_036_855, 0),
        (-9_223_372_036_854, 0), (-9_223_372_036_855, 0), (-9_223_372_036_856, 0), (1 << 62, 0),
        ((1 << 63) - 1, 0), (9_223_372_036_854, 999_999_999), (9_223_372_036_854, (1 << 31) - 1),
        (-9_223_372_036_854, -(1 << 31)), (9_223_372_036_854_775, 0), (9_223_372_036_854_776, 0),
    ]
] + [
    sized(1, b""), sized(1, number(1, 5)) + sized(1, number(2, 5000)), sized(1, b"\x08"), number(1, 1),
    sized(3, b"") * 2 + sized(3, number(1, 3)), sized(3, number(1, 1 << 62)), sized(3, number(1, (1 << 55))),
    sized(4, number(1, 1)), sized(4, number(1, 1) + sized(2, number(2, 9000))), sized(5, number(1, 3)),
    sized(6, sized(1, b"a/b") + sized(2, b"\x08\x01")), sized(6, b""), sized(7, b""), sized(7, number(1, 0)),
    sized(8, b""), sized(8, number(1, 1)), sized(8, b"\x08"),
]  # fmt: skip
_REQUIRED = [
    b"", number(1, 1), number(1, 0), number(1, 1) + sized(2, b""), number(1, 1) + sized(2, number(1, 0)),
    number(1, 1) + sized(3, b""), number(1, 1) + sized(3, number(1, 1)), number(1, 1) + sized(4, b""),
    number(1, 1) + sized(4, sized(2, number(1, 1))), number(1, 1) + sized(4, sized(2, b"")),
    number(1, 1) + sized(5, sized(1, b"")) + number(6, 1), number(1, 1) + sized(5, sized(1, b"")),
    number(1, 1) + sized(2, b"") + sized(2, number(1, 3)), fixed32(1, 1),
]  # fmt: skip
_DEFAULTS = [
    b"", number(1, 0), sized(9, b""), sized(9, number(1, 3)), sized(9, b"") + sized(10, b"x"),
    sized(2, b""), sized(3, b""), number(8, 2), number(8, 99), sized(9, number(2, 99)), sized(11, b""),
]  # fmt: skip
_FIXED = [tag(1, 5) + bits for bits in (b"\0\0\0\x80", b"\0\0\xc0\x7f", b"\1\0\0\0", b"\0\0\x80")] + [
    fixed64(2, -0.0), fixed64(2, 0.0), fixed64(2, float("nan")), fixed32(3, -1), fixed64(4, -1), fixed32(5, -1),
    fixed64(6, -1), sized(7, b"\0\0\x80\x3f" * 2), sized(7, b"\0\0\x80"), sized(8, b"\1" * 16), sized(8, b"\1" * 9),
    sized(9, b"\1\0\x80\1\2"), sized(9, b""), sized(9, b"\x80"), fixed32(7, 2.5), number(9, 1) + sized(9, b"\0"),
    number(7, 1), sized(10, b"a") + sized(10, b"") + sized(10, b"\xff"), sized(10, b"a") + sized(10, b""), fixed32(10, 1),
]  # fmt: skip

GROUPS = [
    Group("numbers", _PROTO3 + "message M { "
          + " ".join(f"optional {kind} f{i} = {i};" for i, kind in enumerate(_VARINTS, 1)) + " }",
          _numbers()),
    Group("numbers without presence", _PROTO3 + "message M { "
          + " ".join(f"{kind} f{i} = {i};" for i, kind in enumerate(_VARINTS, 1)) + " }",
          _numbers()[:91]),
    Group("fixed and packed", _PROTO3 + "message M { float a = 1; double b = 2; fixed32 c = 3; "
          "fixed64 d = 4; sfixed32 e = 5; sfixed64 f = 6; repeated float g = 7; "
          "repeated fixed64 h = 8; repeated bool i = 9; repeated string j = 10; }", _FIXED),
    Group("texts of proto3", _PROTO3 + "message M { string a = 1; bytes b = 2; }",
          [sized(field, text) for text in _TEXTS for field in (1, 2)]),
    Group("texts of proto2", _PROTO2 + "message M { optional string a = 1; repeated string b = 2; }",
          [sized(field, text) for text in _TEXTS for field in (1, 2)]),
    Group("texts of proto2 that Java checks",
          "option java_string_check_utf8 = true; " + _PROTO2 + "message M { optional string a = 1; "
          "map<string, bytes> m = 2; }",
          [sized(1, b"\xff"), sized(1, b"a"), sized(2, sized(1, b"\xff")), sized(2, sized(2, b"\xff"))]),
    Group("wire", _PROTO3 + _INNER + "message M { int32 a = 1; string s = 2; I i = 3; "
          "repeated I r = 4; }", _WIRE),
    Group("oneof", _PROTO3 + _INNER + "message W { repeated I r = 1; I i = 2; } message N { } "
          "message M { oneof o { int32 a = 1; string s = 2; I i = 3; N n = 4; W w = 7; } "
          "optional int32 p = 5; int32 q = 6; I j = 8; }", _ONEOF),
    Group("maps", _PROTO3 + _ENUM + _INNER + "message N { } message M { map<string, int32> a = 1; "
          "map<int64, I> b = 2; map<bool, E> c = 3; map<int32, google.protobuf.Timestamp> d = 4; "
          "map<sint32, double> e = 5; map<int32, N> f = 6; int32 g = 7; }", _MAPS),
    Group("maps of proto2", _PROTO2 + _ENUM + "message I { optional int32 x = 1 [default = 7]; } "
          "message M { map<string, int32> a = 1; map<int64, I> b = 2; map<bool, E> c = 3; }", _MAPS[:14]),
    Group("open enums", _PROTO3 + _ENUM + "message I { E e = 1; repeated E r = 2; } "
          "message M { E e = 1; repeated E r = 2; optional E o = 3; I i = 4; }", _ENUMS),
    Group("closed enums", _PROTO2 + _ENUM + "message I { optional E e = 1; repeated E r = 2; } "
          "message M { optional E e = 1; repeated E r = 2; optional E o = 3 [default = FAR]; "
          "optional I i = 4; }", _ENUMS),
    Group("well-known types", _PROTO3 + "message Duration { int64 seconds = 7; int32 nanos = 2; } "
          "message M { google.protobuf.Timestamp a = 1; google.protobuf.Duration b = 2; "
          "repeated google.protobuf.Timestamp c = 3; map<int32, google.protobuf.Duration> d = 4; "
          "Duration e = 5; google.protobuf.Any f = 6; google.protobuf.Int32Value g = 7; "
          "google.protobuf.Empty h = 8; }", _TIMES),
    Group("required", _PROTO2 + "message R { required int32 x = 1; } message W { optional R r = 2; } "
          "message L { repeated R r = 1; } message M { required int32 a = 1; optional R b = 2; "
          "repeated R c = 3; map<int32, R> d = 4; oneof o { L l = 5; int32 i = 6; } }", _REQUIRED),
    Group("defaults", _PROTO2 + _ENUM + "message I { optional int32 x = 1 [default = 5]; "
          "optional E e = 2 [default = FAR]; } message M { optional int32 a = 1 [default = -7]; "
          'optional string s = 2 [default = "dé"]; optional bytes b = 3 [default = "\\000\\377\\n"]; '
          "optional double d = 4 [default = -inf]; optional float f = 5 [default = nan]; "
          "optional uint64 u = 6 [default = 18446744073709551615]; optional bool t = 7 [default = true]; "
          "optional E e = 8 [default = TWO]; optional I i = 9; oneof o { string p = 10 [default = "
          '"x"]; int32 q = 11 [default = 4]; } }', _DEFAULTS),
]  # fmt: skip
