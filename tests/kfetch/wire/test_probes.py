"""Probes find out what listens at an address: what they find, and how often they connect."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterator

import pytest

from kfetch.errors import ConnectionLost, WrongListener
from kfetch.options import NetworkOptions
from kfetch.wire import connection, diagnosis, probes
from kfetch.wire.connection import Connection
from kfetch.wire.diagnosis import Listener, Verdict
from kfetch.wire.probes import CachedProbe
from kfetch.wire.transport import open_stream
from tests.kfetch.wire.other_server import Answer, Peer

OPTIONS = NetworkOptions(request_timeout_s=60.0, connect_timeout_s=60.0)
ALERT = b"\x15\x03\x03\x00\x02\x02P"
SERVER_HELLO = b"\x16\x03\x03\x04\x98\x02\x00\x00M\x03\x03"
TLS = Verdict(listener=Listener.TLS)


@pytest.fixture
def peer() -> Iterator[Callable[[Answer], Peer]]:
    """Starts peers, and closes them."""
    peers: list[Peer] = []

    def start(answer: Answer) -> Peer:
        peers.append(Peer(answer))
        return peers[-1]

    yield start
    for one in peers:
        one.close()


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shortens the times: a probe starts after 0.05 s of silence, and lasts 0.1 s at most."""
    monkeypatch.setattr(connection, "_PROBE_AFTER_S", 0.05)
    monkeypatch.setattr(connection, "_SILENT_S", 0.2)
    monkeypatch.setattr(connection, "_SILENT_MIN_S", 0.2)
    monkeypatch.setattr(probes, "_PROBE_S", 0.1)


def tls_server(data: bytes) -> bytes:
    return SERVER_HELLO if data.startswith(b"\x16") else ALERT


def http_server(data: bytes) -> bytes | None:
    """It waits for the end of a line, as Python's server does."""
    return b"HTTP/1.0 404 Not Found\r\n\r\n" if data.startswith(b"GET") else None


def proxy(data: bytes) -> bytes:
    """An HTTP server that answers everything."""
    return b"HTTP/1.1 400 Bad Request\r\n\r\n"


def hang_up(data: bytes) -> bytes:
    return b""


def say_nothing(data: bytes) -> None:
    return None


@pytest.mark.usefixtures("short_waits")
@pytest.mark.parametrize(
    ("answer", "listener"),
    [
        (tls_server, Listener.TLS),
        (lambda data: b"" if data.startswith(b"\0") else tls_server(data), Listener.TLS),
        (http_server, Listener.HTTP),
        (proxy, Listener.HTTP),
    ],
    ids=["TLS", "TLS that hangs up on plain text", "HTTP", "HTTP proxy"],
)
def test_a_wrong_listener_is_named(
    peer: Callable[[Answer], Peer], answer: Answer, listener: Listener
) -> None:
    """Opening a connection to TLS or HTTP raises WrongListener with the verdict of a probe."""
    host, port = peer(answer).address
    with pytest.raises(WrongListener) as caught:
        Connection.open(host, port, OPTIONS, time.monotonic() + 5)

    assert listener == caught.value.listener


@pytest.mark.usefixtures("short_waits")
def test_a_closed_connection_is_no_wrong_listener(peer: Callable[[Answer], Peer]) -> None:
    """If the peer closes the connection, that is ConnectionLost: a starting broker may do so."""
    host, port = peer(hang_up).address
    with pytest.raises(ConnectionLost, match="the broker closed it") as caught:
        Connection.open(host, port, OPTIONS, time.monotonic() + 5)

    assert type(caught.value) is ConnectionLost


@pytest.mark.usefixtures("short_waits")
def test_a_silent_port_is_named(
    peer: Callable[[Answer], Peer], caplog: pytest.LogCaptureFixture
) -> None:
    """After a while a warning names the silent port. At the deadline the error does too."""
    host, port = peer(say_nothing).address
    with pytest.raises(ConnectionLost) as caught:
        Connection.open(host, port, OPTIONS, time.monotonic() + 1.5)

    sentence = f"{host}:{port} accepts connections, but has said nothing for"
    assert [f"kfetch: {sentence}"] == [text[: len(sentence) + 8] for text in caplog.messages]
    assert re.match(rf"{sentence} \d+ s\. A broker that is starting", caught.value.message)
    assert type(caught.value) is ConnectionLost


def test_an_answer_is_cut(peer: Callable[[Answer], Peer]) -> None:
    """A probe reads the first bytes of an endless answer, and no more."""
    asked = peer(lambda data: b"x" * 100_000)
    stream = open_stream(*asked.address, OPTIONS, time.monotonic() + 5)
    stream.sendall(b"hello")

    assert 256 == len(probes._first_bytes(stream, time.monotonic() + 5))
    stream.close()


def test_an_address_without_a_listener() -> None:
    """A probe of a closed port has no verdict."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
    deadline = time.monotonic() + 1

    assert probes.greeting(address, OPTIONS, deadline) is None
    assert probes.login(address, OPTIONS, deadline) is None


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.mark.parametrize(("verdict", "valid_s"), [(TLS, 30), (None, 10)])
def test_verdicts_are_remembered(
    monkeypatch: pytest.MonkeyPatch, verdict: Verdict | None, valid_s: float
) -> None:
    """A verdict counts for 30 s, and no verdict for 10 s. Then a retry probes the address again."""
    clock, asked = Clock(), []
    monkeypatch.setattr(probes, "time", clock)
    probe = CachedProbe(lambda address, *_: asked.append(address) or verdict)
    for later_s in (0, 1, valid_s - 1, valid_s, valid_s + 1):
        clock.now = 100.0 + later_s
        assert verdict == probe(("h", 1), OPTIONS, 1000.0)

    assert 2 == len(asked)


def test_without_time_there_is_no_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """With too little time left, no probe starts. Then only an earlier verdict is returned."""
    clock, asked = Clock(), []
    monkeypatch.setattr(probes, "time", clock)
    probe = CachedProbe(lambda address, *_: asked.append(address) or TLS)

    assert probe(("h", 1), OPTIONS, clock.now + 0.2) is None
    assert [] == asked
    assert TLS == probe(("h", 1), OPTIONS, clock.now + 5)
    assert TLS == probe(("h", 1), OPTIONS, clock.now + 0.2)
    assert [("h", 1)] == asked


def test_remembered_verdicts_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """CachedProbe forgets all verdicts when it would have too many."""
    monkeypatch.setattr(probes, "_ADDRESSES_MAX", 3)
    probe = CachedProbe(lambda *_: None)
    for port in range(10):
        probe(("h", port), OPTIONS, 1000.0)

    assert len(probe._verdicts) <= 3


def test_a_probe_keeps_to_the_deadline(
    peer: Callable[[Answer], Peer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A silent peer takes no more of a probe's time than the caller's deadline."""
    monkeypatch.setattr(probes, "_PROBE_S", 60.0)
    asked, began = peer(say_nothing), time.monotonic()

    assert probes.greeting(asked.address, OPTIONS, began + 0.4) is None
    assert asked.connections
    assert time.monotonic() - began < 30
    assert diagnosis.of_greeting(b"") is None
