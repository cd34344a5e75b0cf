"""The columns as Spark's types, and the schemas of users."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
)

from kfetch import records
from kfetch.errors import NotBuilt, OptionError
from kfetch.fetch.part_decoder import record_columns
from kfetch.formats.columns.ddl import parse_schema
from kfetch.formats.columns.struct_column import arrow_type
from kfetch.options import SourceOptions
from kfetch.spark.options import parse
from kfetch.spark.schema import schema, with_schema
from tests.kfetch.spark.arrow import derived_schema

REQUIRED = {"kafka.bootstrap.servers": "h:9092", "subscribe": "t"}
ALL = {"includeLeaderEpoch": "true", "includeSerializedSizes": "true"}
TEXT = StringType()


def options(**given: str) -> SourceOptions:
    """The options of a stream."""
    return parse({**REQUIRED, **given})


def struct(**types: DataType) -> StructType:
    """A schema of these columns."""
    return StructType([StructField(name, kind) for name, kind in types.items()])


@given(st.data(), st.sampled_from(["true", "map"]))
def test_schema_of_the_batches(data: st.DataObject, headers: str) -> None:
    """The Arrow batches of any columns have exactly the schema that Spark derives from them, by the
    option and by a user's schema."""
    everything = schema(options(**ALL, includeHeaders=headers))
    names = data.draw(st.lists(st.sampled_from(everything.names), min_size=1, unique=True))
    texts = data.draw(st.sets(st.sampled_from(["key", "value"])))
    entries = [f"{name} STRING" if name in texts else name for name in names]
    by_option = options(**ALL, includeHeaders=headers, columns=",".join(entries))
    given = StructType(
        [StructField(name, TEXT) if name in texts else everything[name] for name in names]
    )
    by_schema = with_schema(options(**ALL, includeHeaders=headers), given)

    assert given == schema(by_option) == schema(by_schema)
    assert by_option == by_schema == with_schema(by_option, given)
    derived = derived_schema(given)
    assert derived.equals(records.schema_of(record_columns(by_option)))


def test_sparks_own_schema_changes_nothing() -> None:
    """Without a user's schema Spark passes the source's own, and all columns are delivered."""
    for asked in ({}, {"includeHeaders": "true"}, {"includeHeaders": "map", **ALL}):
        own = options(**asked)
        assert schema(own) == schema(with_schema(own, schema(own)))
        assert own == replace(with_schema(own, schema(own)), columns=())


def test_a_comment_of_a_column() -> None:
    """Metadata of a user's columns, such as a comment, does not matter."""
    given = StructType([StructField("value", BinaryType(), metadata={"comment": "the payload"})])

    assert ["value"] == schema(with_schema(options(), given)).names


CAST = "read it with this type, and cast it in the DataFrame"
MISTAKES = {
    "unknown": (
        struct(value=BinaryType(), ofset=LongType()),
        "the schema has ofset, which is no column of the source: did you mean offset?",
    ),
    "twice": (
        StructType([StructField("value", TEXT)] * 2),
        "the schema has value twice: name each column once",
    ),
    "not included": (
        struct(leaderEpoch=IntegerType()),
        "the schema has leaderEpoch, which this query does not include: set "
        "includeLeaderEpoch=true",
    ),
    "another type": (
        struct(timestamp=TimestampNTZType()),
        f"the schema has timestamp timestamp_ntz, but the column is timestamp: {CAST}",
    ),
    "another collation": (
        struct(value=StringType("UTF8_LCASE")),
        "the schema has value string collate UTF8_LCASE, but the column is binary or string: "
        f"{CAST}",
    ),
    "not null": (
        StructType([StructField("value", BinaryType(), nullable=False)]),
        f"the schema has value binary not null, but the column is binary or string: {CAST}",
    ),
    "no columns": (StructType([]), "the schema has no columns: remove .schema(…)"),
}


