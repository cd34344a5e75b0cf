"""``spark.read.format("kfetch")`` without a JVM: the reader, and options of SQL."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from kfetch.errors import OptionError, RecordsExpired
from kfetch.model import TopicPartition
from kfetch.spark.batch import KfetchReader
from kfetch.spark.options import parse
from kfetch.spark.source import KfetchDataSource
from tests.kfetch.wire.little import LittleKafka

T0 = TopicPartition("t", 0)
REQUIRED = {"kafka.bootstrap.servers": "h:9092", "subscribe": "t"}


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
    """Without splits Spark calls read with an empty partition, which has no rows. Before Spark 4.2
    it is None."""
    kafka.create("u")
    made = reader(kafka, subscribe="u")

    assert [] == values(made)
    assert [] == list(made.read(None))


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
