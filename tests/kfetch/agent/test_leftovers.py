"""Records beyond a range's end are kept for the next range, while memory and the log allow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchRequest

from kfetch import options as parsing
from kfetch.agent.budget import Budget, Reservation
from kfetch.agent.inbox import Inbox
from kfetch.agent.leftovers import Leftovers
from kfetch.agent.shared import SharedQuery
from kfetch.errors import AgentError
from kfetch.fetch.broker_reader import Arrival, BrokerReader
from kfetch.fetch.progress import RangeProgress
from kfetch.fetch.split_reader import SplitReader
from kfetch.model import Broker, OffsetRange, TopicPartition
from kfetch.options import SourceOptions
from kfetch.records import batches_from, extent
from kfetch.replies import PartitionReply
from kfetch.wire.cluster import Cluster
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
    """The offsets that a task of a query reads in a range."""
    log = kafka.log(T0)
    item = OffsetRange(
        tp=T0,
        topic_id=kafka.topics["t"].topic_id,
        start=start,
        end=end,
        leader_epoch=log.epoch,
        leader=kafka.nodes[1].broker,
    )
    with (
        closing(Cluster(query.options.bootstrap, query.options.network)) as cluster,
        closing(Inbox(query.lane, query._budget, lambda: False)) as inbox,
        closing(SplitReader([item], query.options, cluster, inbox).deliveries()) as deliveries,
    ):
        return [offset for one in deliveries for offset in one.batch["offset"].to_pylist()]


@pytest.fixture
def budget() -> Budget:
    """Enough."""
    return Budget(64 << 20)


def options(kafka: LittleKafka, **more: str) -> SourceOptions:
    """Options with short pauses; replies bring all there is."""
    given = {
        "kafka.bootstrap.servers": kafka.bootstrap,
        "subscribe": "t",
        "kafka.retry.backoff.ms": "1",
        "kafka.retry.backoff.max.ms": "5",
    }
    return parsing.parse(given | {name.replace("__", "."): text for name, text in more.items()})


@pytest.fixture
def query(kafka: LittleKafka, budget: Budget) -> Iterator[SharedQuery]:
    """A query's lanes."""
    with closing(SharedQuery("q", options(kafka), budget)) as shared:
        yield shared


def test_the_next_range_needs_no_fetch(kafka: LittleKafka, query: SharedQuery) -> None:
    """What came along beyond a range's end is the next range's, without asking the broker."""
    assert [0, 1, 2] == offsets(kafka, query, 0, 3)
    asked = len(kafka.asked(FetchRequest))

    assert [3, 4, 5, 6] == offsets(kafka, query, 3, 7)
    assert [7, 8, 9] == offsets(kafka, query, 7, 10)
    assert asked == len(kafka.asked(FetchRequest))


def test_what_is_kept_may_be_the_beginning_of_a_range(
    kafka: LittleKafka, query: SharedQuery
) -> None:
    """A range goes on at the broker where the kept records end."""
    assert [0, 1, 2] == offsets(kafka, query, 0, 3)
    kafka.log(T0).append(b"a", b"b")

    assert list(range(3, 12)) == offsets(kafka, query, 3, 12)


@pytest.mark.parametrize("start", [0, 2, 5, 9])
def test_another_range(kafka: LittleKafka, query: SharedQuery, start: int) -> None:
    """A range that does not begin where records were kept is read right all the same."""
    offsets(kafka, query, 0, 3)

    assert list(range(start, 10)) == offsets(kafka, query, start, 10)


def test_a_new_leader_epoch_makes_them_worthless(kafka: LittleKafka, query: SharedQuery) -> None:
    """Records read under an older leader epoch are fetched again: the log may have changed."""
    offsets(kafka, query, 0, 3)
    kafka.log(T0).epoch += 1
    asked = len(kafka.asked(FetchRequest))

    assert list(range(3, 10)) == offsets(kafka, query, 3, 10)
    assert len(kafka.asked(FetchRequest)) > asked


def test_a_damaged_batch_that_is_left_to_the_next_fetch_is_not_kept(
    kafka: LittleKafka, budget: Budget
) -> None:
    """With onCorruptBatch=skip the next range fetches the damaged batch with what follows it, which
    tells how far it reaches; kept alone it could not be passed."""
    log = kafka.log(T0)
    damaged = bytearray(log.batches[1][3])
    damaged[26] += 1  # one offset more than records, as compaction leaves it; and the CRC is wrong
    log.batches[1:] = [(2, 5, 0, bytes(damaged))]
    skipping = options(kafka, kfetch__onCorruptBatch="skip")
    with closing(SharedQuery("q", skipping, budget)) as query:
        assert [0, 1] == offsets(kafka, query, 0, 2)
        log.append(b"a", b"b")

        assert [5, 6] == offsets(kafka, query, 2, 7)


