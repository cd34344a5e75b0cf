"""Log-ins of a fetcher: its session outlasts them, and a refused log-in ends a task at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from itertools import chain, repeat
from uuid import UUID

import pytest
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from kfetch.agent.inline import InlineQuery
from kfetch.errors import AuthenticationFailed
from kfetch.fetch import fetcher as fetcher_module
from kfetch.fetch.fetcher import Fetcher
from kfetch.model import FetchPosition, OffsetRange, TopicPartition
from kfetch.options import FetchOptions
from kfetch.spark import options as parsing
from kfetch.wire.cluster import Cluster
from kfetch.wire.sasl.login import Login
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch.wire.sasl.broker_side import LoginServer, alice, network, plain_server
from tests.kfetch.wire.scripted import Silence

T0 = TopicPartition("t", 0)


def soon() -> float:
    """Returns a deadline."""
    return time.monotonic() + 60


@pytest.fixture
def kafka() -> Iterator[LittleKafka]:
    """One node with two records in t-0."""
    with LittleKafka(1) as running:
        running.create("t")
        running.log(T0).append(b"a", b"b")
        yield running


def login_server(kafka: LittleKafka, lifetime_ms: int = 0) -> LoginServer:
    """Let the node ask for log-ins by PLAIN."""
    return LoginServer(kafka.nodes[1], {"PLAIN": plain_server}, lifetime_ms)


def test_a_fetch_session_outlasts_a_second_log_in(
    kafka: LittleKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session's next request follows the log-in, on the same connection."""
    served = login_server(kafka, lifetime_ms=100_000)
    fetcher = Fetcher(kafka.nodes[1].broker, FetchOptions(max_wait_ms=1), network(alice()))
    position = FetchPosition(topic_id=kafka.topics["t"].topic_id, offset=0, max_bytes=100)
    fetcher.set_position(T0, position)
    for _ in range(3):
        fetcher.send(soon())
        assert fetcher.receive(soon()) is not None
        login_gets_due(monkeypatch)
    session = kafka.asked(FetchRequest)
    fetcher.close()

    assert ([0, 1, 2], 3) == ([request.session_epoch for request in session], served.logins)
    assert 1 == kafka.nodes[1].connections
    order = [type(request) for request in kafka.nodes[1].requests]
    assert [SaslHandshakeRequest, SaslAuthenticateRequest, FetchRequest] == order[-3:]


def test_a_password_that_was_changed_ends_the_fetch(
    kafka: LittleKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second log-in that is refused abandons the request, and the error is the broker's."""
    login_server(kafka, lifetime_ms=100_000)
    fetcher = Fetcher(kafka.nodes[1].broker, FetchOptions(max_wait_ms=1), network(alice()))
    fetcher.send(soon())
    fetcher.receive(soon())
    LoginServer(kafka.nodes[1], {"PLAIN": lambda: plain_server(password="new")})
    login_gets_due(monkeypatch)
    with pytest.raises(AuthenticationFailed, match="Invalid username or password"):
        fetcher.send(soon())

    assert not fetcher.in_flight
    fetcher.close()


def fetcher_in_flight(kafka: LittleKafka) -> Fetcher:
    """Returns a fetcher with a session, and with a request that waits for its reply."""
    login_server(kafka, lifetime_ms=100_000)
    fetcher = Fetcher(kafka.nodes[1].broker, FetchOptions(max_wait_ms=1), network(alice()))
    position = FetchPosition(topic_id=kafka.topics["t"].topic_id, offset=0, max_bytes=100)
    fetcher.set_position(T0, position)
    fetcher.send(soon())
    fetcher.receive(soon())
    fetcher.send(soon())
    return fetcher


def login_gets_due(monkeypatch: pytest.MonkeyPatch, after: int = 0) -> None:
    """Let another log-in be due once, after ``after`` calls of ``is_due``."""
    answers = chain(repeat(False, after), [True], repeat(False))
    monkeypatch.setattr(Login, "is_due", lambda _: next(answers))


def test_a_log_in_that_gets_due_while_closing(
    kafka: LittleKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log-in gets due while the fetcher waits for its last reply. The session expires later."""
    fetcher = fetcher_in_flight(kafka)
    login_gets_due(monkeypatch, after=1)
    fetcher.close()

    assert [0, 1] == [request.session_epoch for request in kafka.asked(FetchRequest)]
    assert 1 == len(kafka.asked(SaslAuthenticateRequest))


def test_a_log_in_does_not_delay_closing(
    kafka: LittleKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log-in before the closing request gets no more time than closing itself."""
    monkeypatch.setattr(fetcher_module, "_CLOSE_TIMEOUT_S", 0.1)
    fetcher = fetcher_in_flight(kafka)
    kafka.nodes[1].always(SaslHandshakeRequest, Silence())
    login_gets_due(monkeypatch, after=2)
    began = time.monotonic()
    fetcher.close()

    assert time.monotonic() - began < 30


def test_a_refused_log_in_ends_a_task_at_once(kafka: LittleKafka) -> None:
    """A task does not try a wrong password for two minutes: one connection, and the error."""
    login_server(kafka)
    settings = {
        "kafka.bootstrap.servers": kafka.bootstrap,
        "subscribe": "t",
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.username": "alice",
        "kafka.sasl.password": "hush",
    }
    node = kafka.nodes[1].broker
    item = OffsetRange(tp=T0, topic_id=UUID(int=1), start=0, end=2, leader_epoch=0, leader=node)
    with (
        closing(InlineQuery("q", parsing.parse(settings))) as query,
        pytest.raises(AuthenticationFailed, match="refuses the log-in of user alice") as caught,
    ):
        list(query.read([item]))

    assert 1 == kafka.nodes[1].connections
    assert "hush" not in f"{caught.value} {caught.value!r}"


def test_a_refused_log_in_ends_a_question_at_once(kafka: LittleKafka) -> None:
    """The client asks neither again nor another server: no server accepts a wrong password."""
    login_server(kafka)
    server = ("127.0.0.1", kafka.nodes[1].port)
    with (
        closing(Cluster((server, server), network(alice(password="hush")))) as cluster,
        pytest.raises(AuthenticationFailed),
    ):
        cluster.view(["t"], soon())

    assert 1 == kafka.nodes[1].connections
    assert [] == kafka.asked(MetadataRequest)
