"""The agent's server in threads over a little Kafka: what workers see of it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kfetch import options as parsing
from kfetch._version import __version__
from kfetch.agent import broker_thread as lane_thread
from kfetch.agent import client, server, shared
from kfetch.agent.budget import Budget
from kfetch.agent.channel import AskStatus, Batch, Channel, Hello, Read, Release, Status
from kfetch.agent.server import Queries, Segments, Server
from kfetch.errors import AgentError, ReadStalled
from kfetch.fetch import stats, warm
from kfetch.fetch.split_reader import Delivery
from kfetch.model import OffsetRange, TopicPartition
from kfetch.options import SourceOptions
from tests.kfetch.agent.shared.helpers import expected, part, wait_until
from tests.kfetch.wire.little import LittleKafka

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
LARGE = b"x" * 300_000
Rows = list[tuple[int, int, bytes]]


@pytest.fixture
def kafka() -> Iterator[LittleKafka]:
    """One node; two partitions of eight batches with one large record each."""
    with LittleKafka(1) as running:
        running.create("t", 2)
        for tp in (T0, T1):
            for n in range(8):
                running.log(tp).append(b"%d" % n + LARGE)
        yield running


def options(kafka: LittleKafka, **given: str) -> SourceOptions:
    """Options with short pauses, one batch in a reply, and a small budget."""
    chosen = {
        "kafka.bootstrap.servers": kafka.bootstrap,
        "subscribe": "t",
        "kafkaConsumer.pollTimeoutMs": "5000",
        "kafka.retry.backoff.ms": "1",
        "kafka.retry.backoff.max.ms": "5",
        "kafka.max.partition.fetch.bytes": "1",
    }
    return parsing.parse(chosen | {name.replace("__", "."): text for name, text in given.items()})


class Agent:
    """A server on a socket, in threads of this process."""

    def __init__(self, path: Path, memory: int) -> None:
        self._path = path
        self.queries = Queries(Budget(memory))
        self.server = Server(self.queries)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen(16)

    def close(self) -> None:
        """End the sessions."""
        self._listener.close()
        self.queries.close()

    def connect(self) -> Channel:
        """A worker's channel."""
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        stream.connect(str(self._path))
        self.server.accept(self._listener)
        channel = Channel(stream, 20)
        channel.send(Hello(version=__version__, pid=1))

        assert isinstance(channel.receive()[0], Hello)
        return channel

    def batches(
        self, given: SourceOptions, *ranges: OffsetRange, query: str = "q"
    ) -> Iterator[pa.RecordBatch]:
        """What one worker reads."""
        with closing(self.connect()) as channel:
            channel.send(Read(query=query, options=given, ranges=ranges))
            yield from client._batches(channel, list(ranges))

    def rows(self, given: SourceOptions, *ranges: OffsetRange, query: str = "q") -> Rows:
        """The rows that one worker reads."""
        return rows(self.batches(given, *ranges, query=query))


def rows(batches: Any) -> Rows:
    """Partition, offset and value of every record."""
    return [
        (row["partition"], row["offset"], row["value"])
        for batch in batches
        for row in batch.to_pylist()
    ]


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Agent]:
    """An agent whose budget is one byte, whatever the options say."""
    monkeypatch.setattr(Budget, "raise_limit", lambda self, limit: None)
    with closing(Agent(tmp_path / "s", 1)) as running:
        yield running
        assert wait_until(lambda: running.server._workers == 0)


def test_one_byte_reads_everything(kafka: LittleKafka, agent: Agent) -> None:
    """Segments far larger than the budget don't keep four readers of two queries from reading."""
    items = [part(kafka, T0), part(kafka, T1)] * 2
    with ThreadPoolExecutor(4) as pool:
        found = list(
            pool.map(
                lambda item, query: agent.rows(options(kafka), item, query=query),
                items,
                ["one", "one", "two", "two"],
            )
        )

    assert [expected(kafka, item) for item in items] == found
    assert wait_until(lambda: agent.queries.budget.used == 0)


def test_two_workers_share_one_session(kafka: LittleKafka, agent: Agent) -> None:
    """Workers of one query read through one session, and its totals are those of both."""
    for tp in (T0, T1):
        assert expected(kafka, part(kafka, tp)) == agent.rows(options(kafka), part(kafka, tp))
    (told,) = agent.queries.status()

    assert 1 == told.totals.sessions_opened
    assert 16 == told.totals.records


def test_totals_are_there_when_the_last_word_is(
    kafka: LittleKafka, agent: Agent, tmp_path: Path
) -> None:
    """Whoever has read everything finds the statistics written."""
    given = options(kafka, kfetch__statsDirectory=str(tmp_path / "stats"))
    agent.rows(given, part(kafka, T0))

    assert 8 == stats.read(tmp_path / "stats").records


class Clock:
    """A clock that a test moves."""

    now = 0.0

    def monotonic(self) -> float:
        """As time.monotonic."""
        return self.now


