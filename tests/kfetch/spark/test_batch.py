"""``spark.read.format("kfetch")`` without a JVM: the reader, its filters, and options of SQL."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import datasource as spark
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kfetch.errors import OptionError, RecordsExpired
from kfetch.model import TopicPartition
from kfetch.spark.batch import KfetchReader, NarrowingReader, batch_reader, conditions
from kfetch.spark.options import parse
from kfetch.spark.source import KfetchDataSource
from kfetch.watch.narrowing import Condition, Operator
from tests.kfetch.wire.little import LittleKafka

T0 = TopicPartition("t", 0)
REQUIRED = {"kafka.bootstrap.servers": "h:9092", "subscribe": "t"}
PUSHDOWN = "pyspark.sql.worker.data_source_pushdown_filters"


@pytest.fixture
def kafka() -> Iterator[LittleKafka]:
    """Topic t with three records."""
    with LittleKafka() as running:
        running.create("t")
        running.log(T0).append(b"a", b"b", b"c")
        yield running


@pytest.fixture
def pushdown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planning process to which Spark passes filters."""
    monkeypatch.setitem(sys.modules, PUSHDOWN, ModuleType(PUSHDOWN))


def reader(kafka: LittleKafka, **options: str) -> Any:
    """Returns the reader that Spark gets for these options."""
    given = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": "t", "kfetch.agent": "inline"}
    source = KfetchDataSource(given | {k.replace("__", "."): v for k, v in options.items()})
    return source.reader(source.schema())


def values(made: Any) -> list[Any]:
    """Returns the values of all partitions, each read by a pickled reader, as on executors."""
    partitions = made.partitions() or [InputPartition(None)]  # as pyspark does
    copy = cloudpickle.loads(cloudpickle.dumps(made))
    return [
        value
        for partition in cloudpickle.loads(cloudpickle.dumps(partitions))
        for batch in copy.read(partition)
        for value in batch.column("value").to_pylist()
    ]


def test_reads_everything_and_closes_its_sessions(kafka: LittleKafka) -> None:
    """A batch starts at the log start by default. Read inline, its sessions end with the task."""
    assert [b"a", b"b", b"c"] == values(reader(kafka))
    assert [] == kafka.sessions()


def test_a_task_that_is_repeated_reads_the_same(kafka: LittleKafka) -> None:
    """The ranges are fixed when the query is planned: later records belong to no task."""
    made = reader(kafka)
    (partition,) = made.partitions()
    kafka.log(T0).append(b"later")

    runs = [[n for batch in made.read(partition) for n in batch.column("offset").to_pylist()]
            for _ in range(2)]  # fmt: skip

    assert [[0, 1, 2], [0, 1, 2]] == runs


@pytest.mark.parametrize("expires_first", [True, False])
def test_the_advice_of_a_loss(kafka: LittleKafka, expires_first: bool) -> None:
    """A batch has no checkpoint, so errors of lost records name the options of a batch, in the
    driver and in tasks. Their attributes stay."""
    made = reader(kafka, startingOffsets='{"t":{"0":0}}')
    planned = [] if expires_first else made.partitions()
    kafka.log(T0).expire(2)

    with pytest.raises(RecordsExpired, match="offsets 0 to 2 have expired") as lost:
        list(made.read((planned or made.partitions())[0]))

    assert lost.value.action == (
        "Set failOnDataLoss=false to read the remaining records, or load the batch again with "
        "other startingOffsets"
    )
    assert ("t", 0, 0, 2) == tuple(
        lost.value.where[name] for name in ("topic", "partition", "offset", "log_start_offset")
    )


def test_nothing_to_read(kafka: LittleKafka) -> None:
    """Without splits Spark calls read with an empty partition, which has no rows."""
    kafka.create("u")

    assert [] == values(reader(kafka, subscribe="u"))


def test_an_agent_closes_the_sessions_soon() -> None:
    """The lease of a batch read is five seconds at most."""
    leases = {
        given: KfetchReader(parse({**REQUIRED, "kfetch.agent.lease": given}))._options.agent.lease_s
        for given in ("120s", "2s")
    }

    assert {"120s": 5.0, "2s": 2.0} == leases


def test_custom_schema() -> None:
    """A schema that the source can't deliver is refused."""
    with pytest.raises(OptionError, match="the schema has no columns"):
        KfetchDataSource(REQUIRED).reader(StructType([]))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOffsets": "latest"}, "starting offset can't be latest for batch queries"),
        ({"endingOffsets": "earliest"}, "ending offset can't be earliest for batch queries"),
        ({"endingOffsets": "soon"}, "endingOffsets"),
    ],
)
def test_bounds_of_batches(options: dict[str, str], words: str) -> None:
    """A batch's bounds are checked in the connector's words."""

    def load() -> None:
        source = KfetchDataSource({**REQUIRED, **options})
        source.reader(source.schema())

    with pytest.raises(OptionError, match=words):
        load()


def test_a_batch_option_in_a_stream() -> None:
    """The options of an end load, and the first call of a stream's reader refuses them."""
    source = KfetchDataSource({**REQUIRED, "endingOffsets": "latest"})
    refusing: Any = source.streamReader(source.schema())

    with pytest.raises(OptionError, match="ending offset not valid in streaming queries"):
        refusing.initialOffset()


@pytest.mark.parametrize(
    "options",
    [
        {"provider": "kfetch", "owner": "root", **REQUIRED, "option.subscribe": "t"},
        {"provider": "KFETCH", "owner": "root"},
        {},
    ],
)
def test_tables(options: dict[str, str]) -> None:
    """Spark stores no options of a table of a Python source, and the error names a way out."""
    with pytest.raises(OptionError, match="use CREATE TEMPORARY VIEW name USING kfetch OPTIONS"):
        KfetchDataSource(options)


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
