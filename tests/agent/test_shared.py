"""Lanes that tasks share: threads over a little Kafka, without Spark and without processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest
from wire.little import LittleKafka
from wire.scripted import Silence

from spark_source import options as parsing
from spark_source.agent import lane_thread, stats, warm
from spark_source.agent.budget import Budget
from spark_source.agent.channel import Gone, Read
from spark_source.agent.events import Decoded
from spark_source.agent.inbox import Inbox
from spark_source.agent.lane import Arrival, Lane
from spark_source.agent.lane_thread import LaneThread
from spark_source.agent.progress import Progress
from spark_source.agent.reading import Reading
from spark_source.agent.shared import SharedQuery
from spark_source.errors import AgentError, ReadStalled
from spark_source.model import OffsetRange, TopicPartition
from spark_source.options import SourceOptions
from spark_source.wire.cluster import Cluster

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
BATCHES = 6
Rows = list[tuple[int, int, bytes]]


def wait_until(condition: Callable[[], bool], seconds: float = 10) -> bool:
    """Whether a condition came true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


@pytest.fixture
def kafka() -> Iterator[LittleKafka]:
    """One node; two partitions of six batches with two records each."""
    with LittleKafka(1) as running:
        running.create("t", 2)
        for tp in (T0, T1):
            for n in range(BATCHES):
                running.log(tp).append(b"%d %da" % (tp.partition, n), b"b")
        yield running


def options(kafka: LittleKafka, **given: str) -> SourceOptions:
    """Options with short pauses and one batch in a reply."""
    chosen = {
        "kafka.bootstrap.servers": kafka.bootstrap,
        "subscribe": "t",
        "kafkaConsumer.pollTimeoutMs": "10000",
        "kafka.retry.backoff.ms": "1",
        "kafka.retry.backoff.max.ms": "5",
        "kafka.max.partition.fetch.bytes": "1",
    }
    return parsing.parse(chosen | {name.replace("__", "."): text for name, text in given.items()})


@pytest.fixture
def budget() -> Budget:
    """More than the tests need."""
    return Budget(64 << 20)


@pytest.fixture
def query(kafka: LittleKafka, budget: Budget) -> Iterator[SharedQuery]:
    """A query's lanes."""
    with closing(SharedQuery("q", options(kafka), budget)) as shared:
        yield shared


def part(kafka: LittleKafka, tp: TopicPartition, start: int = 0, end: int = 0) -> OffsetRange:
    """A range, as the driver would plan it; the whole log if it has no end."""
    log = kafka.log(tp)
    return OffsetRange(
        tp=tp,
        topic_id=kafka.topics[tp.topic].topic_id,
        start=start,
        end=end or log.end,
        leader_epoch=log.epoch,
        leader=kafka.nodes[log.leader or 1].broker,
    )


def expected(kafka: LittleKafka, item: OffsetRange) -> Rows:
    """What the log has in a range."""
    return [
        (item.tp.partition, at, kafka.log(item.tp).values[at]) for at in range(item.start, item.end)
    ]


def read(query: SharedQuery, *ranges: OffsetRange, pause_s: float = 0.0) -> Rows:
    """What one task reads, with a pause behind each batch."""
    found: Rows = []
    with (
        closing(Cluster(query.options.bootstrap, query.options.network)) as cluster,
        closing(Inbox(query.lane, query._budget, lambda: False)) as inbox,
        closing(Reading(ranges, query.options, cluster, inbox).deliveries()) as deliveries,
    ):
        for delivery in deliveries:
            found += [(r["partition"], r["offset"], r["value"]) for r in delivery.batch.to_pylist()]
            time.sleep(pause_s)
    return found


def held(inbox: Inbox) -> int:
    """Replies that lie in an inbox."""
    return inbox._arrived.qsize()


def test_two_tasks_share_one_session(kafka: LittleKafka, query: SharedQuery) -> None:
    """Two readers of one broker get their own records, through one session and connection."""
    items = [part(kafka, T0), part(kafka, T1)]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda item: read(query, item), items))

    assert [expected(kafka, item) for item in items] == found
    assert 1 == query.stats().sessions_opened
    assert 1 == query.stats().connections_opened