@pytest.mark.parametrize(("given", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes(given: StructType, sentence: str) -> None:
    """A schema that the source can't deliver is refused in one sentence."""
    with pytest.raises(OptionError) as refused:
        with_schema(options(), given)

    assert sentence == refused.value.message
    assert not isinstance(refused.value, NotBuilt)


def test_headers_whose_elements_are_never_null() -> None:
    """Types that differ in a nested nullability only are refused, too: Spark would fail later."""
    header = StructType([StructField("key", TEXT), StructField("value", BinaryType())])
    for kind, form in (
        (ArrayType(header, containsNull=False), "true"),
        (MapType(TEXT, BinaryType(), valueContainsNull=False), "map"),
    ):
        with pytest.raises(OptionError, match=r"the schema has headers .* with not null, but"):
            with_schema(options(includeHeaders=form), struct(headers=kind))


def test_a_value_with_fields_needs_a_format() -> None:
    """A struct as value without a valueFormat that has fields is an error that says so."""
    with pytest.raises(OptionError) as refused:
        with_schema(options(), struct(value=struct(id=LongType()), offset=LongType()))

    assert refused.value.message == (
        "the schema has value struct<id:bigint>, but only valueFormat=json, avro or protobuf gives "
        "it fields: set one of them with its options, or read value as STRING"
    )


@pytest.mark.parametrize(
    "given",
    [
        struct(offset=LongType(), value=BinaryType()),
        struct(value=BinaryType()),
        struct(value=TEXT, offset=LongType()),
    ],
    ids=["order", "columns", "types"],
)
def test_option_and_schema_must_agree(given: StructType) -> None:
    """The option and the schema name the same columns, in the same order, with the same types."""
    with pytest.raises(OptionError) as refused:
        with_schema(options(columns="value, offset"), given)

    assert refused.value.message.startswith(
        "option columns (value binary, offset bigint) and the schema ("
    )
    assert refused.value.message.endswith(
        ") differ: give one of them, or both with the same columns, order and types"
    )


STRUCT = StructType([StructField("id", IntegerType()), StructField("t", StringType())])
BOTH = pytest.mark.parametrize("name", ["key", "value"])


def typed(name: str, **more: str) -> dict[str, str]:
    """The options of a column in JSON. ``more``: the last words of others."""
    given = {"Format": "json", "Schema": "id INT, t STRING", **more}
    return {name + rest: text for rest, text in given.items()}


@BOTH
@pytest.mark.parametrize("columns", [None, "offset,%", "%", "headers,%"])
def test_columns_in_json_are_structs(name: str, columns: str | None) -> None:
    """The source's schema has the struct. Spark's copy of it changes nothing."""
    chosen = {"columns": columns.replace("%", name)} if columns else {}
    given = options(**typed(name), **chosen, includeHeaders="true")
    own = schema(given)

    assert STRUCT == own[name].dataType
    assert own == schema(with_schema(given, own))


@BOTH
def test_a_user_s_schema_may_have_the_struct(name: str) -> None:
    """A user's schema chooses columns beside a struct, and the other column keeps its bytes."""
    other = "value" if name == "key" else "key"
    given = StructType([StructField(other, BinaryType()), StructField(name, STRUCT)])

    assert given == schema(with_schema(options(**typed(name)), given))


@BOTH
@pytest.mark.parametrize(
    "text", ["id INT", STRUCT.json(), "STRUCT<a: DECIMAL(3,1), m: MAP<STRING, DATE>>"]
)
def test_the_struct_s_type_is_that_of_the_arrow_column(name: str, text: str) -> None:
    """Spark compares the type of the batches with that of its schema."""
    own = schema(options(**typed(name, Schema=text)))
    derived = derived_schema(own).field(name).type

    assert arrow_type(parse_schema(text)) == derived


@BOTH
@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"columns": "offset"}, "the query reads no %: read % without a type, or remove %Format"),
        ({"columns": "% STRING"}, "the query reads % string"),
        ({"%Schema": "id FOO"}, "%Schema is no schema: FOO is no type of Spark"),
        (
            {"%Schema": "_corrupt_record INT"},
            "%Schema gives the field _corrupt_record the type INT, but it gets the text of values",
        ),
        ({"%Schema": "t TIMESTAMP"}, "option %TimeZone must name the zone"),
    ],
)
def test_columns_in_json_that_can_t_be_read(name: str, more: dict[str, str], words: str) -> None:
    """Contradictions are one clear error before the query starts."""
    given = {key.replace("%", name): text.replace("%", name) for key, text in more.items()}
    with pytest.raises(OptionError, match=words.replace("%", name)):
        schema(options(**{**typed(name), **given}))


@BOTH
def test_a_schema_with_another_struct_is_an_error(name: str) -> None:
    """The type of the user's schema must be that of keySchema or valueSchema."""
    other = StructType([StructField(name, StructType([StructField("id", LongType())]))])
    with pytest.raises(OptionError) as refused:
        with_schema(options(**typed(name)), other)
    assert (
        f"the schema has {name} struct<id:bigint>, and {name}Format makes it struct<id:int,"
        "t:string>: give the same type, or remove .schema(…)"
    ) == refused.value.message


