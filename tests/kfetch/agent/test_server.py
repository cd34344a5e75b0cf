"""The agent's server, in threads over a little Kafka, as its workers see it."""

from __future__ import annotations

import resource
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from kafka.protocol.metadata import MetadataRequest

from kfetch import decoding
from kfetch._version import __version__
from kfetch.agent import client, reply_memory, segment_pool, shared_query
from kfetch.agent.budget import Budget
from kfetch.agent.channel import (
    Channel,
    Greeting,
    ReadRequest,
    Status,
    StatusRequest,
)
from kfetch.agent.server import OpenQueries, Server
from kfetch.errors import AgentError, ReadStalled
from kfetch.fetch.totals import read_stats
from kfetch.model import OffsetRange, TopicPartition
from kfetch.options import SourceOptions
from tests.kfetch.agent.helpers import T0, T1, Rows, expected, options, part, wait_until
from tests.kfetch.records.batch_builder import batch, record
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch.wire.log import Log

LARGE = b"x" * 300_000


@pytest.fixture
def kafka() -> Iterator[LittleKafka]:
    """One node; two partitions of eight batches with one large record each."""
    with LittleKafka(1) as running:
        running.create("t", 2)
        for tp in (T0, T1):
            for n in range(8):
                running.log(tp).append(b"%d" % n + LARGE)
        yield running


class Agent:
    """A server on a socket, in threads of this process."""

    def __init__(self, path: Path, memory: int) -> None:
        self._path = path
        self.queries = OpenQueries(Budget(memory))
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
        channel.send(Greeting(version=__version__, pid=1))

        assert isinstance(channel.receive()[0], Greeting)
        return channel

    def workers(self) -> int:
        """The number of workers, as the status has it."""
        with closing(self.connect()) as channel:
            channel.send(StatusRequest())
            return channel.receive()[0].workers

    def batches(
        self, options: SourceOptions, *ranges: OffsetRange, query: str = "q"
    ) -> Iterator[pa.RecordBatch]:
        """The batches that one worker reads."""
        with closing(self.connect()) as channel:
            channel.send(ReadRequest(query=query, options=options, ranges=ranges))
            yield from client.received_batches(channel, list(ranges))

    def rows(self, options: SourceOptions, *ranges: OffsetRange, query: str = "q") -> Rows:
        """The rows that one worker reads."""
        return rows(self.batches(options, *ranges, query=query))


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
        assert wait_until(lambda: not running.workers())


def test_one_byte_reads_everything(kafka: LittleKafka, agent: Agent) -> None:
    """With segments far larger than the budget, four readers of two queries read every record."""
    items = [part(kafka, T0), part(kafka, T1)] * 2
    with ThreadPoolExecutor(4) as pool:
        rows_read = list(
            pool.map(
                lambda item, query: agent.rows(options(kafka), item, query=query),
                items,
                ["one", "one", "two", "two"],
            )
        )

    assert [expected(kafka, item) for item in items] == rows_read
    assert wait_until(lambda: agent.queries.budget.used == 0)


def _append_compressed(log: Log, count: int) -> None:
    """Append ``count`` batches of four records that shrink a hundred times."""
    for _ in range(count):
        values = [b"%d" % n + LARGE[:10_000] for n in range(4)]
        base, records = log.end, [record(n, value) for n, value in enumerate(values)]
        log.values.update(enumerate(values, base))
        packed = batch(*records, base=base, codec="zstd", epoch=log.epoch)
        log.batches.append((base, base + len(values), log.epoch, packed))


def test_a_compressed_reply_comes_in_parts(kafka: LittleKafka, agent: Agent) -> None:
    """A reply of 4 KiB that unpacks to 800 KiB comes as batches of a small part each. After each of
    them the worker knows where another agent would have to go on."""
    log = kafka.log(T0)
    start = log.end
    _append_compressed(log, 20)
    whole_replies = options(kafka, kafka__max__partition__fetch__bytes="1000000")
    item = part(kafka, T0, start)
    sizes, rows_read, remaining = [], [], [item]
    with closing(agent.connect()) as channel:
        channel.send(ReadRequest(query="q", options=whole_replies, ranges=(item,)))
        for arrow_batch in client.received_batches(channel, remaining):
            sizes.append(arrow_batch.nbytes)
            rows_read += rows([arrow_batch])
            assert rows_read[-1][1] + 1 == remaining[0].start

    assert expected(kafka, item) == rows_read
    assert 100_000 > max(sizes)
    assert 5_000 > sum(len(compressed) for *_, compressed in log.batches[-20:])
    assert wait_until(lambda: agent.queries.budget.used == 0)


