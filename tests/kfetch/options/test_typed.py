"""The options that say how keys and values become structs or strings."""

from __future__ import annotations

import pytest

from kfetch.errors import NotBuilt, OptionError
from kfetch.formats.avro.options import AvroColumn
from kfetch.formats.json.options import JsonColumn
from kfetch.formats.protobuf.options import ProtobufColumn
from kfetch.options.columns import Column
from kfetch.spark.options import parse

REQUIRED = {"kafka.bootstrap.servers": "h:9092", "subscribe": "t"}
JSON = {"Format": "json", "Schema": "id BIGINT"}
PROTOBUF = {"Format": "protobuf", "Descriptor": "/types.desc", "Message": "shop.Order"}
BOTH = pytest.mark.parametrize("column", ["key", "value"])


def _named(column: str, options: dict[str, str]) -> dict[str, str]:
    return {column + rest: text for rest, text in options.items()}


@BOTH
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, None),
        ({"Format": "Binary"}, None),
        (JSON, {}),
        ({**JSON, "FORMAT": "JSON"}, {}),
        ({**JSON, "Mode": "Permissive"}, {}),
        ({**JSON, "Mode": "FAILFAST"}, {"mode": "failfast"}),
        ({**JSON, "TimeZone": "Europe/Paris"}, {"time_zone": "Europe/Paris"}),
    ],
)
def test_meanings(column: str, options: dict[str, str], expected: dict[str, str] | None) -> None:
    """Without keyFormat or valueFormat, keys and values are bytes."""
    parsed = parse({**REQUIRED, **_named(column, options)}).typed_columns
    made = () if expected is None else (JsonColumn(column=column, schema="id BIGINT", **expected),)
    assert made == parsed


@BOTH
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (PROTOBUF, {}),
        ({**PROTOBUF, "FORMAT": "Protobuf", "Mode": "Permissive"}, {"mode": "permissive"}),
    ],
)
def test_meanings_of_protobuf(
    column: str, options: dict[str, str], expected: dict[str, str]
) -> None:
    """The options name the file and the message. FAILFAST is the default, as in Spark."""
    parsed = parse({**REQUIRED, **_named(column, options)}).typed_columns
    own = {"path": "/types.desc", "message": "shop.Order"}
    assert (ProtobufColumn(column=column, **own, **expected),) == parsed


def test_keys_and_values_have_options_of_their_own() -> None:
    """Each column has its own format, schema and mode."""
    key, value = (
        _named("key", {**JSON, "Mode": "failfast"}),
        _named("value", {"Format": "json", "Schema": "t DATE"}),
    )
    assert (
        JsonColumn(column="key", schema="id BIGINT", mode="failfast"),
        JsonColumn(column="value", schema="t DATE"),
    ) == parse({**REQUIRED, **key, **value}).typed_columns


@pytest.mark.parametrize(("text", "flat"), [("Flat", True), ("nested", False)])
def test_fields_of_values(text: str, flat: bool) -> None:
    """The fields of a value may be columns of their own."""
    options = _named("value", {**JSON, "Fields": text})
    (column,) = parse({**REQUIRED, **options}).typed_columns
    assert flat is column.flat


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"valueFields": "flat"},
            "option valueFields has no effect without valueFormat=json: set valueFormat=json, or "
            "remove it",
        ),
        (
            {**_named("value", JSON), "valueFields": "wide"},
            "option valueFields is 'wide', but it must be nested or flat",
        ),
        (
            {**_named("key", JSON), "keyFields": "flat"},
            "option keyFields is not known: `kfetch options` lists all options",
        ),
    ],
)
def test_mistakes_of_fields(options: dict[str, str], sentence: str) -> None:
    """Only values have them, and only two forms."""
    with pytest.raises(OptionError) as mistake:
        parse({**REQUIRED, **options})
    assert sentence == mistake.value.message


AVRO = {"Format": "avro", "Schema": "{}"}


@BOTH
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (AVRO, {}),
        ({**AVRO, "Mode": "Permissive"}, {"mode": "permissive"}),
        ({**AVRO, "ReaderSchema": "[]"}, {"reader_schema": "[]"}),
    ],
)
def test_meanings_for_avro(column: str, options: dict[str, str], expected: dict[str, str]) -> None:
    """The default mode is that of from_avro: a value that does not fit fails the query."""
    parsed = parse({**REQUIRED, **_named(column, options)}).typed_columns
    assert (AvroColumn(column=column, schema="{}", **expected),) == parsed


@BOTH
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"Format": "avro"}, "%Format=avro needs option %Schema"),
        ({"ReaderSchema": "{}"}, "option %ReaderSchema has no effect without %Format=avro"),
        (
            {**JSON, "ReaderSchema": "{}"},
            "option %ReaderSchema has no effect without %Format=avro",
        ),
        ({**AVRO, "TimeZone": "UTC"}, "option %TimeZone has no effect without %Format=json"),
        ({**AVRO, "Mode": "DROPMALFORMED"}, "but it must be PERMISSIVE or FAILFAST"),
    ],
)
def test_mistakes_in_avro(column: str, options: dict[str, str], sentence: str) -> None:
    """The sentence names the option and the format that it belongs to."""
    with pytest.raises(OptionError) as mistake:
        parse({**REQUIRED, **_named(column, options)})
    assert sentence.replace("%", column) in mistake.value.message
    assert not isinstance(mistake.value, NotBuilt)


