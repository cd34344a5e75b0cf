"""Records beyond a range's end are cached for the next range, while memory and the log allow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchRequest

from kfetch.agent.budget import Budget
from kfetch.agent.read_ahead import ReadAhead
from kfetch.agent.shared_query import SharedQuery
from kfetch.errors import AgentError
from kfetch.fetch.arrivals import RecordsArrived
from kfetch.fetch.broker_reader import BrokerReader
from kfetch.fetch.progress import RangeProgress
from kfetch.model import Broker, OffsetRange, TopicPartition
from kfetch.options import SourceOptions
from kfetch.records.batch import batches_from, extent
from kfetch.session.replies import PartitionReply
from kfetch.spark import options as parsing
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch.wire.log import batch

T0 = TopicPartition("t", 0)
HERE = Broker(node_id=1, host="localhost", port=9092)


@pytest.fixture
def kafka() -> Iterator[LittleKafka]:
    """One node with one partition of five batches with two records each."""
    with LittleKafka(1) as running:
        (log,) = running.create("t", 1)
        for _ in range(5):
            log.append(b"a", b"b")
        yield running


def offsets(kafka: LittleKafka, query: SharedQuery, start: int, end: int) -> list[int]:
    """The offsets that one task reads in a range."""
    log = kafka.log(T0)
    item = OffsetRange(
        tp=T0,
        topic_id=kafka.topics["t"].topic_id,
        start=start,
        end=end,
        leader_epoch=log.epoch,
        leader=kafka.nodes[1].broker,
    )
    with closing(query.deliveries([item], query.options)) as deliveries:
        return [offset for one in deliveries for offset in one.batch["offset"].to_pylist()]


@pytest.fixture
def budget() -> Budget:
    """More than the tests need."""
    return Budget(64 << 20)


def options(kafka: LittleKafka, **more: str) -> SourceOptions:
    """Options with short pauses. Replies bring all records."""
    common = {
        "kafka.bootstrap.servers": kafka.bootstrap,
        "subscribe": "t",
        "kafka.retry.backoff.ms": "1",
        "kafka.retry.backoff.max.ms": "5",
    }
    return parsing.parse(common | {name.replace("__", "."): text for name, text in more.items()})


@pytest.fixture
def query(kafka: LittleKafka, budget: Budget) -> Iterator[SharedQuery]:
    """A query that tasks share."""
    with closing(SharedQuery("q", options(kafka), budget)) as shared:
        yield shared


def test_the_next_range_needs_no_fetch(kafka: LittleKafka, query: SharedQuery) -> None:
    """The next range gets the records beyond a range's end without a request to the broker."""
    assert [0, 1, 2] == offsets(kafka, query, 0, 3)
    requests = len(kafka.asked(FetchRequest))

    assert [3, 4, 5, 6] == offsets(kafka, query, 3, 7)
    assert [7, 8, 9] == offsets(kafka, query, 7, 10)
    assert requests == len(kafka.asked(FetchRequest))


def test_cached_records_may_be_the_beginning_of_a_range(
    kafka: LittleKafka, query: SharedQuery
) -> None:
    """Where the cached records end, the range goes on at the broker."""
    assert [0, 1, 2] == offsets(kafka, query, 0, 3)
    kafka.log(T0).append(b"a", b"b")

    assert list(range(3, 12)) == offsets(kafka, query, 3, 12)


@pytest.mark.parametrize("start", [0, 2, 5, 9])
def test_a_range_that_begins_elsewhere(kafka: LittleKafka, query: SharedQuery, start: int) -> None:
    """A range that does not begin in the cached records gets every record all the same."""
    offsets(kafka, query, 0, 3)

    assert list(range(start, 10)) == offsets(kafka, query, start, 10)


def test_a_new_leader_epoch_invalidates_cached_records(
    kafka: LittleKafka, query: SharedQuery
) -> None:
    """After an election the range fetches the records again, because the log may have changed."""
    offsets(kafka, query, 0, 3)
    kafka.log(T0).epoch += 1
    requests = len(kafka.asked(FetchRequest))

    assert list(range(3, 10)) == offsets(kafka, query, 3, 10)
    assert len(kafka.asked(FetchRequest)) > requests


def test_a_damaged_batch_with_an_uncertain_end_is_not_cached(
    kafka: LittleKafka, budget: Budget
) -> None:
    """With onCorruptBatch=skip the next range fetches the damaged batch with the batch behind it.
    Only that one shows where the damaged batch ends, so alone it could not be skipped."""
    log = kafka.log(T0)
    damaged = bytearray(log.batches[1][3])
    damaged[26] += 1  # one offset more than records, as after compaction; and the CRC is wrong
    log.batches[1:] = [(2, 5, 0, bytes(damaged))]
    skipping = options(kafka, kfetch__onCorruptBatch="skip")
    with closing(SharedQuery("q", skipping, budget)) as query:
        assert [0, 1] == offsets(kafka, query, 0, 2)
        log.append(b"a", b"b")

        assert [5, 6] == offsets(kafka, query, 2, 7)


