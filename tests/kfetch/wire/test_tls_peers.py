"""TLS connections to a server that is slow or silent, that disconnects, or that has no TLS."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from contextlib import suppress
from dataclasses import replace

import pytest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.sasl import SaslHandshakeRequest, SaslHandshakeResponse

from kfetch.errors import ConnectionLost, WrongListener
from kfetch.wire import connection as connection_module
from kfetch.wire import probes, tls
from kfetch.wire.connection import Connection
from tests.kfetch.wire.other_server import Peer
from tests.kfetch.wire.scripted import Close, ScriptedBroker, Silence
from tests.kfetch.wire.tls_helpers import (
    HOST,
    TLS,
    V13,
    Start,
    ask,
    connect,
    network,
    soon,
)


def test_the_error_says_that_a_listener_has_no_tls() -> None:
    """A plaintext broker closes the connection at TLS's first message. kfetch then connects without
    TLS, and finds out that the listener is plaintext."""
    with ScriptedBroker() as broker, pytest.raises(WrongListener) as caught:
        connect(broker.port)

    assert "plaintext" == caught.value.listener
    assert "is a Kafka listener without TLS" in caught.value.message


def test_the_error_says_that_a_listener_is_an_http_server() -> None:
    """An HTTP server answers TLS's first message with text. kfetch finds out that it speaks
    HTTP."""
    reply = b"HTTP/1.1 400 Bad Request\r\n\r\n"
    with Peer(lambda _: reply) as peer, pytest.raises(WrongListener) as caught:
        connect(peer.address[1])

    assert "HTTP" == caught.value.listener


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-x\r\n"])
def test_an_unknown_server_is_a_lost_connection(answer: bytes) -> None:
    """A server that kfetch does not recognise may be a broker that is starting. The error is
    ConnectionLost, which kfetch retries."""
    with Peer(lambda _: answer) as peer, pytest.raises(ConnectionLost) as caught:
        connect(peer.address[1])

    assert type(caught.value) is ConnectionLost
    assert (
        f"no connection to {HOST}:{peer.address[1]}: the TLS handshake failed"
        in caught.value.message
    )


@pytest.mark.parametrize("cause", [ConnectionResetError(104, "reset"), ssl.SSLError("early data")])
def test_a_failure_before_the_handshake_closes_the_socket(
    monkeypatch: pytest.MonkeyPatch, cause: OSError
) -> None:
    """The server resets the connection, or sends data, before TLS begins. The error is
    ConnectionLost with the cause, and kfetch closes its socket."""

    class FailingContext:
        def wrap_socket(self, *_: object, **__: object) -> None:
            raise cause

    monkeypatch.setattr(tls, "context_of", lambda _options: FailingContext())
    ours, theirs = socket.socketpair()
    with theirs, pytest.raises(ConnectionLost) as caught:
        tls.secure(ours, HOST, 9093, network(TLS), soon(), None)

    reason = cause.strerror or str(cause)
    assert (
        f"no connection to {HOST}:9093: the TLS handshake failed: {reason}" in caught.value.message
    )
    assert (f"{HOST}:9093", reason) == (caught.value.peer, caught.value.cause)
    assert -1 == ours.fileno()


def test_a_silent_server_fails_after_the_connect_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handshake without an answer fails after the timeout of connecting, not after that of a
    probe."""
    monkeypatch.setattr(tls, "_IDENTIFY_AFTER_S", 0.02)
    monkeypatch.setattr(probes, "_PROBE_S", 0.02)
    options, started_at = replace(network(TLS), connect_timeout_s=0.1), time.monotonic()
    with (
        Peer(lambda _: None) as peer,
        pytest.raises(ConnectionLost, match=r"no answer within 0\.1"),
    ):
        Connection.open(HOST, peer.address[1], options, soon())

    assert 0.1 <= time.monotonic() - started_at < 30


def test_a_silent_server_fails_at_the_callers_deadline() -> None:
    """A handshake fails at the caller's deadline if that comes before the timeout of connecting."""
    with Peer(lambda _: None) as peer, pytest.raises(ConnectionLost, match="no answer within"):
        Connection.open(HOST, peer.address[1], network(TLS), soon(0.05))


def test_a_slow_broker_still_completes_its_handshake(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker answers the handshake only after kfetch has probed it. The handshake succeeds."""
    monkeypatch.setattr(tls, "_IDENTIFY_AFTER_S", 0.0)
    broker = start()
    assert broker.tls is not None
    probed = threading.Event()

    def wait_until_probed(*_: object) -> None:
        probed.wait(60)

    broker.tls.sni_callback = wait_until_probed

    def probe(*_: object) -> None:
        probed.set()

    stream = tls.secure(
        socket.create_connection(("localhost", broker.port)),
        "localhost",
        broker.port,
        network(TLS),
        soon(),
        probe,
    )

    assert probed.is_set()
    stream.close()


def test_session_tickets_do_not_hide_a_silent_broker(
    start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """TLS 1.3 sends session tickets after the handshake. They do not count as a reply, so kfetch
    still warns that the broker is silent."""
    monkeypatch.setattr(connection_module, "_PROBE_AFTER_S", 0.02)
    monkeypatch.setattr(connection_module, "_SILENT_S", 0.05)
    monkeypatch.setattr(connection_module, "_SILENT_MIN_S", 0.05)
    broker = start(version=V13)
    broker.always(connection_module.ApiVersionsRequest, Silence())
    with pytest.raises(ConnectionLost, match="accepts connections, but has said nothing"):
        Connection.open(HOST, broker.port, network(TLS), soon(0.2))

    assert any("has said nothing for" in message for message in caplog.messages)


def test_the_error_says_that_a_tls_listener_wants_a_log_in(start: Start) -> None:
    """A broker with TLS closes the connection because no log-in came. kfetch asks it over TLS which
    SASL mechanisms it expects."""
    broker = start()
    answer = SaslHandshakeResponse(error_code=33, mechanisms=["PLAIN"])
    broker.always(SaslHandshakeRequest, answer)
    broker.answer(MetadataRequest, Close())
    with pytest.raises(WrongListener, match=r"expects a log-in by SASL \(PLAIN\)"):
        ask(connect(broker.port))


def test_a_connection_cut_without_a_farewell_is_lost(start: Start) -> None:
    """A broker may end the connection without TLS's last message, close_notify. The error is the
    same as without TLS."""
    broker = start()
    connection = connect(broker.port)
    broker.answer(MetadataRequest, Silence())
    connection.send(MetadataRequest[9](topics=[]))
    broker.wait_asked(MetadataRequest, 1)
    broker.drop()
    with pytest.raises(ConnectionLost, match="the broker closed it"):
        connection.receive(soon())


def test_a_reply_in_tiny_pieces_fails_at_the_deadline(start: Start) -> None:
    """A broker sends its reply one byte at a time. The call still fails at its deadline, although
    kfetch does not set the socket's timeout for each piece."""
    broker, stop = start(), threading.Event()

    def send_byte_by_byte(_: object) -> Close:
        (stream,) = broker.streams
        with suppress(OSError):
            stream.sendall(b"\0\1\0\0")
            while not stop.wait(0.002):
                stream.sendall(b"x")
        return Close()

    broker.answer(MetadataRequest, send_byte_by_byte)
    connection = connect(broker.port)
    connection.send(MetadataRequest[9](topics=[]))
    started_at = time.monotonic()
    with pytest.raises(ConnectionLost, match="no reply within the deadline"):
        connection.receive(soon(0.1))
    stop.set()

    assert 0.1 <= time.monotonic() - started_at < 30
