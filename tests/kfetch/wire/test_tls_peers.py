"""Peers of a TLS connection that are slow, silent or cut off, or speak something else."""

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


def test_a_listener_without_tls_is_named() -> None:
    """A plaintext broker closes the connection at the first message of TLS. A probe names it."""
    with ScriptedBroker() as broker, pytest.raises(WrongListener) as caught:
        connect(broker.port)

    assert "plaintext" == caught.value.listener
    assert "is a Kafka listener without TLS" in caught.value.message


def test_an_http_server_is_named() -> None:
    """An HTTP server answers TLS with text. A probe names it."""
    text = b"HTTP/1.1 400 Bad Request\r\n\r\n"
    with Peer(lambda _: text) as peer, pytest.raises(WrongListener) as caught:
        connect(peer.address[1])

    assert "HTTP" == caught.value.listener


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-x\r\n"])
def test_another_server_is_a_failed_handshake(answer: bytes) -> None:
    """What no probe recognises may be a broker that is starting: the error is ConnectionLost."""
    with Peer(lambda _: answer) as peer, pytest.raises(ConnectionLost) as caught:
        connect(peer.address[1])

    assert type(caught.value) is ConnectionLost
    assert (
        f"no connection to {HOST}:{peer.address[1]}: the TLS handshake failed"
        in caught.value.message
    )


@pytest.mark.parametrize("cause", [ConnectionResetError(104, "reset"), ssl.SSLError("early data")])
def test_a_peer_that_is_gone_before_the_handshake(
    monkeypatch: pytest.MonkeyPatch, cause: OSError
) -> None:
    """A peer may reset the connection before TLS begins: ConnectionLost, and the socket closes."""

    class Context:
        def wrap_socket(self, *_: object, **__: object) -> None:
            raise cause

    monkeypatch.setattr(tls, "context_of", lambda _options: Context())
    ours, theirs = socket.socketpair()
    with theirs, pytest.raises(ConnectionLost) as caught:
        tls.secure(ours, HOST, 9093, network(TLS), soon(), None)

    words = cause.strerror or str(cause)
    assert (
        f"no connection to {HOST}:9093: the TLS handshake failed: {words}" in caught.value.message
    )
    assert (f"{HOST}:9093", words) == (caught.value.peer, caught.value.cause)
    assert -1 == ours.fileno()


def test_a_silent_peer_has_the_connect_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handshake without an answer ends at the timeout of connecting, and is probed before."""
    monkeypatch.setattr(tls, "_IDENTIFY_AFTER_S", 0.02)
    monkeypatch.setattr(probes, "_PROBE_S", 0.02)
    options, began = replace(network(TLS), connect_timeout_s=0.1), time.monotonic()
    with (
        Peer(lambda _: None) as peer,
        pytest.raises(ConnectionLost, match=r"no answer within 0\.1"),
    ):
        Connection.open(HOST, peer.address[1], options, soon())

    assert 0.1 <= time.monotonic() - began < 30


def test_a_handshake_ends_at_the_deadline() -> None:
    """The caller's deadline limits the handshake, too."""
    with Peer(lambda _: None) as peer, pytest.raises(ConnectionLost, match="no answer within"):
        Connection.open(HOST, peer.address[1], network(TLS), soon(0.05))


def test_a_slow_handshake_goes_on_after_the_probe(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that answers the handshake after the probe is as good as any."""
    monkeypatch.setattr(tls, "_IDENTIFY_AFTER_S", 0.0)
    broker = start()
    assert broker.tls is not None
    seen = threading.Event()

    def hesitate(*_: object) -> None:
        seen.wait(60)

    broker.tls.sni_callback = hesitate

    def identify(*_: object) -> None:
        seen.set()

    stream = tls.secure(
        socket.create_connection(("localhost", broker.port)),
        "localhost",
        broker.port,
        network(TLS),
        soon(),
        identify,
    )

    assert seen.is_set()
    stream.close()


def test_a_silent_broker_is_noticed_behind_session_tickets(
    start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The tickets of TLS 1.3 are no reply: the warning for a silent peer comes all the same."""
    monkeypatch.setattr(connection_module, "_PROBE_AFTER_S", 0.02)
    monkeypatch.setattr(connection_module, "_SILENT_S", 0.05)
    monkeypatch.setattr(connection_module, "_SILENT_MIN_S", 0.05)
    broker = start(version=V13)
    broker.always(connection_module.ApiVersionsRequest, Silence())
    with pytest.raises(ConnectionLost, match="accepts connections, but has said nothing"):
        Connection.open(HOST, broker.port, network(TLS), soon(0.2))

    assert any("has said nothing for" in text for text in caplog.messages)


def test_a_log_in_is_wanted_behind_tls(start: Start) -> None:
    """The probe for SASL asks over TLS, too."""
    broker = start()
    answer = SaslHandshakeResponse(error_code=33, mechanisms=["PLAIN"])
    broker.always(SaslHandshakeRequest, answer)
    broker.answer(MetadataRequest, Close())
    with pytest.raises(WrongListener, match=r"expects a log-in by SASL \(PLAIN\)"):
        ask(connect(broker.port))


def test_a_cut_connection_is_lost(start: Start) -> None:
    """A peer that ends without TLS's farewell has closed the connection, as without TLS."""
    broker = start()
    connection = connect(broker.port)
    broker.answer(MetadataRequest, Silence())
    connection.send(MetadataRequest[9](topics=[]))
    broker.wait_asked(MetadataRequest, 1)
    broker.drop()
    with pytest.raises(ConnectionLost, match="the broker closed it"):
        connection.receive(soon())


def test_a_reply_that_trickles_ends_at_the_deadline(start: Start) -> None:
    """Many small records can't stretch a deadline, although the timeout is set only at times."""
    broker, stop = start(), threading.Event()

    def trickle(_: object) -> Close:
        (stream,) = broker.streams
        with suppress(OSError):
            stream.sendall(b"\0\1\0\0")
            while not stop.wait(0.002):
                stream.sendall(b"x")
        return Close()

    broker.answer(MetadataRequest, trickle)
    connection = connect(broker.port)
    connection.send(MetadataRequest[9](topics=[]))
    began = time.monotonic()
    with pytest.raises(ConnectionLost, match="no reply within the deadline"):
        connection.receive(soon(0.1))
    stop.set()

    assert 0.1 <= time.monotonic() - began < 30
