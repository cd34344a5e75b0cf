"""Readers deliver Avro values and keys as structs, and name the record that does not fit."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from kfetch.errors import OptionError
from kfetch.formats.avro import instructions as ops
from kfetch.spark.schema import schema, with_schema
from tests.kfetch.fetch.helpers import T0, part, query
from tests.kfetch.formats.avro.records import number
from tests.kfetch.spark.test_schema import options
from tests.kfetch.wire.little import LittleKafka

_WRITER = json.dumps(
    {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "id", "type": "int"},
            {"name": "gone", "type": "string"},
            {"name": "t", "type": ["null", "string"]},
        ],
    }
)
_READER = json.dumps(
    {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "t", "type": ["null", "string"]},
            {"name": "id", "type": "long"},
            {"name": "new", "type": "int", "default": 7},
        ],
    }
)
AVRO = {"valueFormat": "avro", "valueSchema": _WRITER}
BOTH = {**AVRO, "valueReaderSchema": _READER}


def _record(id_: int, text: str | None) -> bytes:
    end = b"\0" if text is None else b"\x02" + number(len(text)) + text.encode()
    return number(id_) + b"\x04xx" + end


def test_values_are_structs_of_the_reader() -> None:
    """Fields are in the reader's order; left out, added and promoted ones are as Avro says."""
    with LittleKafka(1) as kafka:
        kafka.create("t", 1)
        kafka.log(T0).append(_record(1, "a"), b"\x02", _record(-3, None))
        reader = query(kafka, **BOTH, valueMode="PERMISSIVE")
        batches = list(reader.read([part(kafka, T0, 0, 3)]))

    kind = pa.struct([("t", pa.string()), ("id", pa.int64()), ("new", pa.int32())])
    assert {kind} == {batch.schema.field("value").type for batch in batches}
    assert [
        {"t": "a", "id": 1, "new": 7},
        {"t": None, "id": None, "new": None},
        {"t": None, "id": -3, "new": 7},
    ] == [row["value"] for batch in batches for row in batch.to_pylist()]


def test_the_source_s_schema_has_the_reader_s_struct() -> None:
    """Spark sees the types of the reader's schema, and its copy of the schema changes nothing."""
    given = options(**BOTH)
    own = schema(given)
    expected = StructType(
        [
            StructField("t", StringType()),
            StructField("id", LongType()),
            StructField("new", IntegerType()),
        ]
    )
    assert expected == own["value"].dataType
    assert own == schema(with_schema(given, own))


def test_flat_values_need_fields() -> None:
    """A record without fields has no columns."""
    empty = json.dumps({"type": "record", "name": "R", "fields": []})
    with pytest.raises(OptionError, match="valueFields=flat needs fields, and valueSchema has"):
        schema(options(valueFormat="avro", valueSchema=empty, valueFields="flat"))


def _lists(kind: object) -> object:
    for _ in range(ops.LISTS_MAX // 2 + 1):
        kind = {"type": "array", "items": kind}
    return kind


@pytest.mark.parametrize("column", ["key", "value"])
def test_a_schema_with_too_many_lists_names_its_option(column: str) -> None:
    """Keys and values have options of their own."""
    inner = {"type": "record", "name": "I", "fields": [{"name": "a", "type": _lists("int")}]}
    fields = [{"name": "x", "type": inner}, {"name": "y", "type": _lists("I")}]
    record = {"type": "record", "name": "R", "fields": fields}
    given = {f"{column}Format": "avro", f"{column}Schema": json.dumps(record)}
    with pytest.raises(OptionError) as refusal:
        schema(options(**given))
    assert f"{column}Schema" == refusal.value.option
    assert f"{column}Schema has more than {ops.LISTS_MAX} lists" in refusal.value.message