def test_two_tasks_read_the_same_range(kafka: LittleKafka, query: SharedQuery) -> None:
    """Of a speculative task and its original each gets every record."""
    item = part(kafka, T0)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: read(query, item), range(2)))

    assert [expected(kafka, item)] * 2 == found


def test_a_task_that_goes_away_leaves_the_session(
    kafka: LittleKafka, query: SharedQuery, budget: Budget
) -> None:
    """A reader that is closed early takes its partition out, and its memory comes back."""
    whole = part(kafka, T0, end=1000)
    early = Inbox(query.lane, query._budget, lambda: False)
    with closing(Cluster(query.options.bootstrap, query.options.network)) as cluster:
        deliveries = Reading([whole], query.options, cluster, early).deliveries()
        next(deliveries)
        deliveries.close()
        early.close()

    assert expected(kafka, part(kafka, T1)) == read(query, part(kafka, T1))
    assert {1} == {index for _, index in kafka.sessions()[0].partitions}
    assert wait_until(lambda: budget.used == 0)


def test_a_worker_that_has_gone_ends_its_reading(kafka: LittleKafka, query: SharedQuery) -> None:
    """While nothing arrives the inbox asks whether anybody still waits."""
    with closing(Inbox(query.lane, query._budget, lambda: True)) as inbox, pytest.raises(Gone):
        inbox.next(time.monotonic() + 10, time.monotonic() + 10)


@pytest.mark.parametrize("size", [1, 300])
def test_the_smallest_budget_reads_everything(kafka: LittleKafka, size: int) -> None:
    """With room for less than a reply readers take turns, and nothing stays in use."""
    budget = Budget(size)
    items = [part(kafka, T0), part(kafka, T1)] * 2
    with (
        closing(SharedQuery("one", options(kafka), budget)) as one,
        closing(SharedQuery("two", options(kafka), budget)) as two,
        ThreadPoolExecutor(4) as pool,
    ):
        found = list(pool.map(read, [one, one, two, two], items))

        assert [expected(kafka, item) for item in items] == found
    assert 0 == budget.used


def test_a_task_that_does_not_come_gets_one_reply(
    kafka: LittleKafka, query: SharedQuery, budget: Budget
) -> None:
    """What arrives for a task that takes nothing is one reply, whatever the budget has left."""
    with closing(Inbox(query.lane, query._budget, lambda: False)) as slow:
        slow.add([Progress.of(part(kafka, T0))])
        assert wait_until(lambda: held(slow) == 1)
        time.sleep(0.8)  # longer than a lane's patience

        assert 1 == held(slow)
        assert budget.used < 500
    assert wait_until(lambda: budget.used == 0)


def test_a_task_that_does_not_come_keeps_nobody_waiting(
    kafka: LittleKafka, query: SharedQuery
) -> None:
    """Another task of the same broker reads on; the slow one then gets the rest, once."""
    item = part(kafka, T0)
    with closing(Inbox(query.lane, query._budget, lambda: False)) as slow:
        progress = Progress.of(item)
        slow.add([progress])
        assert wait_until(lambda: held(slow) == 1)

        assert expected(kafka, part(kafka, T1)) == read(query, part(kafka, T1))
        assert 1 == held(slow)
        offsets = [a.next_offset for a in taken(slow, item.end)]
    assert [2, 4, 6, 8, 10, 12] == offsets


def taken(inbox: Inbox, end: int) -> list[Arrival]:
    """What an inbox gets until a range is done."""
    arrivals: list[Arrival] = []
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and (not arrivals or arrivals[-1].next_offset < end):
        arrivals += inbox.next(deadline, deadline)
    for arrival in arrivals:
        arrival.release()
    return arrivals


def test_a_parked_range_can_be_dropped(kafka: LittleKafka, query: SharedQuery) -> None:
    """A slow task that gives up is out of the lane for good."""
    progress = Progress.of(part(kafka, T0))
    slow = Inbox(query.lane, query._budget, lambda: False)
    slow.add([progress])
    lane = query.lane(progress.leader)
    assert wait_until(lambda: bool(lane._parked))
    slow.drop(progress)
    slow.close()

    assert wait_until(lambda: not lane._parked and not lane._untaken and not lane._inboxes)
    assert not lane._lane.active


