"""Random Protobuf files, and random values of their messages: good, odd and damaged ones."""

from __future__ import annotations

import struct
from random import Random

from kfetch.formats.protobuf import field_table as table
from kfetch.formats.protobuf.descriptors import Descriptors
from kfetch.formats.protobuf.types import Field, MessageType
from tests.kfetch.formats.protobuf.wire import fixed32, fixed64, group, number, sized, tag, varint

__all__ = ["file_text", "value"]

_SCALARS = ["double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string",
            "bytes", "uint32", "sfixed32", "sfixed64", "sint32", "sint64"]  # fmt: skip
_KEYS = [kind for kind in _SCALARS if kind not in ("double", "float", "bytes")]
_KNOWN = [f"google.protobuf.{name}" for name in
          ("Timestamp", "Duration", "Any", "Empty", "Int32Value", "StringValue")]  # fmt: skip
_DEFAULTS = {"double": "-1.5e300", "float": "inf", "bool": "true", "string": '"défaut"',
             "bytes": r'"\000\377a\n"', "uint32": "4294967295", "fixed64": "18446744073709551615",
             "E": "FAR"}  # fmt: skip
_ENUM = "enum E { ZERO = 0; ONE = 1; TWO = 2; FAR = 1000; NEG = -3; BIG = 2147483647; }"

# Files.


def file_text(rng: Random) -> str:
    """Returns the text of a .proto file with the message t.M."""
    is_proto3 = rng.random() < 0.6
    lines = [f'syntax = "proto{3 if is_proto3 else 2}"; package t;', _ENUM, "message Nothing { }"]
    if not is_proto3 and rng.random() < 0.3:
        lines.append("option java_string_check_utf8 = true;")
    types = [*_KNOWN, "Nothing"]
    for name in ("C", "B", "M"):
        body = " ".join(_fields(rng, is_proto3, [*_SCALARS, "E", "E", *types, *types[6:]]))
        last = f"{'' if is_proto3 else 'optional '}int32 last = 5000;"  # so it has a field
        lines.append(f"message {name} {{ {body} {last} }}")
        types.append(name)
    return "\n".join(lines)


def _fields(rng: Random, is_proto3: bool, types: list[str]) -> list[str]:
    numbers = rng.sample([*range(1, 20), 100, 2047, 2048, 536870911], rng.randint(1, 12))
    made, inside = [], 0
    for at in numbers:
        kind, chance = rng.choice(types), rng.random()
        if inside:
            made.append(f"{kind} f{at} = {at};" + (" }" if inside == 1 else ""))
            inside -= 1
        elif chance < 0.15 and len(made) < len(numbers) - 1:
            made.append(f"oneof o{at} {{ {kind} f{at} = {at};")
            inside = min(rng.randint(1, 3), len(numbers) - len(made))
        elif chance < 0.3:
            made.append(f"map<{rng.choice(_KEYS)}, {kind}> f{at} = {at};")
        elif chance < 0.55:
            made.append(f"repeated {kind} f{at} = {at};")
        elif is_proto3:
            made.append(f"{'optional ' if chance < 0.65 else ''}{kind} f{at} = {at};")
        else:
            made.append(_proto2_field(rng, kind, at))
    return made


def _proto2_field(rng: Random, kind: str, at: int) -> str:
    label = "required" if rng.random() < 0.1 else "optional"
    default = ""
    if rng.random() < 0.4 and (kind in _SCALARS or kind == "E"):
        default = f" [default = {_DEFAULTS.get(kind, '7')}]"
    return f"{label} {kind} f{at} = {at}{default};"


# Values.


def value(rng: Random, types: Descriptors, name: str, damage: float) -> bytes:
    """Returns a value of a message. ``damage``: how likely each oddity is."""
    made = _message(rng, types, types.messages[name], damage, 0)
    if rng.random() < damage and made:
        at = rng.randrange(len(made))
        odd = rng.choice([b"", made[at + 1 :], bytes([rng.randrange(256)]) + made[at + 1 :]])
        return made[:at] + odd
    return made


def _message(
    rng: Random, types: Descriptors, message: MessageType, damage: float, depth: int
) -> bytes:
    fields = message.fields
    if rng.random() < 0.6 or not fields:
        chosen = [each for each in fields if each.is_required or rng.random() < 0.7]
    else:
        chosen = [rng.choice(fields) for _ in range(rng.randint(0, 2 * len(fields)))]
    parts = [_field(rng, types, each, damage, depth) for each in chosen]
    if rng.random() < damage:
        parts.insert(rng.randint(0, len(parts)), _odd_field(rng, message))
    if rng.random() < 0.3:
        rng.shuffle(parts)
    return b"".join(parts)


