"""The reader for Spark 4.0 and 4.1, called in the order of their MicroBatchExecution.

The orders were recorded with a source that logs its calls, on Spark 4.0.5 and 4.1.4.
``integration/spark/test_versions.py`` runs them with the real Spark.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import MetadataRequest
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSourceStreamReader

from kfetch.agent import inline
from kfetch.errors import OptionError, TopicRecreated
from kfetch.model import TopicPartition
from kfetch.spark import versions
from kfetch.spark.options import parse
from kfetch.spark.source import KfetchStreamReader
from kfetch.spark.versions import ReaderOfSpark41
from tests.kfetch.wire.little import LittleKafka

T0 = TopicPartition("t", 0)
Start = Callable[..., "Query"]


@pytest.fixture
def kafka() -> Iterator[LittleKafka]:
    """Topic t with five records."""
    with LittleKafka() as running:
        running.create("t")
        running.log(T0).append(b"0", b"1", b"2", b"3", b"4")
        yield running
    inline.close_all()


class Query:
    """A run of a query: its reader, and the offset log, which outlives the run.

    An offset goes through JSON text, as Spark passes it.
    """

    def __init__(self, reader: ReaderOfSpark41, log: list[str], done: int) -> None:
        self.reader = reader
        self.log = log
        self.done = done
        """The number of micro-batches that Spark has committed."""
        self._first = True
        if log:  # setLatestSeenOffset
            assert [] == self._partitions(log[-1], log[-1])

    def batch(self) -> list[int]:
        """Run a trigger: returns the offsets of its records. Without a micro-batch, it is empty."""
        if self.done == len(self.log):
            end = json.dumps(self.reader.latestOffset())
            if self.log and end == self.log[-1]:
                return []
            self.plan(end)
        return self.run()

    def plan(self, end: str) -> None:
        """Log the end of the next micro-batch. Then Spark commits the one before."""
        self.log.append(end)
        if self.done:
            self.reader.commit(json.loads(self.log[self.done - 1]))

    def run(self) -> list[int]:
        """Read the last planned micro-batch."""
        first = self.done == 0
        start = json.dumps(self.reader.initialOffset()) if first else self.log[self.done - 1]
        offsets = self._read(start, self.log[self.done])
        self.done += 1
        return offsets

    def _partitions(self, start: str, end: str) -> list[Any]:
        return list(self.reader.partitions(json.loads(start), json.loads(end)))

    def _read(self, start: str, end: str) -> list[int]:
        sent = cloudpickle.loads(cloudpickle.dumps(KfetchStreamReader(self.options)))
        splits = self._partitions(start, end)
        return [n for split in splits for part in sent.read(split) for n in _offsets(part)]

    @property
    def options(self) -> Any:
        inner: Any = self.reader.inner
        return inner._options


def _offsets(part: Any) -> list[int]:
    found: list[int] = part.column("offset").to_pylist()
    return found


@pytest.fixture
def start(kafka: LittleKafka) -> Iterator[Start]:
    """``start(log, done, maxOffsetsPerTrigger="2")`` starts a run; it ends with the test."""
    runs: list[Query] = []

    def begin(log: list[str] | None = None, done: int = 0, **options: str) -> Query:
        required = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": "t"}
        chosen = {"startingOffsets": "earliest", "kfetch.agent": "inline", **required, **options}
        reader = ReaderOfSpark41(KfetchStreamReader(parse(chosen)))
        runs.append(Query(reader, [] if log is None else log, done))
        return runs[-1]

    yield begin
    for run in runs:
        run.reader.stop()


def test_a_new_query_starts_at_its_initial_offset(kafka: LittleKafka, start: Start) -> None:
    """Spark asks for the end first. kfetch finds the start itself, and the limit holds."""
    query = start(maxOffsetsPerTrigger="2")

    assert [[0, 1], [2, 3], [4], []] == [query.batch() for _ in range(4)]
    kafka.log(T0).append(b"5")
    assert [5] == query.batch()


def test_without_a_limit_a_trigger_reads_all(start: Start) -> None:
    """The first micro-batch ends at the log ends, as it does for AvailableNow and Once."""
    query = start()

    assert [[0, 1, 2, 3, 4], []] == [query.batch() for _ in range(2)]


def test_the_first_micro_batch_after_a_restart_is_limited(start: Start) -> None:
    """Spark names the last offset of the checkpoint before it asks for the end."""
    first = start(maxOffsetsPerTrigger="2")
    first.batch()
    again = start(first.log, first.done, maxOffsetsPerTrigger="2")

    assert [[2, 3], [4], []] == [again.batch() for _ in range(3)]


def test_an_unfinished_micro_batch_is_read_again(start: Start) -> None:
    """After a crash, Spark names the last offset, and then reads the micro-batch before it."""
    first = start(maxOffsetsPerTrigger="2")
    first.batch()
    first.plan(json.dumps(first.reader.latestOffset()))
    again = start(first.log, first.done, maxOffsetsPerTrigger="2")

    assert [[2, 3], [4], []] == [again.batch() for _ in range(3)]


def test_an_unfinished_first_micro_batch_is_read_again(kafka: LittleKafka, start: Start) -> None:
    """Its end carries its start, so later records change nothing, even with ``latest``."""
    first = start(startingOffsets="latest")
    assert [] == first.batch()
    first.done, first.log[:] = 0, []
    kafka.log(T0).append(b"5", b"6")
    first.plan(json.dumps(first.reader.latestOffset()))
    kafka.log(T0).append(b"7")
    again = start(first.log, startingOffsets="latest")

    assert [[5, 6], [7]] == [again.batch() for _ in range(2)]


def test_a_sink_that_reads_nothing_does_not_hold_the_query(start: Start) -> None:
    """Spark may plan no partitions of a micro-batch. The next one starts at its end."""
    query = start(maxOffsetsPerTrigger="2")
    for _ in range(2):
        query.plan(json.dumps(query.reader.latestOffset()))
        query.reader.initialOffset()
        query.done += 1

    assert [4] == query.batch()


def test_fewer_offsets_than_the_minimum_wait(kafka: LittleKafka, start: Start) -> None:
    """minOffsetsPerTrigger holds a micro-batch back, but not the first one of a run."""
    query = start(minOffsetsPerTrigger="6")
    assert [0, 1, 2, 3, 4] == query.batch()
    kafka.log(T0).append(*[b"v"] * 5)
    assert [] == query.batch()
    kafka.log(T0).append(b"v")
    assert [5, 6, 7, 8, 9, 10] == query.batch()


def test_the_end_before_the_start_is_refused(start: Start) -> None:
    """With the wrapper for AvailableNow, Spark asks for the end before it names the start. That
    would read records twice, so the query fails, and the error names the setting."""
    first = start()
    first.batch()
    reader = start().reader
    end = reader.latestOffset()

    with pytest.raises(OptionError, match=r"triggerAvailableNowWrapper.enabled, Spark .* asks"):
        reader.partitions(json.loads(first.log[-1]), json.loads(first.log[-1]))
    with pytest.raises(OptionError, match="before it names the start"):
        reader.partitions(json.loads(first.log[-1]), end)
    with pytest.raises(OptionError, match="AvailableNow works without it"):
        reader.latestOffset()


def test_a_topic_created_again_is_found_after_a_restart(kafka: LittleKafka, start: Start) -> None:
    """The start that Spark names carries the topic's id."""
    first = start()
    first.batch()
    kafka.create("t")
    kafka.log(T0).append(*[b"new"] * 9)

    with pytest.raises(TopicRecreated):
        start(first.log, first.done).batch()