def test_a_failure_returns_the_memory(
    kafka: LittleKafka, query: SharedQuery, budget: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a range fails on cached records, for want of memory say, no byte stays in use."""
    offsets(kafka, query, 0, 3)

    def fails(*_: object) -> RecordsArrived:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(BrokerReader, "accept_records", fails)
        with pytest.raises(AgentError, match="the agent failed: MemoryError"):
            offsets(kafka, query, 3, 7)

    assert 0 == budget.used
    assert [3, 4, 5, 6] == offsets(kafka, query, 3, 7)


def test_a_reservation_drops_cached_records(
    kafka: LittleKafka, query: SharedQuery, budget: Budget
) -> None:
    """A request gets the memory of cached records. The next range fetches them again."""
    offsets(kafka, query, 0, 3)
    cached_bytes = budget.used
    reservation = budget.reserve(budget.limit, 0)

    assert cached_bytes > 0
    assert reservation is not None
    assert budget.limit == budget.used
    reservation.release()
    assert list(range(3, 10)) == offsets(kafka, query, 3, 10)


def test_a_closed_query_has_no_cached_records(
    kafka: LittleKafka, query: SharedQuery, budget: Budget
) -> None:
    """A query drops its cached records when it closes."""
    offsets(kafka, query, 0, 3)
    query.close()

    assert 0 == budget.used


def progress(start: int, end: int, *, epoch: int = 0, topic: int = 1) -> RangeProgress:
    """The progress of a new range."""
    item = OffsetRange(
        tp=T0, topic_id=UUID(int=topic), start=start, end=end, leader_epoch=epoch, leader=HERE
    )
    return RangeProgress.of(item)


def reply(data: bytes) -> PartitionReply:
    """A partition's part of a reply."""
    return replace(_EMPTY, records=memoryview(data))


_EMPTY = PartitionReply(
    key=("t", 0),
    error=0,
    high_watermark=100,
    last_stable_offset=100,
    log_start_offset=0,
    diverging=None,
    leader=None,
    aborted=(),
    preferred_read_replica=-1,
    records=memoryview(b""),
)
DATA = b"".join(batch(at, [b"x"] * 3) for at in (0, 3, 6))


@pytest.mark.parametrize(
    ("later", "answers"),
    [
        (progress(4, 9), True),
        (progress(8, 20), True),
        (progress(3, 9), False),
        (progress(9, 12), False),
        (progress(4, 9, epoch=1), False),
        (progress(4, 9, topic=2), False),
    ],
)
def test_which_range_gets_cached_records(later: RangeProgress, answers: bool) -> None:
    """Only a range with the same topic id and leader epoch that begins in the cached records. After
    any range they are no longer cached."""
    budget = Budget(1000)
    read_ahead = ReadAhead(budget)
    done = progress(0, 4)
    done.advance(extent(memoryview(DATA), 0))
    read_ahead.store(done, reply(DATA))
    cached = read_ahead.take(later)

    assert answers == (cached is not None)
    if cached is not None:
        assert DATA[len(DATA) // 3 :] == cached[0].records
        cached[1].release()
    assert read_ahead.take(later) is None
    assert 0 == budget.used


@pytest.mark.parametrize(
    "done", [progress(0, 4, topic=0), progress(0, 4, epoch=-1)], ids=["topic id", "leader epoch"]
)
def test_records_without_topic_id_or_epoch_are_not_cached(done: RangeProgress) -> None:
    """Without a topic id or a leader epoch a later range may belong to another log. After a topic
    was created again, its offsets start anew."""
    budget = Budget(1000)
    done.advance(extent(memoryview(DATA), 0))
    ReadAhead(budget).store(done, reply(DATA))

    assert 0 == budget.used


@given(offset=st.integers(0, 12), cut=st.integers(0, len(DATA)), junk=st.binary(max_size=80))
def test_tail(offset: int, cut: int, junk: bytes) -> None:
    """The tail begins with the batch of an offset, and has only complete batches."""
    whole = [DATA[i * len(DATA) // 3 : (i + 1) * len(DATA) // 3] for i in range(3)]
    complete = cut // len(whole[0])
    after = batches_from(memoryview(DATA[:cut]), offset)

    assert b"".join(whole[min(offset // 3, complete) : complete]) == after
    assert bytes(batches_from(memoryview(junk), offset)) in junk