def _odd_field(rng: Random, message: MessageType) -> bytes:
    """Returns an unknown field, a known one with another wire type, or bytes that are none."""
    at = rng.choice([each.number for each in message.fields] or [1])
    if rng.random() < 0.7:
        at = rng.choice([21, 99, 3000])
    inner = number(5, 1) + group(7, sized(1, b"x"))
    return rng.choice([
        number(at, rng.getrandbits(64)), fixed32(at, 1.5), fixed64(at, 2.5), sized(at, b"\xff\x00"),
        group(at), group(at, inner), tag(at, 3) + tag(at + 1, 4), tag(at, 4), tag(at, 6), tag(0, 0),
        tag(at, 3), varint((at << 3) | 1 << 40, 1) + varint(3), b"\xff" * 11,
    ])  # fmt: skip


def _field(rng: Random, types: Descriptors, each: Field, damage: float, depth: int) -> bytes:
    count = rng.choice([0, 1, 1, 2, 5]) if each.is_repeated else 1
    packable = each.type not in (
        table.STRING_TYPE,
        table.BYTES_TYPE,
        table.MESSAGE_TYPE,
    )
    if each.is_repeated and packable and rng.random() < 0.6:
        return sized(
            each.number, b"".join(_payload(rng, types, each, damage) for _ in range(count))
        )
    if each.type == table.MESSAGE_TYPE:
        message = types.messages[each.type_name]
        return b"".join(
            sized(each.number, _message(rng, types, message, damage, depth + 1))
            for _ in range(count)
        )
    wires = {
        **dict.fromkeys((table.DOUBLE_TYPE, table.FIXED64_TYPE, table.SFIXED64_TYPE), 1),
        **dict.fromkeys((table.FLOAT_TYPE, table.FIXED32_TYPE, table.SFIXED32_TYPE), 5),
        **dict.fromkeys((table.STRING_TYPE, table.BYTES_TYPE), 2),
    }
    head = tag(each.number, wires.get(each.type, 0))
    return b"".join(head + _payload(rng, types, each, damage) for _ in range(count))


def _payload(rng: Random, types: Descriptors, each: Field, damage: float) -> bytes:
    """Returns a scalar without its tag."""
    kind = each.type
    if kind == table.DOUBLE_TYPE:
        return struct.pack("<d", rng.choice([0.0, -0.0, 1.5, float("inf"), float("nan"), 1e-320]))
    if kind == table.FLOAT_TYPE:
        return struct.pack("<f", rng.choice([0.0, -0.0, 1.5, float("-inf"), float("nan"), 1e-44]))
    if kind in (table.FIXED64_TYPE, table.SFIXED64_TYPE):
        return struct.pack("<Q", rng.choice([0, 1, (1 << 64) - 1, 1 << 63, rng.getrandbits(64)]))
    if kind in (table.FIXED32_TYPE, table.SFIXED32_TYPE):
        return struct.pack("<I", rng.choice([0, 1, (1 << 32) - 1, 1 << 31, rng.getrandbits(32)]))
    if kind in (table.STRING_TYPE, table.BYTES_TYPE):
        text = rng.choice(["", "a", "Łódź", "😀" * 3, "x" * 40, "\x00"]).encode()
        if rng.random() < damage / 4:
            text += bytes(rng.choice([0x80, 0xC3, 0xE2, 0xED, 0xA0, 0xF0, 0x9F, 0xF5, 0x41, 0xFF])
                          for _ in range(rng.randint(1, 5)))  # fmt: skip
        return varint(len(text)) + text
    if kind == table.ENUM_TYPE:
        known = list(types.enums[each.type_name].names)
        chosen = rng.choice(known) if rng.random() > damage else rng.randint(-5, 5)
        return varint(chosen)
    small = rng.choice([0, 1, 2, 127, 128, 300, -1, 1_700_000_000, 999_999_999])
    edges = [1 << 31, (1 << 31) - 1, -(1 << 31), 1 << 32, 1 << 63, (1 << 63) - 1, 1 << 35]
    chosen = small if rng.random() < 0.8 else rng.choice([*edges, rng.getrandbits(64)])
    return varint(chosen, rng.randint(1, 3) if rng.random() < damage / 4 and chosen >= 0 else 0)
