"""The watch with its threads, over a little Kafka: current log ends, retries, closed sessions."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest

from kfetch.offsets import Position
from kfetch.watch import poller
from kfetch.watch import watch as watching
from kfetch.watch.broker_report import BrokerReport
from kfetch.watch.lookups import OffsetLookup
from kfetch.watch.watch import Watch
from tests.kfetch.watch.helpers import T0
from tests.kfetch.watch.live_query import PATIENCE_S
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch.wire.scripted import Close, Silence

pytestmark = pytest.mark.usefixtures("quick")


def fetches(kafka: LittleKafka, node: int = 1) -> list[tuple[int, int, int]]:
    """(session, epoch, partitions) of each fetch at a node."""
    return [
        (r.session_id, r.session_epoch, sum(len(t.partitions) for t in r.topics))
        for r in kafka.nodes[node].asked(FetchRequest)
    ]


def test_appends_move_the_log_end(kafka: LittleKafka, watched: Any) -> None:
    """Each append moves the log end. One session per broker names the moved partitions only."""
    query = watched()
    for number in range(5):
        kafka.log(T0).append(b"%d" % number)
        query.until(lambda n=number: query.watch.state.log_end(T0) == Position(4 + n, 0))

    assert T0 in query.changed
    assert [(0, 0, 1)] == [f for f in fetches(kafka) if f[1] == 0]
    query.until(lambda: sum(named for _, epoch, named in fetches(kafka) if epoch > 0) == 5)
    request = kafka.nodes[1].asked(FetchRequest)[0]
    assert (1, 1, 500) == (request.max_bytes, request.min_bytes, request.max_wait_ms)
    assert {1} == {p.partition_max_bytes for t in request.topics for p in t.partitions}
    assert {"kfetch-watch"} == {r.header.client_id for r in kafka.nodes[1].asked(FetchRequest)}


def test_after_a_change_a_session_rests_until_planning(
    kafka: LittleKafka, watched: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two plannings the watch does not poll a busy broker. Planning polls and waits."""
    monkeypatch.setattr(poller, "REST_S", PATIENCE_S)
    query = watched()
    (session,) = [p for b, p in query.pollers.items() if b.node_id == 1]
    kafka.log(T0).append(b"news")
    until_true(lambda: session.resting)
    for end in (5, 6, 7):
        before = len(fetches(kafka))
        kafka.log(T0).append(b"not asked for yet")
        assert query.watch.state.log_end(T0) == Position(end - 1, 0)
        query.watch.poll_resting(PATIENCE_S)
        assert query.watch.state.log_end(T0) == Position(end, 0)
        until_true(lambda: session.resting)
        assert before + 1 == len(fetches(kafka))


def until_true(condition: Callable[[], object]) -> None:
    """Wait without a call to the watch."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_polling_a_silent_broker_is_bounded(kafka: LittleKafka, watched: Any) -> None:
    """The driver waits no longer than the timeout for a broker that does not answer."""
    query = watched()
    query.until(lambda: kafka.sessions(1))
    kafka.nodes[1].always(FetchRequest, Silence())
    for poll in query.pollers.values():
        poll.resting = True
    began = time.monotonic()
    query.watch.poll_resting(0.02)
    assert time.monotonic() - began < 30
    kafka.nodes[1].always(FetchRequest, Close())


def test_a_moved_leader_is_followed(kafka: LittleKafka, watched: Any) -> None:
    """The reply's hint moves a partition to its new leader. An empty session closes with its poller
    and is opened again with the partition."""
    query = watched()
    for node in (2, 1, 2):
        kafka.elect(T0, node)
        kafka.log(T0).append(b"d")
        end = kafka.log(T0).end
        query.until(
            lambda end=end: query.watch.state.log_end(T0) == Position(end, kafka.log(T0).epoch)
        )
        assert node == query.watch.state.leader(T0).broker.node_id

    assert not query.watch.needs_metadata


def test_without_hints_metadata_helps(kafka: LittleKafka, watched: Any) -> None:
    """If replies name no leader, the watch needs metadata and does not poll in a hot loop."""
    kafka.hints = False
    query = watched()
    kafka.elect(T0, 2)
    query.until(lambda: query.watch.needs_metadata)
    polls = len(fetches(kafka))
    query.refresh_metadata()
    query.until(lambda: query.watch.state.log_end(T0) is not None)

    assert 2 == query.watch.state.leader(T0).broker.node_id
    assert len(fetches(kafka)) < polls + 10


class LockedReport(BrokerReport):
    """Notes whether another thread could take the watch's lock during each call."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch
        self.free: list[bool] = []

    def answered(self, key: Hashable) -> None:
        """See BrokerReport."""
        with ThreadPoolExecutor(1) as pool:
            self.free.append(pool.submit(self._take_lock).result())

    def _take_lock(self) -> bool:
        free = self.watch._condition.acquire(timeout=0.05)
        if free:
            self.watch._condition.release()
        return free


