"""The option ``columns``: which columns a query delivers, in which order, and every mistake."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.errors import NotBuilt, OptionError
from kfetch.options.columns import HEADERS_ARRAY, HEADERS_MAP, Column
from kfetch.spark.options import parse
from tests.kfetch.options.test_parsing import REQUIRED

ALL = {
    "includeHeaders": "true",
    "includeLeaderEpoch": "true",
    "includeSerializedSizes": "true",
}
TYPES = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": HEADERS_ARRAY,
    "leaderEpoch": "int",
    "serializedKeySize": "int",
    "serializedValueSize": "int",
}
VALUE = Column("value", "binary")
OFFSET = Column("offset", "bigint")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("value", [VALUE]),
        (" offset , value,", [OFFSET, VALUE]),
        ("value BINARY, offset bigint", [VALUE, OFFSET]),
        ("value String,offset LONG", [Column("value", "string"), OFFSET]),
        ("key string", [Column("key", "string")]),
        (
            "headers ARRAY < STRUCT<key: STRING, value BINARY> >, partition  INTEGER",
            [Column("headers", HEADERS_ARRAY), Column("partition", "int")],
        ),
    ],
)
def test_columns(text: str, expected: list[Column]) -> None:
    """The option names columns in their order, each with or without its type."""
    assert tuple(expected) == parse({**REQUIRED, **ALL, "columns": text}).columns


@given(st.permutations(list(TYPES)), st.integers(1, len(TYPES)))
def test_any_selection(names: list[str], count: int) -> None:
    """Any columns in any order can be selected, in streams and in batch reads."""
    given = {**REQUIRED, **ALL, "columns": ",".join(names[:count])}
    expected = tuple(Column(name, TYPES[name]) for name in names[:count])

    assert expected == parse(given).columns == parse(given, batch=True).columns


@pytest.mark.parametrize(
    ("text", "array", "as_map"),
    [("true", True, False), ("Map", True, True), ("false", False, False)],
)
def test_forms_of_headers(text: str, array: bool, as_map: bool) -> None:
    """includeHeaders=map gives a map in place of the array."""
    includes = parse({**REQUIRED, "includeHeaders": text}).includes

    assert (array, as_map) == (includes.headers, includes.headers_as_map)


def test_a_map_of_headers_is_a_column() -> None:
    """With includeHeaders=map, the column has the type of a map, and may be named with it."""
    for text in ("headers", "headers MAP<STRING, BINARY>"):
        options = parse({**REQUIRED, "includeHeaders": "map", "columns": text})
        assert (Column("headers", HEADERS_MAP),) == options.columns


NAMES = (
    "key, value, topic, partition, offset, timestamp, timestampType, headers, leaderEpoch, "
    "serializedKeySize, serializedValueSize, deadLetter"
)
MISTAKES = [
    (
        " , ",
        "option columns is ',', but it must name columns, such as value,partition,offset",
    ),
    ("value,value", "option columns has value twice: name each column once"),
    (
        "value,key,value STRING",
        "option columns has value twice: name each column once",
    ),
    (
        "Value",
        "option columns has Value, which is no column of the source: did you mean value?",
    ),
    (
        "value,ofset",
        "option columns has ofset, which is no column of the source: did you mean offset?",
    ),
    (
        "colour",
        f"option columns has colour, which is no column of the source: there are {NAMES}",
    ),
    (
        "value,headers",
        "option columns has headers, which this query does not include: set includeHeaders=true",
    ),
    (
        "leaderEpoch",
        "option columns has leaderEpoch, which this query does not include: set "
        "includeLeaderEpoch=true",
    ),
    (
        "serializedValueSize",
        "option columns has serializedValueSize, which this query does not include: set "
        "includeSerializedSizes=true",
    ),
    (
        "offset INT",
        "option columns has offset int, but the column is bigint: read it with this type, and cast "
        "it in the DataFrame",
    ),
    (
        "key INT",
        "option columns has key int, but the column is binary or string: read it with this type, "
        "and cast it in the DataFrame",
    ),
    (
        "topic BINARY",
        "option columns has topic binary, but the column is string: read it with this type, and "
        "cast it in the DataFrame",
    ),
]


@pytest.mark.parametrize(("text", "sentence"), MISTAKES, ids=[row[0] for row in MISTAKES])
def test_mistakes(text: str, sentence: str) -> None:
    """Each mistake has one sentence that names the column and says what to do."""
    with pytest.raises(OptionError) as refused:
        parse({**REQUIRED, "columns": text})

    assert sentence == refused.value.message
    assert not isinstance(refused.value, NotBuilt)


def test_the_other_form_of_headers() -> None:
    """A type that belongs to the other form of includeHeaders names the form."""
    with pytest.raises(OptionError) as refused:
        parse({**REQUIRED, "includeHeaders": "true", "columns": "headers MAP<STRING,BINARY>"})

    assert refused.value.message == (
        "option columns has headers map<string,binary>, but the column is "
        "array<struct<key:string,value:binary>>: includeHeaders=true gives an array, and "
        "includeHeaders=map gives a map"
    )


@pytest.mark.parametrize("text", ["value STRUCT<id: BIGINT, at: STRING>", "key MAP<STRING, INT>"])
def test_fields_need_a_format(text: str) -> None:
    """The option columns gives no types of fields, and the error says what does."""
    name = text.split()[0]
    with pytest.raises(OptionError) as refused:
        parse({**REQUIRED, "columns": f"offset, {text}"})

    assert refused.value.message.endswith(
        f", but only {name}Format=json, avro or protobuf gives it fields: set one of them with its "
        f"options and name it without a type, or read {name} as STRING"
    )


@given(st.text("valueoffset ,<>():STRINGkey", max_size=40))
def test_any_text(text: str) -> None:
    """Any text gives columns or OptionError."""
    try:
        columns = parse({**REQUIRED, "columns": text}).columns
    except OptionError:
        return

    assert columns