def test_a_limited_end_is_told_once(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    """With AvailableNow the query would end there, and Spark does not tell kfetch the trigger."""
    caplog.set_level(logging.WARNING)
    query = start(maxOffsetsPerTrigger="2")
    for _ in range(3):
        query.batch()

    told = [r.message for r in caplog.records if "Trigger.AvailableNow" in r.message]
    assert ["ends after one micro-batch of 2 offsets" in text for text in told] == [True]


@pytest.mark.parametrize("given", [{}, {"maxOffsetsPerTrigger": "5"}])
def test_an_end_at_the_log_ends_is_not_told(
    start: Start, caplog: pytest.LogCaptureFixture, given: dict[str, str]
) -> None:
    """Such a micro-batch has all records."""
    caplog.set_level(logging.WARNING)
    start(**given).batch()

    assert [] == [r.message for r in caplog.records if "Trigger.AvailableNow" in r.message]


def test_a_new_leader_is_no_limited_end(
    kafka: LittleKafka, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """A position without new records keeps its leader epoch, and the log end has the new one."""
    first = start(maxOffsetsPerTrigger="5")
    first.batch()
    kafka.elect(T0, 1)
    caplog.set_level(logging.WARNING)

    assert [] == start(first.log, first.done, maxOffsetsPerTrigger="5").batch()
    assert [] == [r.message for r in caplog.records if "Trigger.AvailableNow" in r.message]


def test_an_idle_query_of_the_connector() -> None:
    """Without topic ids and new records, the end is the connector's own document."""
    with LittleKafka(versions={FetchRequest: (0, 12), MetadataRequest: (0, 9)}) as kafka:
        kafka.create("t")
        given = {"subscribe": "t", "maxOffsetsPerTrigger": "5"}
        options = parse({"kafka.bootstrap.servers": kafka.bootstrap, **given})
        reader = ReaderOfSpark41(KfetchStreamReader(options))
        last = {"t": {"0": 0}}
        reader.partitions(last, last)

        assert last == reader.latestOffset()
        reader.stop()


def test_the_reader_of_the_installed_spark(start: Start) -> None:
    """Only Spark before 4.2 gets the other calls."""
    reader = start().reader.inner
    made = versions.for_this_spark(reader)

    assert isinstance(made, DataSourceStreamReader)
    assert (made is reader) is hasattr(DataSourceStreamReader, "getDefaultReadLimit")
