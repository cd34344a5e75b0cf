"""``format("kfetch")`` without Spark's JVM: the values that Spark gets and pickles."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest
from pyspark import cloudpickle
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType

import pyspark_kfetch
from kfetch import losses, records
from kfetch.agent import inline
from kfetch.errors import LeaseLost, OptionError
from kfetch.model import Broker, OffsetRange, Split, TopicPartition
from kfetch.spark.options import parse
from kfetch.spark.schema import schema
from kfetch.spark.source import KfetchDataSource, KfetchSplit, KfetchStreamReader
from kfetch.spark.versions import (
    ReadAllAvailable,
    ReaderOfSpark41,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
)
from kfetch.storage.permission import granting
from tests.kfetch.spark.arrow import derived_schema
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch.wire.log import Log

T0 = TopicPartition("t", 0)
REQUIRED = {"kafka.bootstrap.servers": "h:9092", "subscribe": "t"}
COLUMNS = (
    "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
    "timestamp:timestamp,timestampType:int"
)


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """The sessions of this process are closed behind every test."""
    yield
    inline.close_all()


@pytest.fixture
def kafka() -> Iterator[LittleKafka]:
    """Topic t with two records."""
    with LittleKafka() as running:
        running.create("t")
        running.log(T0).append(b"a", b"b")
        yield running


@pytest.fixture
def reader(kafka: LittleKafka) -> Iterator[Any]:
    """A stream reader over it."""
    made = stream_reader({"kafka.bootstrap.servers": kafka.bootstrap, **START})
    yield made
    made.stop()


START = {"subscribe": "t", "startingOffsets": "earliest", "kfetch.agent": "inline"}


def stream_reader(options: dict[str, str]) -> Any:
    """Returns the reader of these options, with the calls of Spark 4.2 for every Spark."""
    source = KfetchDataSource(options)
    return since_42(source.streamReader(source.schema()))


def since_42(made: Any) -> Any:
    """Returns a reader with the calls of Spark 4.2."""
    return made.inner if isinstance(made, ReaderOfSpark41) else made


def test_found_by_name() -> None:
    """Spark finds the source by itself under the name kfetch."""
    assert "kfetch" == KfetchDataSource.name()
    assert issubclass(pyspark_kfetch.DefaultSource, KfetchDataSource)


@pytest.mark.connector_case(
    "KafkaMicroBatchV2SourceSuite",
    "default config of includeHeader doesn't break existing query from Spark 2.4",
)
@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (False, f"{COLUMNS}>"),
        (True, f"{COLUMNS},headers:array<struct<key:string,value:binary>>>"),
    ],
)
def test_schema(headers: bool, expected: str) -> None:
    """The columns are those of Spark's Kafka connector, all nullable."""
    columns = KfetchDataSource({**REQUIRED, "includeHeaders": str(headers)}).schema()

    assert expected == columns.simpleString()
    assert all(field.nullable for field in columns)


@pytest.mark.parametrize("optional", list(itertools.product([False, True], repeat=3)))
def test_schema_of_the_batches(optional: tuple[bool, bool, bool]) -> None:
    """The Arrow batches have exactly the schema that Spark derives from the columns."""
    names = ("includeHeaders", "includeLeaderEpoch", "includeSerializedSizes")
    given = {name: str(each) for name, each in zip(names, optional, strict=True)}
    derived = derived_schema(schema(parse({**REQUIRED, **given})))

    assert derived.equals(records.schema_of(records.Columns(*optional)))


def test_a_plan_needs_permission(kafka: LittleKafka) -> None:
    """Without it, nothing is planned: no records, and no batch without new ones."""
    allowed = [True, True, False, False]

    def check() -> None:
        if not allowed.pop(0):
            raise LeaseLost("another process has it")

    with granting(check) as path:
        named = {"kfetch.planPermission": str(path)}
        made = stream_reader({"kafka.bootstrap.servers": kafka.bootstrap, **START, **named})
        start = made.initialOffset()
        one = made.latestOffset(start, ReadMaxRows(1))
        both = made.latestOffset(one, ReadMaxRows(1))
        for known in (one, both):
            with pytest.raises(LeaseLost, match="does not allow another micro-batch"):
                made.latestOffset(known, ReadMaxRows(1))
        made.stop()
    assert [] == allowed