_DEEP = "a STRUCT<b: ARRAY<INT>>, m MAP<STRING, INT>"


@pytest.mark.parametrize(
    ("array", "pairs", "words"),
    [
        (
            StructField("b", ArrayType(IntegerType(), containsNull=False)),
            MapType(TEXT, IntegerType()),
            "has value.a.b.element int NOT NULL, and valueFormat makes it int: ",
        ),
        (
            StructField("b", ArrayType(IntegerType()), nullable=False),
            MapType(TEXT, IntegerType()),
            "has value.a.b array<int> NOT NULL, and valueFormat makes it array<int>: ",
        ),
        (
            StructField("b", ArrayType(IntegerType())),
            MapType(TEXT, LongType()),
            "has value.m.value bigint, and valueFormat makes it int: ",
        ),
        (
            StructField("b", ArrayType(IntegerType())),
            MapType(IntegerType(), IntegerType()),
            "has value.m.key int, and valueFormat makes it string: ",
        ),
    ],
)
def test_the_part_that_differs_is_named(array: StructField, pairs: MapType, words: str) -> None:
    """Types that differ in NOT NULL deep inside look the same as a whole."""
    given = struct(value=struct(a=StructType([array]), m=pairs))
    with pytest.raises(OptionError) as refused:
        with_schema(options(**typed("value", Schema=_DEEP)), given)
    assert words in refused.value.message


def test_comments_in_a_struct_make_no_difference() -> None:
    """A user's schema may have comments at any level."""
    field = StructField("b", ArrayType(IntegerType()), metadata={"comment": "x"})
    given = struct(value=struct(a=StructType([field]), m=MapType(TEXT, IntegerType())))
    read = with_schema(options(**typed("value", Schema=_DEEP)), given)
    assert given.simpleString() == schema(read).simpleString()


@BOTH
def test_a_schema_with_bytes_beside_a_format_is_an_error(name: str) -> None:
    """A schema with BINARY and a format contradict each other."""
    given = StructType([StructField(name, BinaryType())])
    with pytest.raises(OptionError, match=f"has {name} BINARY, and {name}Format makes it a struct"):
        with_schema(options(**typed(name)), given)


@BOTH
@pytest.mark.parametrize("columns", [None, "offset,%", "% STRING"])
def test_strings_by_format(name: str, columns: str | None) -> None:
    """The format string gives the schema of the column's type STRING, with any other options."""
    chosen = {"columns": columns.replace("%", name)} if columns else {}
    given = options(**{f"{name}Format": "string"}, **chosen, includeHeaders="map")
    own = schema(given)

    assert TEXT == own[name].dataType
    assert own == schema(with_schema(given, own))
    assert (name,) == tuple(column.name for column in given.delivered if column.is_decoded)


@BOTH
def test_strings_that_can_t_be_read(name: str) -> None:
    """A schema without the column, or with its bytes, contradicts the format."""
    given = options(**{f"{name}Format": "string"})
    with pytest.raises(OptionError, match=f"makes the {name} a string, and the query reads no"):
        with_schema(given, struct(offset=LongType()))
    with pytest.raises(OptionError, match=f"{name} binary, but {name}Format=string makes it a"):
        with_schema(given, StructType([StructField(name, BinaryType())]))


LETTERS = {"deadLetters": "column"}
LETTER = StructType(
    [
        StructField("error", TEXT),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
    ]
)


@BOTH
@pytest.mark.parametrize("columns", [None, "deadLetter,%", "%,offset,deadLetter"])
def test_dead_letters(name: str, columns: str | None) -> None:
    """They are a column, the last one unless columns says another place. A user's schema may have
    it, too. The record decoder does not build it."""
    chosen = {"columns": columns.replace("%", name)} if columns else {}
    given = options(**typed(name), **LETTERS, **chosen)
    own = schema(given)

    assert LETTER == own["deadLetter"].dataType
    assert columns or own.names[-1] == "deadLetter"
    assert own == schema(with_schema(given, own))
    assert "deadLetter" not in record_columns(given).names
    assert own == schema(with_schema(options(**typed(name), **LETTERS), own))


@BOTH
def test_dead_letters_that_nobody_reads(name: str) -> None:
    """Leaving the column out would lose records in silence. The column needs its option."""
    with pytest.raises(OptionError, match="adds the column deadLetter, and the query does not"):
        schema(options(**typed(name), **LETTERS, columns=name))
    with pytest.raises(OptionError, match="which this query does not include: set deadLetters=col"):
        schema(options(**typed(name), columns=f"{name},deadLetter"))