def test_the_report_is_written_without_the_lock(kafka: LittleKafka, watched: Any) -> None:
    """A slow disk delays no reply: a broker that leads nothing any more leaves the report."""
    query = watched()
    watch = query.watch
    kafka.elect(T0, 2)
    deadline = time.monotonic() + PATIENCE_S
    while len(query.pollers) > 1 and time.monotonic() < deadline:
        watch.wait_for_change(0.01)
    watch.report = report = LockedReport(watch)
    assert watch.take_position_changes(kafka.nodes[1].broker) is None

    assert report.free
    assert all(report.free)


def test_an_eviction_is_routine(kafka: LittleKafka, watched: Any) -> None:
    """The watch opens an evicted session again and misses no record."""
    query = watched()
    query.until(lambda: kafka.sessions(1) and kafka.sessions(2))
    kafka.evict()
    kafka.log(T0).append(b"d")
    query.until(lambda: query.watch.state.log_end(T0) == Position(4, 0))

    assert 2 == len([f for f in fetches(kafka) if f[1] == 0])
    query.until(lambda: query.watch.stats().sessions_lost == 2)  # one of each broker


def test_a_refused_session_goes_on_without(kafka: LittleKafka, watched: Any) -> None:
    """A broker with a full session cache gets full fetches, and sometimes a session request."""
    original = kafka.fetch

    def full(request: Any) -> Any:
        reply = original(1, request)
        reply.session_id = 0
        return reply

    kafka.nodes[1].always(FetchRequest, full)
    query = watched()
    kafka.log(T0).append(b"d")
    query.until(lambda: query.watch.state.log_end(T0) == Position(4, 0))
    query.until(lambda: len(fetches(kafka)) > 8)

    assert {0} == {session for session, _, _ in fetches(kafka)}
    assert {0, -1} == {epoch for _, epoch, _ in fetches(kafka)}
    assert query.watch.stats().sessions_refused > 1


def test_closing_closes_the_sessions(kafka: LittleKafka, watched: Any) -> None:
    """close() ends every session with epoch -1, and the threads with it."""
    query = watched()
    query.until(lambda: kafka.sessions(1) and kafka.sessions(2))
    query.close()

    assert ([], []) == (kafka.sessions(1), kafka.sessions(2))
    assert {-1} == {fetches(kafka, node)[-1][1] for node in (1, 2)}


def test_closing_twice_waits_twice(kafka: LittleKafka, watched: Any) -> None:
    """A second close, as from a signal handler, also returns after the sessions are closed."""
    query = watched()
    query.until(lambda: kafka.sessions(1) and kafka.sessions(2))
    for started in query.pollers.values():
        started.join = interrupted(started.join, query.watch.close)
    query.close()

    assert ([], []) == (kafka.sessions(1), kafka.sessions(2))


def interrupted(
    join: Callable[[float], None], close: Callable[[], None]
) -> Callable[[float], None]:
    """A join that another close interrupts and that does not continue."""
    calls: list[float] = []

    def joined(seconds: float) -> None:
        calls.append(seconds)
        if len(calls) == 1:
            close()
        else:
            join(seconds)

    return joined


def test_closing_is_bounded(
    kafka: LittleKafka, watched: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that does not answer does not delay closing beyond the limit."""
    monkeypatch.setattr(watching, "CLOSE_S", 0.1)
    query = watched()
    query.until(lambda: kafka.sessions(1))
    for node in kafka.nodes.values():
        node.always(FetchRequest, Silence())
    began = time.monotonic()
    query.close()

    assert time.monotonic() - began < 30
    for node in kafka.nodes.values():
        node.always(FetchRequest, Close())


def test_last_stable_offsets(kafka: LittleKafka, watched: Any) -> None:
    """Under read_committed, positions and requests are at the last stable offset."""
    options = watched().watch._options
    options = replace(options, fetch=replace(options.fetch, read_committed=True))
    before = len(fetches(kafka))
    committed = Watch(options)
    lookup = OffsetLookup(options)
    kafka.log(T0).stable = 2
    view = lookup.cluster_view()
    new = committed.update_metadata(view, lookup.subscribed_partitions(view))
    committed.watch_from(
        {tp: Position(2, 0) for tp in new}, {tp: view.leader(tp) for tp in new}, {}
    )
    deadline = time.monotonic() + PATIENCE_S
    while committed.state.log_start(T0).offset < 0 and time.monotonic() < deadline:
        committed.wait_for_change(0.01)
    committed.close()
    lookup.close()

    asked = [r for r in kafka.nodes[1].asked(FetchRequest)[before:] if r.isolation_level == 1]
    assert {2} == {p.fetch_offset for r in asked for t in r.topics for p in t.partitions}
    assert Position(2, 0) == committed.state.log_end(T0)