def test_a_small_query_is_not_starved(kafka: LittleKafka) -> None:
    """A reader that takes its time over a full budget leaves another query its turn."""
    budget = Budget(1)
    with (
        closing(SharedQuery("big", options(kafka), budget)) as big,
        closing(SharedQuery("small", options(kafka), budget)) as small,
        ThreadPoolExecutor(2) as pool,
    ):
        slow = pool.submit(read, big, part(kafka, T0), pause_s=0.2)
        began = time.monotonic()

        assert expected(kafka, part(kafka, T1)) == read(small, part(kafka, T1))
        assert time.monotonic() - began < 5
        assert expected(kafka, part(kafka, T0)) == slow.result()


@pytest.mark.parametrize("where", ["_charged", "_deliver"])
def test_a_bug_fails_tasks_and_loses_nothing(
    kafka: LittleKafka, query: SharedQuery, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """A ranges's position has moved when a reply is lost inside: its task fails, for good."""
    honest = getattr(LaneThread, where)
    calls = []

    def once(self: LaneThread, arrivals: Any) -> Any:
        calls.append(arrivals)
        if len(calls) == 2:
            raise ValueError("a bug")
        return honest(self, arrivals)

    monkeypatch.setattr(LaneThread, where, once)

    with pytest.raises(AgentError, match="the agent failed: ValueError\\('a bug'\\)"):
        read(query, part(kafka, T0))
    assert expected(kafka, part(kafka, T0)) == read(query, part(kafka, T0))
    assert 0 == query._budget.used


def test_a_bug_in_the_lane_fails_tasks_that_are_done_there(
    kafka: LittleKafka, query: SharedQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A range that the lane has left as read, but not handed out, fails too."""
    honest = Lane.receive
    calls = []

    def lossy(self: Lane, deadline: float) -> list[Arrival]:
        arrivals = honest(self, deadline)
        calls.append(arrivals)
        if len(calls) == 1:
            raise ValueError("a bug")
        return arrivals

    monkeypatch.setattr(Lane, "receive", lossy)

    with pytest.raises(AgentError, match="a bug"):
        read(query, part(kafka, T0, end=2))


def test_a_throttling_broker_is_left_alone_and_readers_are_not(
    kafka: LittleKafka, budget: Budget
) -> None:
    """A reply with a pause is handed out at once; no memory is held and no drop waits meanwhile."""
    node = kafka.nodes[1]
    honest = node._always[FetchRequest]

    def throttled(request: Any) -> Any:
        reply = honest(request)
        reply.throttle_time_ms = 60_000
        return reply

    node.always(FetchRequest, throttled)
    began = time.monotonic()
    with closing(SharedQuery("q", options(kafka), budget)) as query:
        assert expected(kafka, part(kafka, T0, end=2)) == read(query, part(kafka, T0, end=2))
        with closing(Inbox(query.lane, query._budget, lambda: False)) as inbox:
            inbox.add([Progress.of(part(kafka, T1))])
            time.sleep(0.1)

            assert 0 == budget.used
            assert 1 == len(node.asked(FetchRequest))
    assert time.monotonic() - began < 10


def test_a_reply_is_handed_out_before_the_next_request(
    kafka: LittleKafka, query: SharedQuery
) -> None:
    """A broker that falls silent does not keep back what has arrived."""
    node = kafka.nodes[1]
    node.answer(FetchRequest, node._always[FetchRequest], Silence())
    with closing(Inbox(query.lane, query._budget, lambda: False)) as inbox:
        inbox.add([Progress.of(part(kafka, T0))])
        deadline = time.monotonic() + 5

        assert [2] == [a.next_offset for a in inbox.next(deadline, deadline)]


def test_closing_ends_threads_and_sessions(kafka: LittleKafka, budget: Budget) -> None:
    """A closed query leaves no thread, no session and no memory in use."""
    query = SharedQuery("q", options(kafka), budget)
    read(query, part(kafka, T0))
    lanes = [t for t in threading.enumerate() if isinstance(t, LaneThread)]
    query.close()

    assert lanes
    assert not any(lane.is_alive() for lane in lanes)
    assert [] == kafka.sessions()
    assert 0 == budget.used


def test_totals_of_a_directory(kafka: LittleKafka, budget: Budget, tmp_path: Path) -> None:
    """Tasks that end together leave one file with all that was read."""
    given = options(kafka, kfetch__statsDirectory=str(tmp_path))
    with closing(SharedQuery("q", given, budget)) as query, ThreadPoolExecutor(8) as pool:
        for _ in range(8):
            query.enter(Read(query="q", options=given, ranges=()))
        query.tell(Decoded(records=12, size=100, seconds=0.1))
        list(pool.map(lambda _: query.leave(), range(8)))

    assert 12 == stats.read(tmp_path).records
    assert 1 == len(list(tmp_path.iterdir()))


def test_statistics_written_at_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Threads that write one query's file together don't take each other's draft away."""
    with ThreadPoolExecutor(8) as pool:
        done = pool.map(
            lambda n: stats.write(str(tmp_path), "q", stats.FetchStats(records=n)), range(400)
        )
        list(done)

    assert [] == caplog.messages
    assert 1 == len(list(tmp_path.iterdir()))


def test_whoever_waits_for_another_task_waits_on(
    kafka: LittleKafka, budget: Budget, caplog: pytest.LogCaptureFixture
) -> None:
    """A range behind a slow task's range of the same partition does not fail at its deadline."""
    given = options(kafka, kafkaConsumer__pollTimeoutMs="250")
    with closing(SharedQuery("q", given, budget)) as query, ThreadPoolExecutor(1) as pool:
        slow = pool.submit(read, query, part(kafka, T0), pause_s=0.1)

        assert wait_until(lambda: any(lane.partitions for lane in lanes_of(query)))
        assert expected(kafka, part(kafka, T0, 4)) == read(query, part(kafka, T0, 4))
        assert expected(kafka, part(kafka, T0)) == slow.result()
    assert "another reader of the same partition" in caplog.text


def test_a_thread_that_cannot_start_is_tried_again(
    kafka: LittleKafka, budget: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that finds no thread to be had fails; the next one gets a lane that lives."""

    def fails(_: LaneThread) -> None:
        raise RuntimeError("can't start new thread")

    with closing(SharedQuery("q", options(kafka), budget)) as query:
        with monkeypatch.context() as patch:
            patch.setattr(LaneThread, "start", fails)
            with pytest.raises(RuntimeError):
                read(query, part(kafka, T0))

        assert expected(kafka, part(kafka, T0)) == read(query, part(kafka, T0))


def test_compiling_does_not_use_up_the_deadline(
    kafka: LittleKafka, budget: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decoder that takes longer to load than the poll timeout fails no task."""
    monkeypatch.setattr(warm, "load", lambda: time.sleep(0.3))
    given = options(kafka, kafkaConsumer__pollTimeoutMs="250")
    with closing(SharedQuery("q", given, budget)) as query:
        assert expected(kafka, part(kafka, T0)) == read(query, part(kafka, T0))


def test_whoever_waits_for_memory_fails_in_the_end(
    kafka: LittleKafka, budget: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory that never comes is the reason that the error tells, after ten deadlines."""
    monkeypatch.setattr(lane_thread, "_LOOK_S", 0.01)
    given = options(kafka, kafkaConsumer__pollTimeoutMs="30")
    hog = budget.reserve(budget.limit, 0)
    began = time.monotonic()

    with closing(SharedQuery("q", given, budget)) as query:
        with pytest.raises(ReadStalled, match=r"memory \(kfetch.agent.memory\)"):
            read(query, part(kafka, T0))
        assert time.monotonic() - began >= 0.3
    assert hog is not None


def lanes_of(query: SharedQuery) -> list[Lane]:
    """Its lanes of now."""
    return [thread._lane for thread in query._lanes.values()]
