"""A broker's thread: slow tasks, slow brokers, want of memory, and bugs.

None of them loses a record or memory, and a slow task holds up no other task.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from kfetch import decoding
from kfetch.agent import reply_memory, shared_broker
from kfetch.agent.broker_thread import BrokerThread
from kfetch.agent.budget import Budget
from kfetch.agent.inbox import Inbox
from kfetch.agent.reply_memory import ReplyMemory
from kfetch.agent.shared_query import SharedQuery
from kfetch.errors import AgentError, ReadStalled
from kfetch.fetch import fetcher
from kfetch.fetch.arrivals import Arrival, RecordsArrived
from kfetch.fetch.broker_reader import BrokerReader
from kfetch.fetch.progress import RangeProgress
from tests.kfetch.agent.helpers import T0, T1, expected, options, part, pending, read, wait_until
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch.wire.scripted import Silence


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that pause a task's ranges after a moment."""
    monkeypatch.setattr(shared_broker, "_SLOW_TASK_S", 0.05)


@pytest.mark.usefixtures("impatient")
def test_a_task_that_takes_nothing_gets_one_reply(
    kafka: LittleKafka, query: SharedQuery, budget: Budget
) -> None:
    """A task that takes no arrivals gets one reply, however much memory is left."""
    with closing(Inbox(query.reader_of, budget, lambda: False)) as slow:
        slow.add([RangeProgress.of(part(kafka, T0))])
        assert wait_until(lambda: any(t._paused for t in query._brokers.values()))
        time.sleep(0.1)  # enough for a dozen replies

        assert 1 == pending(slow)
        assert budget.used < 500
    assert wait_until(lambda: budget.used == 0)


@pytest.mark.usefixtures("impatient")
def test_a_slow_task_holds_up_no_other_task(
    kafka: LittleKafka, query: SharedQuery, budget: Budget
) -> None:
    """Another task of the same broker reads on. Then the slow one gets its other records, once."""
    item = part(kafka, T0)
    with closing(Inbox(query.reader_of, budget, lambda: False)) as slow:
        progress = RangeProgress.of(item)
        slow.add([progress])
        assert wait_until(lambda: pending(slow) == 1)

        assert expected(kafka, part(kafka, T1)) == read(query, part(kafka, T1))
        assert 1 == pending(slow)
        offsets = [a.next_offset for a in arrivals_until(slow, item.end)]
    assert [2, 4, 6, 8, 10, 12] == offsets


def records_of(inbox: Inbox, deadline: float) -> list[RecordsArrived]:
    """The next arrivals that have records."""
    return [a for a in inbox.next(deadline, deadline) if isinstance(a, RecordsArrived)]


def arrivals_until(inbox: Inbox, end: int) -> list[RecordsArrived]:
    """The arrivals of a task until its range is done, with their memory released."""
    arrivals: list[RecordsArrived] = []
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (not arrivals or arrivals[-1].next_offset < end):
        arrivals += records_of(inbox, deadline)
    for arrival in arrivals:
        arrival.release()
    return arrivals


@pytest.mark.usefixtures("impatient")
def test_a_paused_range_can_be_dropped(
    kafka: LittleKafka, query: SharedQuery, budget: Budget
) -> None:
    """After a slow task drops its range, the thread has nothing left of the task."""
    progress = RangeProgress.of(part(kafka, T0))
    slow = Inbox(query.reader_of, budget, lambda: False)
    slow.add([progress])
    thread = query.reader_of(progress.leader)
    assert wait_until(lambda: bool(thread._paused))
    slow.drop(progress)
    slow.close()

    assert wait_until(
        lambda: not thread._paused and not thread._pending_deliveries and not thread._inboxes
    )
    assert not thread._reader.active


