"""Tasks that share a query's followers (KIP-392): one session per follower, each record once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import MetadataRequest

from kfetch.agent.budget import Budget
from kfetch.agent.shared_query import SharedQuery
from kfetch.errors import ReadStalled
from kfetch.fetch import broker_reader
from kfetch.fetch.broker_reader import BrokerReader
from kfetch.fetch.progress import RangeProgress
from kfetch.fetch.stats import SessionStatus
from kfetch.model import OffsetRange
from tests.kfetch.agent.helpers import T0, T1, Rows, expected, options, part, read
from tests.kfetch.wire.racks import RackKafka
from tests.kfetch.wire.scripted import Close

BATCHES = 20
END = 2 * BATCHES


@pytest.fixture
def kafka() -> Iterator[RackKafka]:
    """Three nodes in three racks; two partitions of twenty batches with two records each."""
    with RackKafka() as running:
        running.create("t", 2)
        for tp in (T0, T1):
            for n in range(BATCHES):
                running.log(tp).append(b"%d %da" % (tp.partition, n), b"b")
        yield running


@pytest.fixture
def query(kafka: RackKafka) -> Iterator[SharedQuery]:
    """A query of an executor in rack r3."""
    rack = options(kafka, kafka__client__rack="r3", kafka__fetch__max__wait__ms="20")
    with closing(SharedQuery("q", rack, Budget(64 << 20))) as shared:
        yield shared


def cut(kafka: RackKafka, size: int) -> list[OffsetRange]:
    """Both partitions in ranges of ``size`` offsets."""
    return [
        part(kafka, tp, start, start + size) for start in range(0, END, size) for tp in (T0, T1)
    ]


def read_all(query: SharedQuery, items: list[OffsetRange]) -> list[Rows]:
    """Each range's rows, read by a task of its own, four at a time."""
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda item: read(query, item), items))


def test_tasks_share_the_followers(kafka: RackKafka, query: SharedQuery) -> None:
    """Many tasks read through one session at the follower, and each record comes once."""
    items = cut(kafka, 8)

    assert [expected(kafka, item) for item in items] == read_all(query, items)
    assert {3} == {node for node, *_ in kafka.served}
    assert 0 == query.stats().other_rack_bytes
    assert 1 == len(kafka.sessions(3))
    assert len(kafka.asked(MetadataRequest)) <= 4


def test_the_next_micro_batch_asks_nobody(kafka: RackKafka, query: SharedQuery) -> None:
    """What one task has learned, the tasks of the next micro-batch use."""
    read_all(query, [part(kafka, T0, 0, 4), part(kafka, T1, 0, 4)])
    before = [len(kafka.nodes[node].asked(FetchRequest)) for node in (1, 2)]
    items = [part(kafka, T0, 4, END), part(kafka, T1, 4, END)]

    assert [expected(kafka, item) for item in items] == read_all(query, items)
    assert before == [len(kafka.nodes[node].asked(FetchRequest)) for node in (1, 2)]


def test_status(kafka: RackKafka, query: SharedQuery) -> None:
    """The status of a session has the broker's rack, and the partitions that it does not lead."""
    seen: list[SessionStatus] = []
    item = part(kafka, T0, 0, END)

    assert expected(kafka, item) == read(query, item, pause=lambda: seen.extend(_sessions(query)))
    assert {("r1", 0), ("r3", 1)} <= {(one.rack, one.as_follower) for one in seen}


def _sessions(query: SharedQuery) -> tuple[SessionStatus, ...]:
    return query.status().sessions


@pytest.fixture
def twice(monkeypatch: pytest.MonkeyPatch) -> list[RangeProgress]:
    """The ranges that came to one BrokerReader while another one had them."""
    owners: dict[RangeProgress, BrokerReader] = {}
    found: list[RangeProgress] = []
    add, drop = BrokerReader.add, BrokerReader.drop

    def checked_add(self: BrokerReader, progress: RangeProgress) -> None:
        if owners.setdefault(progress, self) is not self:
            found.append(progress)
        add(self, progress)

    def checked_drop(self: BrokerReader, progress: RangeProgress) -> None:
        if owners.get(progress) is self:
            del owners[progress]
        drop(self, progress)

    monkeypatch.setattr(BrokerReader, "add", checked_add)
    monkeypatch.setattr(BrokerReader, "drop", checked_drop)
    return found


FAULTS = ["none", "dies", "errors", "lags", "elected", "asked again"]


@pytest.mark.parametrize("fault", FAULTS)
def test_each_record_once(
    kafka: RackKafka,
    query: SharedQuery,
    fault: str,
    monkeypatch: pytest.MonkeyPatch,
    twice: list[RangeProgress],
) -> None:
    """Whatever happens to a follower while four tasks read from it, each record comes once, and no
    two brokers are asked for the same range at once."""
    monkeypatch.setattr(broker_reader, "_CHECK_S", 0.0)
    query.replicas.lag_s = 0.0
    items = cut(kafka, 10)
    serve, count = kafka.nodes[3].handlers[FetchRequest], iter(range(10_000))

    def answer(request: object) -> object:
        if next(count) == 4:
            inject(kafka, query, fault)
        return serve(request)

    kafka.nodes[3].always(FetchRequest, answer)

    assert [expected(kafka, item) for item in items] == read_all(query, items)
    assert not twice
    if fault == "dies":
        assert {1, 2, 3} == {node for node, *_ in kafka.served}


def test_moves_between_replicas_do_not_extend_the_deadline(
    kafka: RackKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A range without records fails at its deadline, though it moves between leader and follower.

    A move is no wait for memory or for another task. Each broker was asked all the time.
    """
    monkeypatch.setattr(broker_reader, "_CHECK_S", 0.0)
    impatient = options(
        kafka,
        kafka__client__rack="r3",
        kafka__fetch__max__wait__ms="20",
        kafkaConsumer__pollTimeoutMs="500",
    )
    began = time.monotonic()
    with closing(SharedQuery("q", impatient, Budget(64 << 20))) as query:
        query.replicas._period_s = query.replicas.lag_s = 0.05
        with pytest.raises(ReadStalled, match="no record from offset"):
            read(query, part(kafka, T0, END, END + 2))
    assert {1, 3} <= {node for node in kafka.nodes if kafka.nodes[node].asked(FetchRequest)}
    assert time.monotonic() - began < 4  # ten extensions take more than five seconds


def inject(kafka: RackKafka, query: SharedQuery, fault: str) -> None:
    """Do one thing to the follower."""
    match fault:
        case "dies":
            kafka.nodes[3].always(FetchRequest, Close())
            kafka.nodes[3].drop()
        case "errors":
            kafka.follower_errors[T0] += [1, 6, 78]
        case "lags":
            kafka.offers_anything = True
            kafka.follower_ends[3, T0] = kafka.follower_ends[3, T1] = 12
        case "elected":
            kafka.elect(T0, 3)
        case "asked again":
            query.replicas._period_s = 0.001
