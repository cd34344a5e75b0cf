"""The columns as Spark's types, and the schemas of users."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
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
from kfetch.options import SourceOptions, parse
from kfetch.records import Columns
from kfetch.schema import schema, with_schema
from kfetch.values.ddl import parse_schema
from kfetch.values.types import arrow_type

REQUIRED = {"kafka.bootstrap.servers": "h:9092", "subscribe": "t"}
ALL = {"includeLeaderEpoch": "true", "includeSerializedSizes": "true"}
TEXT = StringType()


def options(**given: str) -> SourceOptions:
    """The options of a stream."""
    return parse({**REQUIRED, **given})


def struct(**types: DataType) -> StructType:
    """A schema of these columns."""
    return StructType([StructField(name, kind) for name, kind in types.items()])


def arrow_columns(of: SourceOptions) -> Columns:
    """The columns that a reader passes to the decoder."""
    return Columns(
        **of.includes._asdict(),
        names=tuple(column.name for column in of.columns),
        strings=tuple(column.name for column in of.columns if column.is_decoded),
    )


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
    derived = to_arrow_schema(given, timezone="UTC")
    assert derived.equals(records.schema_of(arrow_columns(by_option)))


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


def test_a_value_with_fields_is_not_built() -> None:
    """A struct as value is an error of its own class."""
    given = struct(value=struct(id=LongType()), offset=LongType())
    with pytest.raises(NotBuilt) as refused:
        with_schema(options(), given)

    assert refused.value.message == (
        "the schema has value struct<id:bigint>, and kfetch does not decode a value into fields "
        "yet: read value as STRING, and use from_json in the DataFrame"
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
JSON = {"valueFormat": "json", "valueSchema": "id INT, t STRING"}


@pytest.mark.parametrize("columns", [None, "offset,value", "value BINARY"])
def test_values_in_json_are_structs(columns: str | None) -> None:
    """The source's schema has the struct. Spark's copy of it changes nothing."""
    given = options(**JSON, **({"columns": columns} if columns else {}))
    own = schema(given)

    assert STRUCT == own["value"].dataType
    assert own == schema(with_schema(given, own))


@pytest.mark.parametrize(
    "text", ["id INT", STRUCT.json(), "STRUCT<a: DECIMAL(3,1), m: MAP<STRING, DATE>>"]
)
def test_the_struct_s_type_is_that_of_the_arrow_column(text: str) -> None:
    """Spark compares the type of the batches with that of its schema."""
    own = schema(options(valueFormat="json", valueSchema=text))
    derived = to_arrow_schema(own, timezone="UTC").field("value").type

    assert arrow_type(parse_schema(text)) == derived


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"columns": "offset"}, "the query reads no value"),
        ({"columns": "value STRING"}, "the query reads value string"),
        ({"valueSchema": "id FOO"}, "valueSchema is no schema: FOO is no type of Spark"),
        ({"valueSchema": "t TIMESTAMP"}, "option valueTimeZone must name the zone"),
    ],
)
def test_values_in_json_that_can_t_be_read(more: dict[str, str], words: str) -> None:
    """Contradictions are one clear error before the query starts."""
    with pytest.raises(OptionError, match=words):
        schema(options(**{**JSON, **more}))


def test_a_schema_with_another_struct_is_an_error() -> None:
    """The type of the user's schema must be that of valueSchema."""
    other = StructType([StructField("value", StructType([StructField("id", LongType())]))])
    with pytest.raises(OptionError):
        with_schema(options(**JSON), other)