def test_a_throttling_broker_delays_only_requests(kafka: LittleKafka, budget: Budget) -> None:
    """A reply with a throttle time is delivered at once. Meanwhile the thread holds no memory."""
    node = kafka.nodes[1]
    honest = node.handlers[FetchRequest]

    def throttled(request: Any) -> Any:
        reply = honest(request)
        reply.throttle_time_ms = 60_000
        return reply

    node.always(FetchRequest, throttled)
    began = time.monotonic()
    with closing(SharedQuery("q", options(kafka), budget)) as query:
        assert expected(kafka, part(kafka, T0, end=2)) == read(query, part(kafka, T0, end=2))
        with closing(Inbox(query.reader_of, budget, lambda: False)) as inbox:
            inbox.add([RangeProgress.of(part(kafka, T1))])
            time.sleep(0.1)

            assert 0 == budget.used
            assert 1 == len(node.asked(FetchRequest))
    assert time.monotonic() - began < 30


@pytest.fixture
def quick_close(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fetchers that wait only a moment when they close. A test requests it before ``query``."""
    monkeypatch.setattr(fetcher, "_CLOSE_TIMEOUT_S", 0.05)


@pytest.mark.usefixtures("quick_close")
def test_a_reply_is_delivered_before_the_next_request(
    kafka: LittleKafka, query: SharedQuery, budget: Budget
) -> None:
    """A broker that stops answering does not delay the reply that has arrived."""
    node = kafka.nodes[1]
    node.answer(FetchRequest, node.handlers[FetchRequest], Silence())
    with closing(Inbox(query.reader_of, budget, lambda: False)) as inbox:
        inbox.add([RangeProgress.of(part(kafka, T0))])
        deadline = time.monotonic() + 5

        assert [2] == [a.next_offset for a in records_of(inbox, deadline)]


def test_a_range_that_waits_for_another_task_does_not_fail(
    kafka: LittleKafka, budget: Budget, caplog: pytest.LogCaptureFixture
) -> None:
    """While a slow task reads the same partition, a queued range does not fail at its deadline."""
    short_timeout = options(kafka, kafkaConsumer__pollTimeoutMs="500")
    with closing(SharedQuery("q", short_timeout, budget)) as query, ThreadPoolExecutor(1) as pool:
        slow = pool.submit(read, query, part(kafka, T0), pause=lambda: time.sleep(0.2))

        assert wait_until(lambda: any(t._reader.partition_count for t in query._brokers.values()))
        assert expected(kafka, part(kafka, T0, 4)) == read(query, part(kafka, T0, 4))
        assert expected(kafka, part(kafka, T0)) == slow.result()
    assert "another reader of the same partition" in caplog.text


def test_compiling_does_not_use_up_the_deadline(
    kafka: LittleKafka, budget: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the decoder takes longer to load than the poll timeout, no task fails."""
    monkeypatch.setattr(decoding, "load_decoder", lambda: time.sleep(1.2))
    short_timeout = options(kafka, kafkaConsumer__pollTimeoutMs="1000")
    with closing(SharedQuery("q", short_timeout, budget)) as query:
        assert expected(kafka, part(kafka, T0)) == read(query, part(kafka, T0))


def test_a_wait_for_memory_has_an_end(
    kafka: LittleKafka, budget: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If memory never comes, the read fails after ten timeouts, and the error names the memory."""
    monkeypatch.setattr(reply_memory, "_WAIT_S", 0.01)
    short_timeout = options(kafka, kafkaConsumer__pollTimeoutMs="30")
    hog = budget.reserve(budget.limit, 0)
    began = time.monotonic()

    with closing(SharedQuery("q", short_timeout, budget)) as query:
        with pytest.raises(ReadStalled, match=r"memory \(kfetch.agent.memory\)"):
            read(query, part(kafka, T0))
        assert time.monotonic() - began >= 0.3
    assert hog is not None


def test_one_reply_takes_a_small_part_of_the_budget(kafka: LittleKafka) -> None:
    """A request never asks for more than an eighth of the agent's memory. The next request and the
    readers' segments need the rest."""
    limited = options(kafka, kafka__fetch__max__bytes=str(50 << 20))
    with closing(SharedQuery("q", limited, Budget(8 << 20))) as query:
        assert expected(kafka, part(kafka, T0)) == read(query, part(kafka, T0))
    fetches = kafka.asked(FetchRequest)

    assert {1 << 20} == {request.max_bytes for request in fetches if request.topics}


def test_a_broker_that_refuses_api_versions_fails_no_task(
    kafka: LittleKafka, query: SharedQuery
) -> None:
    """While a broker answers ApiVersions with an error, its tasks wait as if it were away."""
    refusal = ApiVersionsResponse[0](error_code=-1, api_keys=[])
    kafka.nodes[1].answer(ApiVersionsRequest, *[refusal] * 6)
    items = [part(kafka, T0), part(kafka, T1)]
    with ThreadPoolExecutor(2) as pool:
        rows = list(pool.map(lambda item: read(query, item), items))

    assert [expected(kafka, item) for item in items] == rows


@pytest.mark.parametrize(
    ("owner", "where"),
    [(ReplyMemory, "share"), (BrokerThread, "_deliver")],
    ids=["share", "deliver"],
)
def test_a_bug_fails_tasks_and_loses_nothing(
    kafka: LittleKafka,
    query: SharedQuery,
    budget: Budget,
    monkeypatch: pytest.MonkeyPatch,
    owner: type,
    where: str,
) -> None:
    """If a bug loses a reply after its range has moved, the task fails. The next task reads all."""
    honest = getattr(owner, where)
    calls = []

    def once(self: Any, arrivals: Any) -> Any:
        calls.append(arrivals)
        if len(calls) == 2:
            raise ValueError("a bug")
        return honest(self, arrivals)

    monkeypatch.setattr(owner, where, once)

    with pytest.raises(AgentError, match="the agent failed: ValueError\\('a bug'\\)"):
        read(query, part(kafka, T0))
    assert expected(kafka, part(kafka, T0)) == read(query, part(kafka, T0))
    assert 0 == budget.used


def test_a_bug_in_the_reader_fails_tasks_whose_ranges_are_done(
    kafka: LittleKafka, query: SharedQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A range fails too if the reader has finished it and the thread has not delivered it."""
    honest = BrokerReader.receive
    calls = []

    def lossy(self: BrokerReader, deadline: float) -> list[Arrival]:
        arrivals = honest(self, deadline)
        calls.append(arrivals)
        if len(calls) == 1:
            raise ValueError("a bug")
        return arrivals

    monkeypatch.setattr(BrokerReader, "receive", lossy)

    with pytest.raises(AgentError, match="a bug"):
        read(query, part(kafka, T0, end=2))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_dies_of_a_bug_is_replaced(
    kafka: LittleKafka, query: SharedQuery, budget: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If not even failing the tasks works, the thread retires. Its task fails, and the next task
    gets another thread."""

    def bug(*_: object) -> None:
        raise ValueError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr(BrokerThread, "_send", bug)
        thread = query.reader_of(kafka.nodes[1].broker)
        patch.setattr(BrokerThread, "_new_reader", bug)
        with pytest.raises(AgentError, match="a bug"):
            read(query, part(kafka, T0))
        assert isinstance(thread, BrokerThread)
        thread._thread.join(60)
        assert thread.retired
        assert thread not in query._running

    assert expected(kafka, part(kafka, T0)) == read(query, part(kafka, T0))
    assert 0 == budget.used


def test_a_thread_that_cannot_start_is_tried_again(
    kafka: LittleKafka, budget: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a thread can't start, the task fails. The next task starts one."""

    def cannot_start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with closing(SharedQuery("q", options(kafka), budget)) as query:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", cannot_start)
            with pytest.raises(RuntimeError):
                read(query, part(kafka, T0))

        assert expected(kafka, part(kafka, T0)) == read(query, part(kafka, T0))
