"""The filters that Spark passes to a batch read, since Spark 4.1."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from types import ModuleType

import pytest
from pyspark.sql import datasource as spark
from pyspark.sql.datasource import DataSourceReader

if not hasattr(spark, "Filter"):
    pytest.skip("Spark 4.0 passes no filters", allow_module_level=True)

from kfetch.spark.batch import KfetchReader, NarrowingReader, batch_reader
from kfetch.spark.filters import conditions
from kfetch.spark.options import parse
from kfetch.watch.narrowing import Condition, Operator
from tests.kfetch.spark.test_batch import REQUIRED, reader, values
from tests.kfetch.wire.little import LittleKafka

PUSHDOWN = "pyspark.sql.worker.data_source_pushdown_filters"


@pytest.fixture
def pushdown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planning process to which Spark passes filters."""
    monkeypatch.setitem(sys.modules, PUSHDOWN, ModuleType(PUSHDOWN))


def test_filters_are_only_taken_where_spark_passes_them(pushdown: None) -> None:
    """Spark refuses pushFilters while its setting is off, so a plain reader has none of its own."""
    asked = parse({**REQUIRED, "kfetch.pushFilters": "true"}, batch=True)

    assert isinstance(batch_reader(asked), NarrowingReader)
    assert type(batch_reader(parse(REQUIRED, batch=True))) is KfetchReader
    del sys.modules[PUSHDOWN]
    assert type(batch_reader(asked)) is KfetchReader
    assert KfetchReader.pushFilters is DataSourceReader.pushFilters


def test_filters_narrow_and_go_back_to_spark(kafka: LittleKafka, pushdown: None) -> None:
    """The reader reads less, and returns every filter, so that Spark applies all of them."""
    made = reader(kafka, kfetch__pushFilters="true")
    filters = [spark.IsNotNull(("offset",)), spark.GreaterThan(("offset",), 1)]

    assert filters == list(made.pushFilters(filters))
    assert [b"c"] == values(made)


def test_filters_narrow_a_read_of_few_columns(kafka: LittleKafka, pushdown: None) -> None:
    """A filter narrows a read with few columns, too. One on a key or a value narrows nothing."""
    made = reader(kafka, kfetch__pushFilters="true", columns="offset, value STRING")
    filters = [spark.GreaterThan(("offset",), 0), spark.EqualTo(("value",), "c")]

    assert filters == list(made.pushFilters(filters))
    assert ["b", "c"] == values(made)


def test_a_filter_on_a_field_of_values_narrows_nothing(kafka: LittleKafka, pushdown: None) -> None:
    """A field may be called offset while the query does not read Kafka's offset."""
    flat = {"valueFormat": "json", "valueSchema": "offset INT", "valueFields": "flat"}
    made = reader(kafka, kfetch__pushFilters="true", columns="value", **flat)

    made.pushFilters([spark.GreaterThan(("offset",), 1)])
    batches = [batch for split in made.partitions() for batch in made.read(split)]
    assert [None] * 3 == [row["offset"] for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (spark.EqualTo(("topic",), "t"), Condition("topic", Operator.EQUAL, "t")),
        (spark.EqualNullSafe(("topic",), "t"), Condition("topic", Operator.EQUAL, "t")),
        (spark.In(("partition",), (1, 2)), Condition("partition", Operator.IN, (1, 2))),
        (spark.Not(spark.EqualTo(("topic",), "t")),
         Condition("topic", Operator.EQUAL, "t", negated=True)),
        (spark.LessThan(("offset",), 5), Condition("offset", Operator.LESS, 5)),
        (spark.LessThanOrEqual(("timestamp",), datetime(1970, 1, 1, 0, 0, 1, 5, UTC)),
         Condition("timestamp", Operator.LESS_OR_EQUAL, 1_000_005)),
        (spark.GreaterThanOrEqual(("timestamp",), datetime(1969, 12, 31, tzinfo=UTC)),
         Condition("timestamp", Operator.GREATER_OR_EQUAL, -86_400_000_000)),
        (spark.StringStartsWith(("topic",), "t"), Condition("topic", Operator.STARTS_WITH, "t")),
        (spark.IsNotNull(("topic",)), None),
        (spark.EqualTo(("headers", "key"), "k"), None),
    ],
)  # fmt: skip
def test_conditions_of_filters(given: spark.Filter, expected: Condition | None) -> None:
    """Each of Spark's filters becomes the same condition, or none at all."""
    assert ([expected] if expected else []) == list(conditions([given]))
