"""Tasks, brokers and decoders that take their time, and who waits for them."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest

from kfetch.agent import broker_thread as lane_thread
from kfetch.agent.budget import Budget
from kfetch.agent.inbox import Inbox
from kfetch.agent.shared import SharedQuery
from kfetch.errors import ReadStalled
from kfetch.fetch import fetcher, warm
from kfetch.fetch.broker_reader import Arrival, BrokerReader
from kfetch.fetch.progress import RangeProgress
from tests.kfetch.agent.shared.helpers import (
    T0,
    T1,
    expected,
    held,
    options,
    part,
    read,
    wait_until,
)
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch.wire.scripted import Silence


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes that wait for a task for moments only."""
    monkeypatch.setattr(lane_thread, "_PATIENCE_S", 0.05)


@pytest.mark.usefixtures("hasty")
def test_a_task_that_does_not_come_gets_one_reply(
    kafka: LittleKafka, query: SharedQuery, budget: Budget
) -> None:
    """What arrives for a task that takes nothing is one reply, whatever the budget has left."""
    with closing(Inbox(query.lane, query._budget, lambda: False)) as slow:
        slow.add([RangeProgress.of(part(kafka, T0))])
        assert wait_until(lambda: any(lane._parked for lane in query._lanes.values()))
        time.sleep(0.1)  # a dozen replies' time

        assert 1 == held(slow)
        assert budget.used < 500
    assert wait_until(lambda: budget.used == 0)


@pytest.mark.usefixtures("hasty")
def test_a_task_that_does_not_come_keeps_nobody_waiting(
    kafka: LittleKafka, query: SharedQuery
) -> None:
    """Another task of the same broker reads on; the slow one then gets the rest, once."""
    item = part(kafka, T0)
    with closing(Inbox(query.lane, query._budget, lambda: False)) as slow:
        progress = RangeProgress.of(item)
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


@pytest.mark.usefixtures("hasty")
def test_a_parked_range_can_be_dropped(kafka: LittleKafka, query: SharedQuery) -> None:
    """A slow task that gives up is out of the lane for good."""
    progress = RangeProgress.of(part(kafka, T0))
    slow = Inbox(query.lane, query._budget, lambda: False)
    slow.add([progress])
    lane = query.lane(progress.leader)
    assert wait_until(lambda: bool(lane._parked))
    slow.drop(progress)
    slow.close()

    assert wait_until(lambda: not lane._parked and not lane._untaken and not lane._inboxes)
    assert not lane._lane.active


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
            inbox.add([RangeProgress.of(part(kafka, T1))])
            time.sleep(0.1)

            assert 0 == budget.used
            assert 1 == len(node.asked(FetchRequest))
    assert time.monotonic() - began < 10


@pytest.fixture
def curt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions that wait for moments only when they end. To be asked for before the query."""
    monkeypatch.setattr(fetcher, "_GOODBYE_S", 0.05)


@pytest.mark.usefixtures("curt")
def test_a_reply_is_handed_out_before_the_next_request(
    kafka: LittleKafka, query: SharedQuery
) -> None:
    """A broker that falls silent does not keep back what has arrived."""
    node = kafka.nodes[1]
    node.answer(FetchRequest, node._always[FetchRequest], Silence())
    with closing(Inbox(query.lane, query._budget, lambda: False)) as inbox:
        inbox.add([RangeProgress.of(part(kafka, T0))])
        deadline = time.monotonic() + 5

        assert [2] == [a.next_offset for a in inbox.next(deadline, deadline)]


def test_whoever_waits_for_another_task_waits_on(
    kafka: LittleKafka, budget: Budget, caplog: pytest.LogCaptureFixture
) -> None:
    """A range behind a slow task's range of the same partition does not fail at its deadline."""
    given = options(kafka, kafkaConsumer__pollTimeoutMs="250")
    with closing(SharedQuery("q", given, budget)) as query, ThreadPoolExecutor(1) as pool:
        slow = pool.submit(read, query, part(kafka, T0), pause=lambda: time.sleep(0.1))

        assert wait_until(lambda: any(lane.partitions for lane in lanes_of(query)))
        assert expected(kafka, part(kafka, T0, 4)) == read(query, part(kafka, T0, 4))
        assert expected(kafka, part(kafka, T0)) == slow.result()
    assert "another reader of the same partition" in caplog.text


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


def lanes_of(query: SharedQuery) -> list[BrokerReader]:
    """Its lanes of now."""
    return [thread._lane for thread in query._lanes.values()]


def test_one_reply_takes_a_small_part_of_the_budget(kafka: LittleKafka) -> None:
    """A request never asks for more than an eighth of the agent's memory: the next one, and the
    readers' segments, need the rest."""
    given = options(kafka, kafka__fetch__max__bytes=str(50 << 20))
    with closing(SharedQuery("q", given, Budget(8 << 20))) as query:
        assert expected(kafka, part(kafka, T0)) == read(query, part(kafka, T0))
    fetches = kafka.asked(FetchRequest)

    assert {1 << 20} == {request.max_bytes for request in fetches if request.topics}