def test_bad_options_fail_at_once() -> None:
    """Options are checked when the source is made, before any reader is."""
    with pytest.raises(OptionError, match="must be specified"):
        KfetchDataSource({"subscribe": "t"})


def test_a_streams_options_are_parsed_once() -> None:
    """The stream's reader has the values that the source checked."""
    source = KfetchDataSource(REQUIRED)
    reader = since_42(source.streamReader(source.schema()))

    assert reader._options.network is source._options.network


def test_options_of_batch_reads_fail_in_streams() -> None:
    """A stream with an end is refused by the reader's first call, as Spark's connector does."""
    source = KfetchDataSource({**REQUIRED, "endingOffsets": "latest"})
    refusing = since_42(source.streamReader(source.schema()))
    with pytest.raises(OptionError, match="ending offset not valid in streaming queries"):
        refusing.initialOffset()

    assert source.reader(source.schema()) is not None


def test_custom_schema() -> None:
    """A schema that the source can't deliver is refused by the reader's first call.

    Spark stops a reader that was never made, and its UnboundLocalError would hide the words.
    """
    refusing = since_42(KfetchDataSource(REQUIRED).streamReader(StructType([])))
    for call in (
        refusing.initialOffset,
        refusing.prepareForTriggerAvailableNow,
        lambda: refusing.latestOffset({}, ReadAllAvailable()),
        lambda: refusing.partitions({}, {}),
    ):
        with pytest.raises(OptionError, match="the schema has no columns"):
            call()
    refusing.stop()


REQUIRED_7, MOST_9 = {"minOffsetsPerTrigger": "7"}, {"maxOffsetsPerTrigger": "9"}


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        ({}, ReadAllAvailable()),
        (MOST_9, ReadMaxRows(9)),
        (REQUIRED_7, ReadMinRows(7)),
        ({**REQUIRED_7, **MOST_9}, ReadMaxRows(9)),
    ],
)
def test_default_read_limit(given: dict[str, str], limit: ReadLimit) -> None:
    """The options give the read limit, so that ``latestOffset`` recognises Trigger.Once."""
    assert limit == stream_reader({**REQUIRED, **given}).getDefaultReadLimit()


def test_reader_is_picklable() -> None:
    """A reader goes to executors with its options, and connects to nobody on the way."""
    sent = stream_reader({**REQUIRED, "kafka.client.id": "etl"})
    arrived = cloudpickle.loads(cloudpickle.dumps(sent))

    assert isinstance(arrived, KfetchStreamReader)
    assert sent._options == arrived._options
    assert arrived._driver is None


def test_split_is_picklable() -> None:
    """A split arrives as it was planned."""
    item = OffsetRange(
        tp=T0,
        topic_id=UUID(int=3),
        start=1,
        end=2**62,
        leader_epoch=4,
        leader=Broker(node_id=1, host="h", port=9092, rack="r"),
    )
    split = Split(query="q", ranges=(item,))

    assert split == cloudpickle.loads(cloudpickle.dumps(KfetchSplit(split))).value


def test_life_of_a_query(kafka: LittleKafka, reader: Any) -> None:
    """Offsets go through JSON, splits through pickle, and the records come out."""
    start = json.loads(json.dumps(reader.initialOffset()))
    end = json.loads(json.dumps(reader.latestOffset(start, reader.getDefaultReadLimit())))
    splits = cloudpickle.loads(cloudpickle.dumps(reader.partitions(start, end)))
    rows = [row for split in splits for batch in reader.read(split) for row in batch.to_pylist()]
    reader.commit(end)

    assert [(b"a", 0), (b"b", 1)] == [(row["value"], row["offset"]) for row in rows]


ONLY_T0 = {"startingOffsets": '{"t":{"0":0}}'}
NO_RETRIES = {"fetchOffset.numRetries": "0", "kafka.retry.backoff.ms": "1"}