def test_compressed_readers_share_a_small_budget(kafka: LittleKafka, agent: Agent) -> None:
    """Four readers of compressed records, whose budget is one byte, read every record."""
    for tp in (T0, T1):
        _append_compressed(kafka.log(tp), 10)
    whole_replies = options(kafka, kafka__max__partition__fetch__bytes="1000000")
    items = [part(kafka, T0), part(kafka, T1)] * 2
    with ThreadPoolExecutor(4) as pool:
        rows_read = list(
            pool.map(
                lambda item, query: agent.rows(whole_replies, item, query=query),
                items,
                ["one", "one", "two", "two"],
            )
        )

    assert [expected(kafka, item) for item in items] == rows_read
    assert wait_until(lambda: agent.queries.budget.used == 0)


def test_two_workers_share_one_session(kafka: LittleKafka, agent: Agent) -> None:
    """Workers of one query read through one session. The totals count both workers."""
    for tp in (T0, T1):
        assert expected(kafka, part(kafka, tp)) == agent.rows(options(kafka), part(kafka, tp))
    (status,) = agent.queries.status()

    assert 1 == status.totals.sessions_opened
    assert 16 == status.totals.records


def test_statistics_are_written_before_the_last_message(
    kafka: LittleKafka, agent: Agent, tmp_path: Path
) -> None:
    """A worker that has read everything finds the statistics written."""
    with_statistics = options(kafka, kfetch__statsDirectory=str(tmp_path / "stats"))
    agent.rows(with_statistics, part(kafka, T0))

    assert 8 == read_stats(tmp_path / "stats").records


