"""The columns that a query delivers: the option ``columns``, and the checks of a user's schema.

Types are written as Spark's ``simpleString`` writes them: ``bigint``, ``array<struct<…>>``. Without
Spark, because options are pure.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from kfetch.errors import OptionError
from kfetch.options.converters import boolean, one_of
from kfetch.options.option import Option, OptionReader, by_name

STRING = "string"
HEADERS_ARRAY = "array<struct<key:string,value:binary>>"
HEADERS_MAP = "map<string,binary>"
DEAD_LETTER = "deadLetter"
DEAD_LETTER_TYPE = "struct<error:string,key:binary,value:binary>"


class Column(NamedTuple):
    """A column of the source."""

    name: str
    type: str = ""
    """As ``simpleString`` writes it. Empty in the option ``columns``: the source's own type."""

    @property
    def is_decoded(self) -> bool:
        """Whether it is a key or a value as a string."""
        return self.name in _BYTES and self.type == STRING

    def __str__(self) -> str:
        """The column as in Spark's DDL."""
        return f"{self.name} {self.type}" if self.type else self.name


class Includes(NamedTuple):
    """The columns beside the seven of Spark's connector, as the include… options say."""

    headers: bool = False
    headers_as_map: bool = False
    """Whether ``headers`` is a map, with the last value of each key."""
    leader_epoch: bool = False
    serialized_sizes: bool = False
    dead_letters: bool = False
    """``deadLetters=column``."""


OPTION = Option(
    "columns",
    "deliver only these columns, in this order, such as `value,partition,offset`; see "
    "docs/how-to/columns.md",
    default="all",
)


INCLUDES = by_name(
    Option(
        "includeHeaders",
        "adds the column `headers`, an array; `map`: as a map, with each key's last value",
        one_of("true", "false", "map"),
        "false",
    ),
    Option(
        "includeLeaderEpoch",
        "adds `leaderEpoch int`; null where brokers had none",
        boolean,
        "false",
    ),
    Option(
        "includeSerializedSizes",
        "adds `serializedKeySize int`, `serializedValueSize int`: bytes, null for null",
        boolean,
        "false",
    ),
)


_SEVEN = (
    Column("key", "binary"),
    Column("value", "binary"),
    Column("topic", STRING),
    Column("partition", "int"),
    Column("offset", "bigint"),
    Column("timestamp", "timestamp"),
    Column("timestampType", "int"),
)
_OPTION_OF = {
    "headers": "includeHeaders=true",
    "leaderEpoch": "includeLeaderEpoch=true",
    "serializedKeySize": "includeSerializedSizes=true",
    "serializedValueSize": "includeSerializedSizes=true",
    DEAD_LETTER: "deadLetters=column",
}
_NAMES = (*(column.name for column in _SEVEN), *_OPTION_OF)
_BYTES = ("key", "value")
"""The columns that may also be strings."""
_NESTED = ("struct", "array", "map", "variant")
_SYNONYMS = {"integer": "int", "long": "bigint"}


def columns_of(includes: Includes, strings: Collection[str] = ()) -> tuple[Column, ...]:
    """Returns all columns of a query without the option ``columns``, in their order.

    ``strings``: those of ``key`` and ``value`` that are strings by their format.
    """
    optional = []
    if includes.headers:
        optional.append(
            Column("headers", HEADERS_MAP if includes.headers_as_map else HEADERS_ARRAY)
        )
    if includes.leader_epoch:
        optional.append(Column("leaderEpoch", "int"))
    if includes.serialized_sizes:
        optional += [Column("serializedKeySize", "int"), Column("serializedValueSize", "int")]
    if includes.dead_letters:
        optional.append(Column(DEAD_LETTER, DEAD_LETTER_TYPE))
    seven = (Column(item.name, STRING) if item.name in strings else item for item in _SEVEN)
    return (*seven, *optional)


def included(read: OptionReader, *, dead_letters: bool) -> Includes:
    """Returns what the include… options say. Raises OptionError."""
    headers = read(INCLUDES["includeHeaders"])
    return Includes(
        headers=headers != "false",
        headers_as_map=headers == "map",
        leader_epoch=read(INCLUDES["includeLeaderEpoch"]),
        serialized_sizes=read(INCLUDES["includeSerializedSizes"]),
        dead_letters=dead_letters,
    )