@pytest.mark.parametrize(
    ("options", "error", "expected"),
    [
        (ONLY_T0, "option startingOffsets lacks t-1", [(T0, 0, 2)]),
        ({"startingOffsets": '{"t":{"0":2}}'}, "option startingOffsets lacks t-1", []),
        (
            {"startingTimestamp": "1"},
            "No offset matched from request of topic-partition t-1",
            [(T0, 0, 2)],
        ),
        ({"subscribe": "t,u", "failOnDataLoss": "false"}, "u: no such topic", [(T0, 0, 2)]),
    ],
    ids=["partition added", "and batch 0 is empty", "no record of the time", "topic deleted"],
)
def test_a_restart_in_batch_0_needs_no_start(
    monkeypatch: pytest.MonkeyPatch,
    kafka: LittleKafka,
    options: dict[str, str],
    error: str,
    expected: list[tuple[TopicPartition, int, int]],
) -> None:
    """The end of batch 0 has its start, or is the start of an empty batch. Spark asks for a start
    all the same. The options may give none by then. The batch runs, and the query goes on. A new
    query has the error."""
    monkeypatch.setattr(losses, "GONE_AFTER_S", 0.0)
    given = {**START, **NO_RETRIES, **options, "kafka.bootstrap.servers": kafka.bootstrap}
    before, after, new = (stream_reader(given) for _ in range(3))
    kafka.create("u")
    with closing_all(before, after, new):
        end = before.latestOffset(before.initialOffset(), ReadAllAvailable())
        del kafka.topics["u"]
        kafka.topics["t"].logs.append(Log(leader=1))

        splits = after.partitions(after.initialOffset(), end)
        kafka.log(T0).append(b"c")
        later = after.latestOffset(end, ReadAllAvailable())
        later = after.latestOffset(later, ReadAllAvailable())
        start = new.initialOffset()
        for _ in range(2):
            with pytest.raises(OptionError, match=error):
                new.latestOffset(start, ReadAllAvailable())
            with pytest.raises(OptionError, match=error):  # batch 0 of Spark's connector
                new.partitions(start, {"t": {"0": 2}})

    ranges = [item for split in splits for item in split.value.ranges]
    assert expected == [(item.tp, item.start, item.end) for item in ranges]
    assert {"0": [3, 0], "1": [0, 0]} == later["topics"]["t"]["partitions"]


def test_a_start_that_the_options_give_later(kafka: LittleKafka) -> None:
    """If Spark asks again and the options give a start by then, the query starts there."""
    given = {**START, **NO_RETRIES, "subscribe": "t,u", "kafka.bootstrap.servers": kafka.bootstrap}
    reader = stream_reader(given)
    with closing_all(reader):
        assert {} == reader.initialOffset()["topics"]
        kafka.create("u")

        end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())

    assert {"t", "u"} == set(end["topics"])


@contextmanager
def closing_all(*readers: Any) -> Iterator[None]:
    """Stops readers at the end."""
    try:
        yield
    finally:
        for each in readers:
            each.stop()


@pytest.mark.parametrize(
    ("columns", "types"),
    [
        ("value STRING, offset", None),
        ("value STRING, offset", {"value": StringType(), "offset": LongType()}),
        (None, {"value": StringType(), "offset": LongType()}),
    ],
    ids=["option", "both", "schema"],
)
def test_columns_of_the_users_choice(
    kafka: LittleKafka, columns: str | None, types: dict[str, DataType] | None
) -> None:
    """The option columns, a schema, or both select columns, their order and strings."""
    option = {"columns": columns} if columns else {}
    source = KfetchDataSource({"kafka.bootstrap.servers": kafka.bootstrap, **START, **option})
    given = StructType([StructField(name, kind) for name, kind in (types or {}).items()])
    made = since_42(source.streamReader(given if types else source.schema()))
    sent = cloudpickle.loads(cloudpickle.dumps(made))
    start = made.initialOffset()
    splits = made.partitions(start, made.latestOffset(start, ReadAllAvailable()))
    rows = [row for split in splits for part in sent.read(split) for row in part.to_pylist()]
    made.stop()

    assert [{"value": "a", "offset": 0}, {"value": "b", "offset": 1}] == rows
    assert ["value", "offset"] == list(rows[0])


def test_idle_returns_the_start_itself(kafka: LittleKafka, reader: Any) -> None:
    """With nothing new the latest offset is the very start that Spark gave."""
    start = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())

    assert start is reader.latestOffset(start, ReadAllAvailable())