@BOTH
def test_strings_are_those_of_columns(column: str) -> None:
    """With the format string, a column has the type that the option columns can give it."""
    given = {**REQUIRED, f"{column}Format": "String"}
    text = Column(column, "string")

    assert text in parse(given).delivered
    for columns in (column, f"{column} STRING"):
        by_format = parse({**given, "columns": f"{columns},offset"})
        by_columns = parse({**REQUIRED, "columns": f"{column} STRING,offset"})
        assert by_format.delivered == by_columns.delivered


@BOTH
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"Format": "xml"}, "option %Format is 'xml', but it must be binary, string, json,"),
        ({"Format": "protobuf"}, "%Format=protobuf needs option %Descriptor"),
        (
            {"Format": "protobuf", "Descriptor": "/types.desc"},
            "%Format=protobuf needs option %Message",
        ),
        ({**PROTOBUF, "Schema": "id INT"}, "option %Schema has no effect without %Format=json"),
        ({**JSON, "Message": "t.M"}, "option %Message has no effect without %Format=protobuf"),
        ({**PROTOBUF, "Mode": "strict"}, "option %Mode is 'strict', but it must be"),
        ({**PROTOBUF, "Mode": "DROPMALFORMED"}, "it must be PERMISSIVE or FAILFAST"),
        ({"Format": "json"}, "%Format=json needs option %Schema"),
        ({"Schema": "id INT"}, "option %Schema has no effect without %Format=json"),
        ({"Mode": "FAILFAST"}, "option %Mode has no effect without %Format=json"),
        (
            {"TimeZone": "UTC", "Format": "binary"},
            "option %TimeZone has no effect without %Format=json",
        ),
        (
            {"Schema": "id INT", "Format": "string"},
            "option %Schema has no effect without %Format=json",
        ),
        ({**JSON, "Mode": "strict"}, "option %Mode is 'strict', but it must be"),
    ],
)
def test_mistakes(column: str, options: dict[str, str], sentence: str) -> None:
    """The sentence names the option and what to do."""
    with pytest.raises(OptionError) as mistake:
        parse({**REQUIRED, **_named(column, options)})
    assert sentence.replace("%", column) in mistake.value.message
    assert not isinstance(mistake.value, NotBuilt)


@BOTH
@pytest.mark.parametrize("form", [JSON, PROTOBUF, AVRO])
def test_dead_letters(column: str, form: dict[str, str]) -> None:
    """With dead letters, records that do not fit are read in each format, unless a mode says no."""
    given = {**REQUIRED, **_named(column, form), "deadLetters": "Column"}
    parsed = parse(given)
    assert parsed.dead_letters
    assert ["permissive"] == [typed.mode for typed in parsed.typed_columns]
    other = {"key": "value", "value": "key"}[column]
    strict = {**_named(other, JSON), f"{other}Mode": "FAILFAST"}
    modes = {typed.column: typed.mode for typed in parse({**given, **strict}).typed_columns}
    assert {column: "permissive", other: "failfast"} == modes


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {},
            "option deadLetters has no effect without valueFormat=json, avro or protobuf: set one "
            "of them, or remove it",
        ),
        (
            {**_named("value", JSON), "valueMode": "FAILFAST"},
            "option deadLetters has no effect without valueMode=PERMISSIVE: remove "
            "valueMode=FAILFAST, or remove it",
        ),
        (
            {**_named("value", JSON), "deadLetters": "table"},
            "option deadLetters is 'table', but it must be column",
        ),
    ],
)
def test_mistakes_of_dead_letters(options: dict[str, str], sentence: str) -> None:
    """An option without effect would let its user believe that no record is lost."""
    with pytest.raises(OptionError) as mistake:
        parse({**REQUIRED, "deadLetters": "column", **options})
    assert sentence == mistake.value.message


@BOTH
def test_a_string_is_no_binary(column: str) -> None:
    """The format and the type in columns must agree."""
    with pytest.raises(OptionError) as mistake:
        parse({**REQUIRED, f"{column}Format": "string", "columns": f"{column} BINARY"})
    assert (
        f"option columns has {column} binary, but {column}Format=string makes it a string: "
        f"remove one of them, or read {column} STRING"
    ) == mistake.value.message


@BOTH
def test_what_is_not_built_says_so(column: str) -> None:
    """A known mode that is not there yet raises NotBuilt."""
    with pytest.raises(NotBuilt, match="is not built yet"):
        parse({**REQUIRED, **_named(column, {**JSON, "Mode": "DROPMALFORMED"})})


@BOTH
def test_columns_as_bytes_contradict_a_format(column: str) -> None:
    """A format makes a struct, so a column can't be BINARY. Without a type it can be named."""
    given = {**REQUIRED, **_named(column, JSON)}
    assert parse({**given, "columns": f"{column},offset"}).typed_columns
    with pytest.raises(OptionError) as mistake:
        parse({**given, "columns": f"offset, {column} Binary"})
    assert (
        f"option columns has {column} BINARY, and {column}Format makes it a struct: name {column} "
        f"without a type, or remove {column}Format"
    ) == mistake.value.message