def parsed(
    read: OptionReader,
    includes: Includes,
    strings: Collection[str] = (),
    structs: Collection[str] = (),
) -> tuple[Column, ...]:
    """Returns the columns of the option ``columns``; none if the option is not set.

    Each entry is a name, or a name and a type. ``structs``: those of ``key`` and ``value`` that
    a format decodes. Raises OptionError.
    """
    if OPTION.name not in read:
        return ()
    text = read.text(OPTION.name)
    entries = [entry.split(None, 1) for entry in map(str.strip, _entries(text)) if entry]
    if not entries:
        raise OptionError.about(
            "columns", f"is {text!r}, but it must name columns, such as value,partition,offset"
        )
    named = [Column(name, _normal(*of_type)) for name, *of_type in entries]
    for name, kind in named:
        if name in structs and kind == "binary":
            raise _problem(
                f"option columns has {name} BINARY, and {name}Format makes it a struct",
                f"name {name} without a type, or remove {name}Format",
            )
    return checked(named, includes, "option columns", strings)


def checked(
    columns: Iterable[Column], includes: Includes, where: str, strings: Collection[str] = ()
) -> tuple[Column, ...]:
    """Returns columns that a query can deliver, each with its type.

    ``where``: what names them, for errors. ``strings``: as for ``columns_of``. Raises OptionError.
    """
    available = {column.name: column for column in columns_of(includes, strings)}
    selected: dict[str, Column] = {}
    for column in columns:
        if column.name not in available:
            raise _missing(column.name, where)
        if column.name in selected:
            raise _problem(f"{where} has {column.name} twice", "name each column once")
        selected[column.name] = _typed(column, available[column.name], where)
    return tuple(selected.values())


def check_same(option: Sequence[Column], schema: Sequence[Column]) -> None:
    """Raises OptionError unless the option ``columns`` and the schema say the same."""
    if option and tuple(option) != tuple(schema):
        raise _problem(
            f"option columns ({_listed(option)}) and the schema ({_listed(schema)}) differ",
            "give one of them, or both with the same columns, order and types",
        )


def _typed(column: Column, own: Column, where: str) -> Column:
    if not column.type:
        return own
    if column.type == own.type or (column.type == STRING and own.name in _BYTES):
        return column
    if own.name in _BYTES and column.type.startswith(_NESTED):
        untyped = " and name it without a type" if where.startswith("option") else ""
        raise _problem(
            f"{where} has {column}, but only {own.name}Format=json, avro or protobuf gives it "
            "fields",
            f"set one of them with its options{untyped}, or read {own.name} as STRING",
        )
    if own.name in _BYTES and own.type == STRING and column.type == "binary":
        raise _problem(
            f"{where} has {column}, but {own.name}Format=string makes it a string",
            f"remove one of them, or read {own.name} STRING",
        )
    types = "binary or string" if own.name in _BYTES else own.type
    advice = "read it with this type, and cast it in the DataFrame"
    if own.type in (HEADERS_ARRAY, HEADERS_MAP):
        advice = "includeHeaders=true gives an array, and includeHeaders=map gives a map"
    raise _problem(f"{where} has {column}, but the column is {types}", advice)


def _missing(name: str, where: str) -> OptionError:
    if name in _OPTION_OF:
        advice = f"set {_OPTION_OF[name]}"
        return _problem(f"{where} has {name}, which this query does not include", advice)
    lowered = {known.lower(): known for known in _NAMES}
    near = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.7)
    advice = f"did you mean {lowered[near[0]]}?" if near else f"there are {', '.join(_NAMES)}"
    return _problem(f"{where} has {name}, which is no column of the source", advice)


def _problem(what: str, action: str) -> OptionError:
    return OptionError(what, action=action, option="columns")


def _listed(columns: Iterable[Column]) -> str:
    return ", ".join(map(str, columns))


def _normal(of_type: str = "") -> str:
    """Returns a type as ``simpleString`` writes it."""
    text = re.sub(r"\s*([<>:,])\s*", r"\1", " ".join(of_type.lower().split()))
    # In DDL the colon of a struct's field is optional.
    text = re.sub(r"([<,]\w+) (?=\w)", r"\1:", text)
    return _SYNONYMS.get(text, text)


def _entries(text: str) -> Iterator[str]:
    """Yields the parts between commas that lie outside brackets."""
    depth, start = 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0:
            yield text[start:at]
            start = at + 1
    yield text[start:]