def test_a_failure_gives_back_what_was_taken(
    kafka: LittleKafka, query: SharedQuery, budget: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A range that fails on kept records, for want of memory say, leaves none of them in use."""
    offsets(kafka, query, 0, 3)

    def fails(*_: object) -> Arrival:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(BrokerReader, "take", fails)
        with pytest.raises(AgentError, match="the agent failed: MemoryError"):
            offsets(kafka, query, 3, 7)

    assert 0 == budget.used
    assert [3, 4, 5, 6] == offsets(kafka, query, 3, 7)


def test_no_room_no_records(kafka: LittleKafka, query: SharedQuery, budget: Budget) -> None:
    """Whoever needs memory gets what was kept: the reading of the next range is none the worse."""
    offsets(kafka, query, 0, 3)
    kept = budget.used
    taken = budget.reserve(budget.limit, 0)

    assert kept > 0
    assert taken is not None
    assert budget.limit == budget.used
    taken.release()
    assert list(range(3, 10)) == offsets(kafka, query, 3, 10)


def test_nothing_is_kept_of_a_closed_query(
    kafka: LittleKafka, query: SharedQuery, budget: Budget
) -> None:
    """With the session its leftovers go."""
    offsets(kafka, query, 0, 3)
    query.close()

    assert 0 == budget.used


def progress(start: int, end: int, *, epoch: int = 0, topic: int = 1) -> RangeProgress:
    """A range that begins."""
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
def test_who_gets_what_was_kept(later: RangeProgress, answers: bool) -> None:
    """Only a range of the same topic id and leader epoch that begins in the kept records; whoever
    asks, they are gone then."""
    budget = Budget(1000)
    leftovers = Leftovers(budget)
    done = progress(0, 4)
    done.advance(extent(memoryview(DATA), 0))
    leftovers.keep(done, reply(DATA))
    found = leftovers.take(later)

    assert answers == (found is not None)
    if found is not None:
        assert DATA[len(DATA) // 3 :] == found[0].records
        found[1].release()
    assert leftovers.take(later) is None
    assert 0 == budget.used


@pytest.mark.parametrize(
    "done", [progress(0, 4, topic=0), progress(0, 4, epoch=-1)], ids=["topic id", "leader epoch"]
)
def test_what_nothing_vouches_for_is_not_kept(done: RangeProgress) -> None:
    """Without a topic id or a leader epoch a later range may be of another log: a topic that was
    created again begins with the same numbers."""
    budget = Budget(1000)
    done.advance(extent(memoryview(DATA), 0))
    Leftovers(budget).keep(done, reply(DATA))

    assert 0 == budget.used


@given(offset=st.integers(0, 12), cut=st.integers(0, len(DATA)), junk=st.binary(max_size=80))
def test_tail(offset: int, cut: int, junk: bytes) -> None:
    """The tail begins with the batch that reaches an offset, and has complete batches alone."""
    whole = [DATA[i * len(DATA) // 3 : (i + 1) * len(DATA) // 3] for i in range(3)]
    complete = cut // len(whole[0])
    found = batches_from(memoryview(DATA[:cut]), offset)

    assert b"".join(whole[min(offset // 3, complete) : complete]) == found
    assert bytes(batches_from(memoryview(junk), offset)) in junk


@given(
    st.lists(
        st.tuples(st.sampled_from(["keep", "take", "reserve", "free"]), st.integers(0, 60)),
        max_size=40,
    )
)
def test_kept_bytes_stand_in_nobodys_way(steps: list[tuple[str, int]]) -> None:
    """Whatever is kept, a reservation gets what it would get without it, and bytes add up."""
    budget, bare = Budget(100), Budget(100)
    held: list[tuple[Reservation, Reservation]] = []
    for what, size in steps:
        if what == "keep":
            budget.keep(("me", size % 5), size, None)
        elif what == "take":
            taken = budget.take_back(("me", size % 5))
            if taken is not None:
                taken[1].release()
        elif what == "free" and held:
            for reservation in held.pop():
                reservation.release()
        elif what == "reserve":
            one, other = budget.reserve(size, 0), bare.reserve(size, 0)

            assert (one is None) == (other is None)
            held += [(one, other)] if one and other else []
        assert budget.used <= 100
    for pair in held:
        pair[0].release()
    budget.drop("me")

    assert 0 == budget.used
