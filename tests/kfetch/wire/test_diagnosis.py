"""The first bytes of an answer, and what they say about the listener."""

from __future__ import annotations

import ssl
import struct

import pytest

from kfetch.errors import WrongListener
from kfetch.wire import diagnosis
from kfetch.wire.diagnosis import Listener, Verdict, of_api_keys, of_greeting, of_sasl_handshake
from tests.kfetch.wire.scripted import decode_request

TLS, HTTP = Verdict(listener=Listener.TLS), Verdict(listener=Listener.HTTP)

# Recorded: Kafka 4.3.1, openssl s_server 3.0, Python's http.server, nginx.
GREETINGS = [
    ("alert of Kafka's SSL listener", b"\x15\x03\x03\x00\x02\x02P", TLS),
    ("alert of openssl", b"\x15\x03\x01\x00\x02\x02F", TLS),
    ("ServerHello", b"\x16\x03\x03\x04\x98\x02\x00\x00M\x03\x03", TLS),
    ("ServerHello of TLS 1.3", b"\x16\x03\x03\x00\x7a\x02\x00\x00\x76\x03\x03", TLS),
    ("HTTP 1.0", b"HTTP/1.0 200 OK\r\nServer: SimpleHTTP/0.6 Python/3.11", HTTP),
    ("HTTP 1.1", b"HTTP/1.1 400 Bad Request\r\n", HTTP),
    ("nothing", b"", None),
    ("one byte of an alert", b"\x15", None),
    ("two bytes of an alert", b"\x15\x03", None),
    ("a TLS version that does not exist", b"\x15\x03\x09\x00\x02\x02F", None),
    ("a frame of Kafka", b"\x00\x00\x01\xcc\x00\x00\x00\x07\x00\x00", None),
    ("SSH", b"SSH-2.0-OpenSSH_9.2\r\n", None),
    ("SMTP", b"220 mail ESMTP\r\n", None),
    ("PostgreSQL", b"E\x00\x00\x00\x8fSFATAL", None),
]


@pytest.mark.parametrize(("_name", "answer", "verdict"), GREETINGS, ids=[g[0] for g in GREETINGS])
def test_greetings(_name: str, answer: bytes, verdict: Verdict | None) -> None:
    """TLS and HTTP are recognised by their own answers alone. Everything else stays unknown."""
    assert verdict == of_greeting(answer)


def handshake(
    error: int, *names: bytes, count: int | None = None, correlation_id: int = 0, more: bytes = b""
) -> bytes:
    """A reply to SaslHandshake v1."""
    listed = b"".join(struct.pack(">h", len(name)) + name for name in names)
    body = struct.pack(">ihi", correlation_id, error, len(names) if count is None else count)
    body += listed + more
    return struct.pack(">i", len(body)) + body


def sasl(*mechanisms: str) -> Verdict:
    return Verdict(listener=Listener.SASL, mechanisms=mechanisms)


HANDSHAKES = [
    ("mechanisms", handshake(33, b"PLAIN", b"SCRAM-SHA-512"), sasl("PLAIN", "SCRAM-SHA-512")),
    ("no mechanism", handshake(33), sasl()),
    ("no SASL", handshake(34), None),
    ("success", handshake(0, b"PLAIN"), None),
    ("another correlation id", handshake(33, b"PLAIN", correlation_id=9), None),
    ("nothing", b"", None),
    ("cut in the head", handshake(33, b"PLAIN")[:13], None),
    ("cut in a name", handshake(33, b"PLAIN", b"GSSAPI")[:-2], sasl("PLAIN")),
    ("a count that is too large", handshake(33, b"PLAIN", count=2**31 - 1), sasl("PLAIN")),
    ("a negative count", handshake(33, count=-1), sasl()),
    ("a negative length", handshake(33, count=1, more=b"\xff\xff"), sasl()),
    (
        "text that is no mechanism",
        handshake(33, b"\x1b[31mred", b"A" * 21, b"PLAIN"),
        sasl("PLAIN"),
    ),
    ("many", handshake(33, *[b"M%d" % n for n in range(20)]), sasl(*[f"M{n}" for n in range(10)])),
]


@pytest.mark.parametrize(
    ("_name", "answer", "verdict"), HANDSHAKES, ids=[case[0] for case in HANDSHAKES]
)
def test_sasl_handshakes(_name: str, answer: bytes, verdict: Verdict | None) -> None:
    """Error 33 is a SASL listener, with the mechanisms that are complete and well formed."""
    assert verdict == of_sasl_handshake(answer)


