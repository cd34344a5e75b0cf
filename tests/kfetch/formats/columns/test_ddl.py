"""Schemas from text: Spark's DDL and the JSON of a StructType."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_type

from kfetch.errors import NotBuilt, OptionError
from kfetch.formats.columns.ddl import parse_schema
from kfetch.formats.columns.struct_column import arrow_type
from tests.examples import examples

_TYPES = [
    ("BOOLEAN", spark.BooleanType()),
    ("TINYINT", spark.ByteType()),
    ("byte", spark.ByteType()),
    ("SMALLINT", spark.ShortType()),
    ("short", spark.ShortType()),
    ("INT", spark.IntegerType()),
    ("integer", spark.IntegerType()),
    ("BIGINT", spark.LongType()),
    ("long", spark.LongType()),
    ("FLOAT", spark.FloatType()),
    ("real", spark.FloatType()),
    ("DOUBLE", spark.DoubleType()),
    ("DECIMAL", spark.DecimalType(10, 0)),
    ("dec(7)", spark.DecimalType(7, 0)),
    ("NUMERIC( 38 , 37 )", spark.DecimalType(38, 37)),
    ("STRING", spark.StringType()),
    ("BINARY", spark.BinaryType()),
    ("DATE", spark.DateType()),
    ("TIMESTAMP", spark.TimestampType()),
    ("TIMESTAMP_LTZ", spark.TimestampType()),
    ("TIMESTAMP_NTZ", spark.TimestampNTZType()),
    ("ARRAY<STRING>", spark.ArrayType(spark.StringType())),
    ("ARRAY<ARRAY<INT>>", spark.ArrayType(spark.ArrayType(spark.IntegerType()))),
    ("MAP<STRING, INT>", spark.MapType(spark.StringType(), spark.IntegerType())),
    ("STRUCT<a: INT, `b c` STRING>",
     spark.StructType().add("a", "integer").add("b c", "string")),
    ("struct<a:int not null comment 'x, y', B:array<struct<c: date>>>",
     spark.StructType().add("a", "integer").add(
         "B", spark.ArrayType(spark.StructType().add("c", "date")))),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind"), _TYPES)
def test_types_are_those_of_spark(text: str, kind: spark.DataType) -> None:
    """Every type of the DDL becomes the Arrow type that Spark expects for it."""
    parsed = arrow_type(parse_schema(f"x {text}"))
    assert pa.struct([("x", to_arrow_type(kind, timezone="UTC"))]) == parsed


@pytest.mark.parametrize(("text", "kind"), _TYPES)
def test_the_json_of_a_struct_type_is_the_same_schema(text: str, kind: spark.DataType) -> None:
    """``StructType.json()`` describes the same type as the DDL."""
    assert parse_schema(f"x {text}") == parse_schema(spark.StructType().add("x", kind).json())


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a INT, b STRING", ["a", "b"]),
        ("a: INT, b: STRING", ["a", "b"]),
        ("STRUCT<a: INT>", ["a"]),
        (" struct < a INT > ", ["a"]),
        ("struct INT, map STRING", ["struct", "map"]),
        ("`a``b` INT, `c,d>` STRING", ["a`b", "c,d>"]),
        ("größe INT -- how large\n, /* and */ b INT", ["größe", "b"]),
        ("a INT COMMENT 'it\\'s', b INT NOT NULL COMMENT \"x\"", ["a", "b"]),
    ],
)
def test_names_of_fields(text: str, names: list[str]) -> None:
    """Names may be quoted, comments are skipped, and STRUCT<…> may stand around the fields."""
    assert names == list(parse_schema(text).names)


def _arrays_in_json(depth: int) -> str:
    kind = '{"type":"array","containsNull":true,"elementType":' * depth + '"string"' + "}" * depth
    return f'{{"type":"struct","fields":[{{"name":"a","type":{kind},"nullable":true}}]}}'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a", "a has no type: write a STRING, say"),
        ("a:", "a has no type"),
        ("a, b INT", "a has no type"),
        ("a STRUCT<b>, c INT", "b has no type"),
        ("`a b", "'`a b' at position 0 is unexpected"),
        ("a ARRAY<", "ends too early"),
        ("id BIGINTT", r"BIGINTT is no type of Spark: did you mean BIGINT\?"),
        ("a INT, b: ARRAY<strng>", r"strng is no type of Spark: did you mean STRING\?"),
        ("a TEXT", "TEXT is no type of Spark: write it like"),
        ("a INT,", "a field is missing behind the last comma"),
        ("a INT b", "b is unexpected"),
        ("a FOO", "FOO is no type of Spark"),
        ("a ARRAY", "< is missing before the end at position 7"),
        ("a ARRAY<INT", "> is missing"),
        ("a MAP<INT, INT>", "the key of a MAP must be STRING"),
        ("a DECIMAL(39, 1)", r"DECIMAL\(39,1\) is out of range"),
        ("a DECIMAL(3, 4)", r"DECIMAL\(3,4\) is out of range"),
        ("a DECIMAL(x)", "x is no number"),
        ("a INT, a STRING", "field a appears twice"),
        ("a INT; b INT", "';"),
        ("ARRAY<INT>", "< is no type of Spark"),
        ("{", "the JSON is no StructType"),
        ("{}", "the JSON is no StructType"),
        ('{"type": "array"}', "its type is array"),
        ("a " + "ARRAY<" * 40 + "INT" + ">" * 40, "more than 32 deep"),
        (_arrays_in_json(40), "more than 32 deep"),
        (_arrays_in_json(5000), "the JSON is no StructType"),
    ],
)
def test_mistakes_are_named(text: str, words: str) -> None:
    """The sentence names the option, the mistake, and how a schema is written."""
    with pytest.raises(OptionError, match=words) as error:
        parse_schema(text, option="keySchema")
    assert "keySchema" in str(error.value)


def _field_in_json(kind: str, fields: int = 1) -> str:
    field = {"name": "a", "type": kind, "nullable": True, "metadata": {}}
    return json.dumps({"type": "struct", "fields": [field] * fields})


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (_field_in_json("decimal(5,-2)"), "DECIMAL(5,-2) is out of range"),
        (_field_in_json("decimal(39,1)"), "DECIMAL(39,1) is out of range"),
        (_field_in_json("foo"), "foo is no type of Spark"),
        (_field_in_json("string", fields=2), "field a appears twice"),
        (_arrays_in_json(40), "types lie inside each other more than 32 deep"),
        ('{"type": "array"}', "its type is array"),
    ],
)
def test_mistakes_in_json_are_named_once(text: str, what: str) -> None:
    """The sentence about a mistake stands alone, and not inside another sentence."""
    with pytest.raises(OptionError) as error:
        parse_schema(text)
    assert f"valueSchema is no schema: {what}" == error.value.what


@pytest.mark.parametrize("kind", ["variant", "interval day", "void", "varchar(3)"])
def test_types_in_json_that_are_not_built(kind: str) -> None:
    """They raise NotBuilt, as in DDL."""
    with pytest.raises(NotBuilt, match=r"^the type \w+ in valueSchema is not built yet"):
        parse_schema(_field_in_json(kind))


@pytest.mark.parametrize("kind", [f"decimal({'9' * 5000},0)", f"decimal(5,{'9' * 5000})"])
def test_decimals_of_many_digits(kind: str) -> None:
    """A precision or a scale of any number of digits is out of range, in DDL and in JSON."""
    for text in (f"a {kind}", _field_in_json(kind)):
        with pytest.raises(OptionError, match=r"DECIMAL\(.* is out of range") as error:
            parse_schema(text)
        assert len(error.value.message) < 300


@pytest.mark.parametrize("kind", ["VARIANT", "CHAR(3)", "INTERVAL DAY", "VOID", "TIME"])
def test_types_that_are_not_built(kind: str) -> None:
    """They raise NotBuilt, whose sentence says what to use."""
    with pytest.raises(NotBuilt, match="is not built yet"):
        parse_schema(f"a {kind}")


@pytest.mark.parametrize("path", ["w.ddl", "/etc/w", "./w", "../s/w.json", "~/w.sql", "file:///w"])
def test_the_path_of_a_file_is_no_schema(path: str) -> None:
    """The sentence says that the option takes the text, and how a job file reads a file."""
    with pytest.raises(OptionError) as mistake:
        parse_schema(path, option="keySchema")
    assert mistake.value.message == (
        f"keySchema looks like the path of a file ({path}), and it must be the text of the schema: "
        "read the file in your program; in a job file, write keySchema: ${file:PATH}"
    )


def test_every_type_of_pyspark_is_known() -> None:
    """A type that a new Spark brings is not called unknown."""
    kinds = [getattr(spark, name) for name in spark.__all__ if name.endswith("Type")]
    names = {kind.typeName() for kind in kinds if kind is not spark.DataType}
    unknown = {name for name in names if "is no type of Spark" in _mistake(f"a {name}")}

    # Intervals are one word and more, as in INTERVAL DAY TO SECOND.
    assert {"daytimeinterval", "yearmonthinterval"} == unknown


@examples(120)
@given(st.text("aI<>,(): `'\"/-*{}\n", max_size=30))
def test_any_text_has_an_answer(text: str) -> None:
    """Whatever stands there, it is a schema or a mistake."""
    _mistake(text)


def _mistake(text: str) -> str:
    """The mistake in a schema; empty for a schema."""
    try:
        parse_schema(text)
    except OptionError as mistake:
        return mistake.message
    return ""