def test_an_idle_query_keeps_the_sessions_of_an_old_offset(kafka: LittleKafka, reader: Any) -> None:
    """With nothing new an offset with watch sessions comes back byte for byte. The next offset that
    moves has none."""
    plain = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    text = json.dumps({**plain, "sessions": {"1": [173322508, 21]}})
    anew = stream_reader({"kafka.bootstrap.servers": kafka.bootstrap, **START})
    restarted = [json.loads(text) for _ in range(2)]

    assert [text] * 2 == [json.dumps(anew.latestOffset(s, ReadAllAvailable())) for s in restarted]
    assert [] == anew.partitions(restarted[0], restarted[1])
    kafka.log(T0).append(b"c")
    moved = anew.latestOffset(restarted[0], ReadAllAvailable())
    anew.stop()

    assert ["version", "topics"] == list(moved)
    assert [3, 0] == moved["topics"]["t"]["partitions"]["0"]


def test_limit_of_the_trigger(kafka: LittleKafka, reader: Any) -> None:
    """A limit bounds the batch. Trigger.Once has no limit and reads all."""
    start = reader.initialOffset()
    few = reader.latestOffset(start, ReadMaxRows(1))

    assert [1, 0] == few["topics"]["t"]["partitions"]["0"]
    assert [2, 0] == reader.latestOffset(few, ReadAllAvailable())["topics"]["t"]["partitions"]["0"]


@pytest.mark.parametrize("most", [{}, {"maxOffsetsPerTrigger": "2"}])
def test_least_of_the_trigger(kafka: LittleKafka, most: dict[str, str]) -> None:
    """minOffsetsPerTrigger holds a batch back, with a maximum or without, but not Trigger.Once."""
    given = {"kafka.bootstrap.servers": kafka.bootstrap, **START, "minOffsetsPerTrigger": "2"}
    made = stream_reader({**given, **most})
    limit = made.getDefaultReadLimit()
    start = made.latestOffset(made.initialOffset(), limit)
    kafka.log(T0).append(b"c")

    assert start is made.latestOffset(start, limit)
    assert [3, 0] == made.latestOffset(start, ReadAllAvailable())["topics"]["t"]["partitions"]["0"]
    made.stop()


def test_available_now(kafka: LittleKafka, reader: Any) -> None:
    """Spark's mixin prepares AvailableNow."""
    reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    kafka.log(T0).append(b"later")

    assert end is reader.latestOffset(end, ReadAllAvailable())


def test_reported_latest_offset(kafka: LittleKafka, reader: Any) -> None:
    """The source reports the log ends for Spark's progress, once they are known."""
    assert reader.reportLatestOffset() is None
    reader.latestOffset(reader.initialOffset(), ReadMaxRows(1))

    assert [2, 0] == reader.reportLatestOffset()["topics"]["t"]["partitions"]["0"]


def test_stop_without_a_start() -> None:
    """A reader that never planned anything can be stopped."""
    stream_reader(REQUIRED).stop()


STUCK = """
import os, signal, sys, threading
from kfetch.spark import source

class Driver:
    def close(self):
        lock.acquire()

lock = threading.Lock()
lock.acquire()
source._is_source_process = lambda: True
source._CLOSED_WITHIN_S = 0.1
source._close_on_sigterm(Driver())
os.kill(os.getpid(), signal.SIGTERM)
"""


def test_sigterm_ends_the_sources_process_whatever_it_does() -> None:
    """The signal may interrupt the holder of a lock that closing needs. Then SIGALRM ends the
    process."""
    stuck = subprocess.run([sys.executable, "-c", STUCK], check=False, timeout=60)

    assert -signal.SIGALRM == stuck.returncode


def test_ignored_options_are_told_once(
    kafka: LittleKafka, caplog: pytest.LogCaptureFixture
) -> None:
    """An option without effect is a warning when the query starts."""
    made = stream_reader(
        {"kafka.bootstrap.servers": kafka.bootstrap, **START, "kafka.group.id": "g"}
    )
    for _ in range(2):
        made.initialOffset()
    made.stop()

    warnings = [r.message for r in caplog.records if "no effect" in r.message]
    why = "option kafka.group.id has no effect in kfetch: kfetch joins no consumer group"
    assert [f"kfetch: {why}"] == warnings