def test_a_query_of_more_memory_than_the_address_space(
    kafka: LittleKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent refuses a query that wants more than its address space, as it does at its start."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1500 << 20, 1500 << 20))
    with closing(Agent(tmp_path / "s", 256 << 20)) as agent:
        with pytest.raises(AgentError, match=r"limited to 1500 MiB .* needs 5120 MiB: raise spark"):
            agent.rows(options(kafka, kfetch__agent__memory="4g"), part(kafka, T0))
        assert 256 << 20 == agent.queries.budget.limit
        assert 8 == len(agent.rows(options(kafka, kfetch__agent__memory="300m"), part(kafka, T0)))
        assert wait_until(lambda: not agent.workers())


class Clock:
    """A clock that the test moves."""

    now = 0.0

    def monotonic(self) -> float:
        """As time.monotonic."""
        return self.now


def test_a_lease_closes_sessions(
    kafka: LittleKafka, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query without a read closes after its lease, not earlier, and never while a task reads."""
    clock = Clock()
    monkeypatch.setattr(shared_query, "time", clock)
    short_lease = options(kafka, kfetch__agent__lease="60s")
    batches = agent.batches(short_lease, part(kafka, T0))
    next(batches)
    clock.now = 100
    agent.queries.close_idle()

    assert 1 == len(kafka.sessions())
    batches.close()
    assert wait_until(lambda: not agent.workers())
    clock.now = 159
    agent.queries.close_idle()
    assert 1 == len(kafka.sessions())
    clock.now = 161
    agent.queries.close_idle()
    assert [] == kafka.sessions()
    assert wait_until(lambda: not agent.server.busy)


def test_a_worker_that_dies_leaves_the_session(kafka: LittleKafka, agent: Agent) -> None:
    """If a worker closes its socket while its read waits for records, the read ends."""
    batches = agent.batches(options(kafka), part(kafka, T0, end=1000))
    next(batches)
    batches.close()

    assert wait_until(lambda: not agent.workers())
    assert wait_until(lambda: agent.queries.budget.used == 0)
    assert 0 < agent.queries.status()[0].idle_s


def test_a_read_that_does_not_begin_ends(
    kafka: LittleKafka, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a bug before the first batch, the worker gets the error and the query is idle."""

    def broken(*_: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(shared_query, "SplitReader", broken)

    with pytest.raises(AgentError, match="a bug"):
        agent.rows(options(kafka), part(kafka, T0))
    assert 0 < agent.queries.status()[0].idle_s


def test_a_read_ends_although_its_cluster_fails_to_close(
    kafka: LittleKafka, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a part of a read fails to close, the query becomes idle and the memory is returned."""

    def broken(self: object) -> None:
        raise OSError("can't close")

    monkeypatch.setattr(shared_query.Cluster, "close", broken)

    with pytest.raises(AgentError, match="can't close"):
        agent.rows(options(kafka), part(kafka, T0))
    assert 0 < agent.queries.status()[0].idle_s
    assert wait_until(lambda: agent.queries.budget.used == 0)


def test_keep_alive_messages_let_a_worker_wait(
    kafka: LittleKafka, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read may wait for memory longer than its worker waits for a message. It fails for want of
    memory, and the worker does not treat the agent as hung."""
    decoding.load_decoder()  # importing numba would delay the keep-alive messages
    monkeypatch.setattr(segment_pool, "_KEEP_ALIVE_S", 0.05)
    monkeypatch.setattr(reply_memory, "_WAIT_S", 0.01)
    hog = agent.queries.budget.reserve(1, 0)
    short_timeout = options(kafka, kafkaConsumer__pollTimeoutMs="200")
    with closing(agent.connect()) as channel:
        channel.set_timeout(1.5)
        channel.send(ReadRequest(query="q", options=short_timeout, ranges=(part(kafka, T0),)))

        with pytest.raises(ReadStalled, match=r"memory \(kfetch.agent.memory\)"):
            next(client.received_batches(channel, [part(kafka, T0)]))
    assert hog is not None


def test_status(kafka: LittleKafka, agent: Agent) -> None:
    """Any process of the user may request the status. It does not count itself as a worker."""
    with closing(agent.connect()) as channel:
        channel.send(StatusRequest())
        status, _ = channel.receive()

    assert isinstance(status, Status)
    assert (0, 1, ()) == (status.workers, status.memory_limit, status.queries)


def test_what_workers_keep_counts(kafka: LittleKafka, agent: Agent) -> None:
    """While a worker reads that writes files, its rows are part of the agent's memory."""
    asked = options(kafka)
    asked = replace(asked, agent=replace(asked.agent, worker_bytes=1000))
    batches = agent.batches(asked, part(kafka, T0))
    next(batches)
    assert 1000 < agent.queries.budget.used
    list(batches)

    assert wait_until(lambda: agent.queries.budget.used == 0)


def test_sessions_close_together(kafka: LittleKafka, agent: Agent) -> None:
    """Closing an agent's queries ends all of their threads."""
    agent.rows(options(kafka), part(kafka, T0))
    agent.queries.close()

    assert [] == [t for t in threading.enumerate() if t.name == "q 1"]


@pytest.mark.parametrize("dies", [False, True], ids=["leaders move", "a broker dies"])
def test_a_failover_costs_one_metadata_request(tmp_path: Path, dies: bool) -> None:
    """If 16 tasks lose their leader at once, one task asks for metadata, and all read on."""
    partitions = [TopicPartition("t", number) for number in range(16)]
    with LittleKafka(2) as kafka, closing(Agent(tmp_path / "s", 64 << 20)) as agent:
        kafka.hints = False
        for log in kafka.create("t", 16):
            log.leader = 1
            log.append(b"first")
        slow_retry = options(kafka, kafka__retry__backoff__ms="100")
        items = [part(kafka, tp, 0, 2) for tp in partitions]
        with ThreadPoolExecutor(16) as pool:
            reads = [pool.submit(agent.rows, slow_retry, item) for item in items]
            assert wait_until(lambda: _records(agent) == 16)
            assert not kafka.asked(MetadataRequest)
            with kafka.lock:
                for tp in partitions:
                    kafka.elect(tp, 2)
                    kafka.log(tp).append(b"second")
            if dies:
                kafka.nodes[1].stop()

            for read, tp in zip(reads, partitions, strict=True):
                assert [(tp.partition, 0, b"first"), (tp.partition, 1, b"second")] == read.result()
        assert 1 == len(kafka.asked(MetadataRequest))


def _records(agent: Agent) -> int:
    return sum(status.totals.records for status in agent.queries.status())