@pytest.mark.parametrize(
    ("keys", "verdict"),
    [
        ({1, 3, 18, 62}, None),
        ({0, 1, 2, 3, 17, 18}, None),
        ({1, 18}, None),
        ({1, 17, 18, 52, 62, 63}, Verdict(listener=Listener.CONTROLLER)),
        (set(), None),
    ],
)
def test_api_keys(keys: set[int], verdict: Verdict | None) -> None:
    """A controller registers brokers and has no Metadata. A listener without both is unknown."""
    assert verdict == of_api_keys(keys)


def test_the_client_hello_is_one() -> None:
    """A TLS server of OpenSSL takes the ClientHello and answers with a handshake or an alert."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).wrap_bio(incoming, outgoing, server_side=True)
    incoming.write(diagnosis.CLIENT_HELLO)
    with pytest.raises(ssl.SSLError, match=r"(?i)no.shared.cipher"):  # it has no certificate
        server.do_handshake()

    assert of_greeting(outgoing.read()) == TLS


def test_the_sasl_handshake_is_one() -> None:
    """kafka-python decodes the probe as a SaslHandshake for a mechanism that no broker has."""
    request = decode_request(diagnosis.SASL_HANDSHAKE[4:])

    assert ("SaslHandshakeRequest", 1) == (request.name, request.API_VERSION)
    assert ("KFETCH-PROBE", 0) == (request.mechanism, request.header.correlation_id)
    assert len(diagnosis.SASL_HANDSHAKE) == 4 + int.from_bytes(diagnosis.SASL_HANDSHAKE[:4], "big")


def test_the_api_versions_request_is_one() -> None:
    """kafka-python decodes the probe for plain text as ApiVersions v0."""
    request = decode_request(diagnosis.API_VERSIONS[4:])

    assert ("ApiVersionsRequest", 0) == (request.name, request.API_VERSION)
    assert len(diagnosis.API_VERSIONS) == 4 + int.from_bytes(diagnosis.API_VERSIONS[:4], "big")


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (b"\0\0\0\x0a\0\0\x6b\x66\0\0", Verdict(listener=Listener.PLAINTEXT)),
        (b"\0\0\0\x0a\0\0\x6b\x67\0\0", None),
        (b"\x15\x03\x03\0\2\2F", None),
        (b"HTTP/1.1 400 Bad Request", HTTP),
        (b"\0\0\0\x0a", None),
        (b"", None),
    ],
)
def test_plaintext(answer: bytes, verdict: Verdict | None) -> None:
    """A broker repeats the correlation id of the probe. Nothing else counts as one."""
    assert verdict == diagnosis.of_plaintext(answer)


@pytest.mark.parametrize(
    ("verdict", "sentence"),
    [
        (
            TLS,
            "h:9093 expects TLS: it needs kafka.security.protocol=SSL or SASL_SSL. Set that "
            "option, or name a PLAINTEXT listener in kafka.bootstrap.servers",
        ),
        (
            Verdict(listener=Listener.PLAINTEXT),
            "h:9093 is a Kafka listener without TLS. Name a listener with TLS in "
            "kafka.bootstrap.servers. Only a trusted network can do without TLS: "
            "kafka.security.protocol=PLAINTEXT or SASL_PLAINTEXT",
        ),
        (
            sasl("PLAIN", "GSSAPI"),
            "h:9093 expects a log-in by SASL (PLAIN, GSSAPI). Set "
            "kafka.security.protocol=SASL_PLAINTEXT (with TLS: SASL_SSL), kafka.sasl.mechanism and "
            "kafka.sasl.jaas.config",
        ),
        (
            Verdict(listener=Listener.NO_SASL),
            "h:9093 is a listener without SASL, but kafka.security.protocol asks for a log-in. Set "
            "kafka.security.protocol=PLAINTEXT or SSL, or name a listener with SASL in "
            "kafka.bootstrap.servers",
        ),
        (
            Verdict(listener=Listener.CONTROLLER),
            "h:9093 is the listener of a KRaft controller, which serves no topics. Name the "
            "listener of a broker in kafka.bootstrap.servers",
        ),
        (
            HTTP,
            "h:9093 answers HTTP, so no Kafka broker listens there. Correct "
            "kafka.bootstrap.servers, or advertised.listeners if a broker gave this address",
        ),
    ],
)
def test_sentences(verdict: Verdict, sentence: str) -> None:
    """Each verdict has its sentence: what listens there, and which option to set."""
    error = diagnosis.wrong_listener(verdict, "h", 9093)

    assert f"{sentence} [WRONG_LISTENER]" == str(error)
    assert (verdict.listener, "h:9093") == (error.listener, error.peer)


def test_the_docstring_of_the_error_lists_every_listener() -> None:
    """Programs read ``listener``, so its values are documented."""
    text = str(WrongListener.__doc__)

    assert all(listener.value in text for listener in Listener)
