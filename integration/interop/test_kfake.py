"""kfetch reads franz-go's kfake, which has its own fetch sessions. Go builds it for the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from integration.agent.reader import Reader
from integration.interop.servers import Kfake, Place, built_kfake, produce, running_kfake
from integration.interop.test_mock_cluster import read, sizes
from integration.secured.certificates import Authority
from integration.streams import drain, kfetch, running, wait_until
from kfetch.errors import RecordsExpired, TopicRecreated
from kfetch.fetch.totals import read_stats

pytestmark = [pytest.mark.integration, pytest.mark.long]

FETCH, NOT_LEADER, UNKNOWN_SERVER_ERROR = 1, 6, -1
SESSION_NOT_FOUND, WRONG_EPOCH = 70, 71


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program. Its build takes half a minute if Go has compiled nothing yet."""
    return built_kfake(tmp_path_factory.mktemp("kfake"))


@pytest.fixture
def kfake(program: Path) -> Iterator[Callable[..., Kfake]]:
    """``kfake("-brokers", "3")``: a running kfake with the topic clicks of four partitions."""
    with ExitStack() as stack:

        def start(*arguments: str) -> Kfake:
            server = stack.enter_context(running_kfake(program, *arguments))
            server.ask("create", "clicks", 4)
            return server

        yield start


@pytest.mark.parametrize("version", ["", "3.9", "2.8", "2.4", "2.1", "1.1"])
@pytest.mark.parametrize("agent", ["process", "inline"])
def test_every_record_comes_once(
    kfake: Callable[..., Kfake], tmp_path: Path, agent: str, version: str
) -> None:
    """Two micro-batches have every record once, as any version of Kafka since fetch sessions.

    With an agent, the second one goes on in the sessions of the first, and names few partitions.
    """
    server = kfake("-brokers", "2", "-as-version", version)
    first = produce(server, "clicks", sizes(4000))
    with closing(Reader(server, "clicks", agent, tmp_path)) as reader:
        assert sorted(first.items()) == read(reader)
        second = produce(server, "clicks", sizes(400))

        assert sorted(second.items()) == read(reader)

    statistics = read_stats(tmp_path)
    assert statistics.incremental_requests > 0
    assert 0 == statistics.sessions_lost + statistics.sessions_refused
    assert len([one for one in server.fetches() if one.epoch > 0]) > 0


def test_a_reply_that_is_full(kfake: Callable[..., Kfake], tmp_path: Path) -> None:
    """kfake leaves partitions out of a full reply when it has reached ``fetch.max.bytes``.

    Kafka names them without records. kfetch fetches them with the next requests.
    """
    server = kfake()
    written = produce(server, "clicks", sizes(400, size=10_000), **{"batch.size": 20_000})
    small = {"kafka.fetch.max.bytes": "50000"}
    with closing(Reader(server, "clicks", "inline", tmp_path, **small)) as reader:
        assert sorted(written.items()) == read(reader)

    assert 1 == read_stats(tmp_path).sessions_opened


def test_moves_of_leaders(kfake: Callable[..., Kfake], tmp_path: Path) -> None:
    """Every partition changes its leader before each of five micro-batches. No record is missing
    or comes twice."""
    server = kfake("-brokers", "3")
    with closing(Reader(server, "clicks", "process", tmp_path)) as reader:
        for turn in range(5):
            written = produce(server, "clicks", sizes(1000))
            for partition in range(4):
                server.ask("move", "clicks", partition, (turn + partition) % 3)

            assert sorted(written.items()) == read(reader)


@pytest.mark.parametrize("code", [NOT_LEADER, UNKNOWN_SERVER_ERROR])
def test_errors_of_partitions(kfake: Callable[..., Kfake], tmp_path: Path, code: int) -> None:
    """After errors that pass, a micro-batch has every record once."""
    server = kfake("-brokers", "2")
    written = produce(server, "clicks", sizes(1000))
    with closing(Reader(server, "clicks", "inline", tmp_path)) as reader:
        server.ask("fail", FETCH, code, 5)

        assert sorted(written.items()) == read(reader)


def test_one_session_slot(kfake: Callable[..., Kfake], tmp_path: Path) -> None:
    """kfake evicts the oldest session for a new one. Two queries that share one slot read whole."""
    server = kfake("-slots", "1")
    with (
        closing(Reader(server, "clicks", "inline", tmp_path / "a")) as one,
        closing(Reader(server, "clicks", "inline", tmp_path / "b")) as other,
    ):
        for _ in range(5):
            written = sorted(produce(server, "clicks", sizes(200)).items())

            assert written == read(one)
            assert written == read(other)

    assert read_stats(tmp_path / "a").sessions_lost > 0


def test_records_that_are_gone(kfake: Callable[..., Kfake], tmp_path: Path) -> None:
    """Deleted records are RecordsExpired, and a topic that was created again is TopicRecreated."""
    server = kfake()
    produce(server, "clicks", sizes(400))
    with closing(Reader(server, "clicks", "inline", tmp_path)) as reader:
        server.ask("trim", "clicks", 1, 50)
        with pytest.raises(RecordsExpired, match="clicks-1"):
            read(reader)
    with closing(Reader(server, "clicks", "inline", tmp_path)) as reader:
        read(reader)
        server.ask("delete", "clicks")
        server.ask("create", "clicks", 4)
        produce(server, "clicks", sizes(4000))
        with pytest.raises(TopicRecreated, match="clicks"):
            read(reader)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_tls_and_a_log_in(kfake: Callable[..., Kfake], tmp_path: Path, mechanism: str) -> None:
    """kfetch reads over TLS, with each log-in that kfake knows."""
    certificate = Authority.open(tmp_path).provide("broker", hosts=("127.0.0.1",))
    (tmp_path / "login").write_text(f"{mechanism} reader secret-of-reader")
    server = kfake("-certificate", str(certificate), "-login", str(tmp_path / "login"))
    shared = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.username": "reader",
        "sasl.password": "secret-of-reader",
    }
    ca = str(tmp_path / "ca.pem")
    written = produce(server, "clicks", sizes(400), **shared, **{"ssl.ca.location": ca})
    options = {f"kafka.{name}": text for name, text in shared.items()}
    trust = {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": ca}
    statistics = tmp_path / "statistics"
    with closing(Reader(server, "clicks", "inline", statistics, **options, **trust)) as reader:
        assert sorted(written.items()) == read(reader)


def test_spark(spark: SparkSession, kfake: Callable[..., Kfake], tmp_path: Path) -> None:
    """A drain, and a running query whose partitions change their leaders, deliver each record once.

    The watch's idle sessions are incremental: a request names no partition.
    """
    server = kfake("-brokers", "3")
    drained_records = produce(server, "clicks", sizes(4000))
    source = kfetch(spark, server, subscribe="clicks", startingOffsets="earliest")
    drained = drain(source, tmp_path)
    assert sorted(drained_records) == drained.places

    later: dict[Place, bytes] = {}
    with running(source, tmp_path) as (query, delivered):
        for _ in range(4):
            later.update(produce(server, "clicks", sizes(400)))
            server.ask("shuffle")
            wait_until(lambda: delivered.count >= len(later), query)

    assert sorted(later) == delivered.places
    assert any(one.epoch > 0 and one.partitions == 0 for one in server.fetches())