def test_a_lease_closes_sessions(
    kafka: LittleKafka, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query that nobody reads for its lease is closed, not before, and not while one reads."""
    clock = Clock()
    monkeypatch.setattr(shared, "time", clock)
    given = options(kafka, kfetch__agent__lease="60s")
    reading = agent.batches(given, part(kafka, T0))
    next(reading)
    clock.now = 100
    agent.queries.close_idle()

    assert 1 == len(kafka.sessions())
    reading.close()
    assert wait_until(lambda: agent.server._workers == 0)
    clock.now = 159
    agent.queries.close_idle()
    assert 1 == len(kafka.sessions())
    clock.now = 161
    agent.queries.close_idle()
    assert [] == kafka.sessions()
    assert not agent.server.busy


def test_a_worker_that_dies_leaves_the_session(kafka: LittleKafka, agent: Agent) -> None:
    """A socket that closes while its read waits for records ends the read."""
    reading = agent.batches(options(kafka), part(kafka, T0, end=1000))
    next(reading)
    reading.close()

    assert wait_until(lambda: agent.server._workers == 0)
    assert wait_until(lambda: agent.queries.budget.used == 0)
    assert 0 < agent.queries.status()[0].idle_s


def test_a_reading_that_does_not_begin_is_left(
    kafka: LittleKafka, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug before the first batch is told, and the query can become idle all the same."""

    def broken(*_: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(server, "SplitReader", broken)

    with pytest.raises(AgentError, match="a bug"):
        agent.rows(options(kafka), part(kafka, T0))
    assert 0 < agent.queries.status()[0].idle_s


def test_a_closer_that_raises_leaves_the_query(
    kafka: LittleKafka, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The query is left and memory given back, whichever part fails to close."""

    def broken(self: object) -> None:
        raise OSError("can't close")

    monkeypatch.setattr(server.Cluster, "close", broken)

    with pytest.raises(AgentError, match="can't close"):
        agent.rows(options(kafka), part(kafka, T0))
    assert 0 < agent.queries.status()[0].idle_s
    assert wait_until(lambda: agent.queries.budget.used == 0)


def test_a_worker_is_as_patient_as_its_reading(
    kafka: LittleKafka, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read that waits for memory longer than a worker waits for a word fails for its own reason,
    and the worker does not take the agent for a hung one."""
    warm.load()  # importing numba would hold up the signs of life
    monkeypatch.setattr(server, "_SIGN_S", 0.05)
    monkeypatch.setattr(lane_thread, "_LOOK_S", 0.01)
    hog = agent.queries.budget.reserve(1, 0)
    given = options(kafka, kafkaConsumer__pollTimeoutMs="60")
    with closing(agent.connect()) as channel:
        channel.set_timeout(0.4)
        channel.send(Read(query="q", options=given, ranges=(part(kafka, T0),)))

        with pytest.raises(ReadStalled, match=r"memory \(kfetch.agent.memory\)"):
            next(client._batches(channel, [part(kafka, T0)]))
    assert hog is not None


def test_status(kafka: LittleKafka, agent: Agent) -> None:
    """Anyone may ask what the agent holds; the one who asks is not counted."""
    with closing(agent.connect()) as channel:
        channel.send(AskStatus())
        told, _ = channel.receive()

    assert isinstance(told, Status)
    assert (0, 1, ()) == (told.workers, told.memory_limit, told.queries)


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    """A worker's end of a channel and the agent's."""
    left, right = (Channel(end, 5.0) for end in socket.socketpair(socket.AF_UNIX))
    yield left, right
    left.close()
    right.close()


BATCH = pa.record_batch({"n": pa.array(range(1000))})


def test_free_segments_are_closed_when_memory_is_short(ends: tuple[Channel, Channel]) -> None:
    """A release that has come is read while the read waits, and helps whoever waits for memory."""
    worker, ours = ends
    budget = Budget(100)
    with closing(Segments(ours, budget)) as segments:
        segments.send(Delivery(batch=BATCH, positions=()))
        message, descriptors = worker.receive()
        assert isinstance(message, Batch)
        client.mapped(descriptors[0])
        worker.send(Release(segment=message.segment))
        assert not segments.look()
        assert budget.used > 100
        budget.reserve(50, 0)
        assert budget.reserve(60, 0, "somebody") is None
        assert not segments.look()

        assert 50 == budget.used


def test_looking_never_blocks(ends: tuple[Channel, Channel]) -> None:
    """Without a message look() returns at once; the end of the worker is told."""
    worker, ours = ends
    with closing(Segments(ours, Budget(100))) as segments:
        assert not segments.look()
        worker.close()

        assert segments.look()


def test_all_segments_are_given_back(
    ends: tuple[Channel, Channel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One segment that fails to close does not keep the others from it."""
    worker, ours = ends
    budget = Budget(64 << 20)
    segments = Segments(ours, budget)
    for _ in range(2):
        segments.send(Delivery(batch=BATCH, positions=()))
        client.mapped(worker.receive()[1][0])
    closed: list[int] = []

    def broken(segment: Any) -> None:
        closed.append(segment.number)
        segment.memory.close()
        server.os.close(segment.descriptor)
        raise BufferError("still exported")

    monkeypatch.setattr(server.Segment, "close", broken)

    with pytest.raises(BufferError):
        segments.close()
    assert [2, 1] == closed
    assert 0 == budget.used


def test_sessions_close_together(kafka: LittleKafka, agent: Agent) -> None:
    """Closing an agent's queries ends every thread of theirs."""
    agent.rows(options(kafka), part(kafka, T0))
    agent.queries.close()

    assert [] == [t for t in threading.enumerate() if t.name == "q 1"]
