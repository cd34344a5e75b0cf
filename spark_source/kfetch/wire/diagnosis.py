"""Recognises a listener that does not fit the options: with or without TLS or SASL, or no broker's.

This module holds the questions and judges the first bytes of the answers. ``probes`` sends the
questions, each on a connection of its own. This module has no socket and no clock.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum

from kfetch.errors import ConnectionLost, WrongListener


class Listener(StrEnum):
    """What listens at an address, as far as it does not fit the options."""

    TLS = "TLS"
    PLAINTEXT = "plaintext"
    SASL = "SASL"
    NO_SASL = "no SASL"
    CONTROLLER = "controller"
    HTTP = "HTTP"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What listens at an address."""

    listener: Listener
    mechanisms: tuple[str, ...] = ()
    """The SASL mechanisms that the listener accepts, as far as it names them."""


def _client_hello() -> bytes:
    """Returns a ClientHello of TLS 1.2 (RFC 5246, 7.4.1.2). Every TLS server answers it.

    A server that speaks TLS 1.3 alone, or needs a server name, answers with an alert.
    """
    ciphers = bytes.fromhex("c02bc02fc02cc030cca9cca8009c009d002f0035")
    groups = struct.pack(">HHHHHH", 10, 8, 6, 0x1D, 0x17, 0x18)
    signatures = struct.pack(">HHH", 13, 14, 12) + bytes.fromhex("040308040401050308050501")
    point_formats = struct.pack(">HHBB", 11, 2, 1, 0)
    extensions = groups + signatures + point_formats
    body = b"\x03\x03" + b"kfetch asks whether TLS is here." + b"\0"
    body += struct.pack(">H", len(ciphers)) + ciphers + b"\x01\0"
    body += struct.pack(">H", len(extensions)) + extensions
    message = b"\x01" + struct.pack(">I", len(body))[1:] + body
    return b"\x16\x03\x01" + struct.pack(">H", len(message)) + message


def _sasl_handshake() -> bytes:
    """Returns the frame of a SaslHandshake v1 request for a mechanism that no broker has."""
    name, correlation_id, client_id = b"KFETCH-PROBE", 0, b"kfetch"
    header = struct.pack(">hhih", _SASL_HANDSHAKE, 1, correlation_id, len(client_id)) + client_id
    request = header + struct.pack(">h", len(name)) + name
    return struct.pack(">i", len(request)) + request


def _api_versions() -> bytes:
    """Returns the frame of an ApiVersions v0 request, which every Kafka broker answers."""
    request = struct.pack(">hhih", _API_VERSIONS, 0, _PROBE_ID, len(b"kfetch")) + b"kfetch"
    return struct.pack(">i", len(request)) + request


_METADATA, _SASL_HANDSHAKE, _API_VERSIONS, _BROKER_REGISTRATION = 3, 17, 18, 62
_PROBE_ID = 0x6B66
"""The correlation id of a question to a listener that may be no Kafka broker."""
_UNSUPPORTED_SASL_MECHANISM = 33

CLIENT_HELLO = _client_hello()
API_VERSIONS = _api_versions()
HTTP_REQUEST = b"GET / HTTP/1.0\r\n\r\n"
SASL_HANDSHAKE = _sasl_handshake()

_TLS_RECORD = re.compile(rb"[\x15\x16]\x03[\x00-\x04]")
"""The start of an alert or a handshake record, of SSL 3.0 to TLS 1.3."""
_MECHANISM = re.compile(r"[A-Z0-9_-]{1,20}")
"""RFC 4422, section 3.1. Other text of an unknown peer must not get into a sentence."""
_MECHANISMS_MAX = 10
_REPLY_HEAD = struct.Struct(">iihi")
"""The length, the correlation id, the error code and the number of mechanisms."""


def of_greeting(answer: bytes) -> Verdict | None:
    """Returns TLS or HTTP for an answer to ``CLIENT_HELLO`` or ``HTTP_REQUEST``, None for others.

    TLS servers answer the HTTP request with an alert, and HTTP servers may answer both.
    """
    if _TLS_RECORD.match(answer):
        return Verdict(listener=Listener.TLS)
    if answer.startswith(b"HTTP/"):
        return Verdict(listener=Listener.HTTP)
    return None


def of_plaintext(answer: bytes) -> Verdict | None:
    """Returns plaintext for a broker's answer to ``API_VERSIONS``, HTTP for an HTTP server's."""
    if answer.startswith(b"HTTP/"):
        return Verdict(listener=Listener.HTTP)
    if len(answer) >= 8 and int.from_bytes(answer[4:8], "big") == _PROBE_ID:
        return Verdict(listener=Listener.PLAINTEXT)
    return None


def of_sasl_handshake(answer: bytes) -> Verdict | None:
    """Returns SASL with its mechanisms if the listener waits for a log-in.

    A listener without SASL answers ILLEGAL_SASL_STATE (34), and this function returns None.
    """
    if len(answer) < _REPLY_HEAD.size:
        return None
    _, correlation_id, error, count = _REPLY_HEAD.unpack_from(answer)
    if (correlation_id, error) != (0, _UNSUPPORTED_SASL_MECHANISM):
        return None
    names = _strings(answer[_REPLY_HEAD.size :], min(count, _MECHANISMS_MAX))
    mechanisms = tuple(name for name in names if _MECHANISM.fullmatch(name))
    return Verdict(listener=Listener.SASL, mechanisms=mechanisms)


def _strings(data: bytes, count: int) -> Iterator[str]:
    """Yields up to ``count`` strings, each behind two bytes with its length."""
    for _ in range(count):
        size = int.from_bytes(data[:2], "big")
        if len(data) < 2 + size:
            return
        yield data[2 : 2 + size].decode("ascii", "replace")
        data = data[2 + size :]


def of_api_keys(keys: Collection[int]) -> Verdict | None:
    """Returns whether these keys of ApiVersions are a KRaft controller's; None for a broker's."""
    if _BROKER_REGISTRATION in keys and _METADATA not in keys:
        return Verdict(listener=Listener.CONTROLLER)
    return None


_EXPLANATIONS = {
    Listener.TLS: (
        "expects TLS: it needs kafka.security.protocol=SSL or SASL_SSL",
        "Set that option, or name a PLAINTEXT listener in kafka.bootstrap.servers",
    ),
    Listener.PLAINTEXT: (
        "is a Kafka listener without TLS",
        "Name a listener with TLS in kafka.bootstrap.servers. Only a trusted network can do "
        "without TLS: kafka.security.protocol=PLAINTEXT or SASL_PLAINTEXT",
    ),
    Listener.SASL: (
        "expects a log-in by SASL{mechanisms}",
        "Set kafka.security.protocol=SASL_PLAINTEXT (with TLS: SASL_SSL), kafka.sasl.mechanism "
        "and kafka.sasl.jaas.config",
    ),
    Listener.NO_SASL: (
        "is a listener without SASL, but kafka.security.protocol asks for a log-in",
        "Set kafka.security.protocol=PLAINTEXT or SSL, or name a listener with SASL in "
        "kafka.bootstrap.servers",
    ),
    Listener.CONTROLLER: (
        "is the listener of a KRaft controller, which serves no topics",
        "Name the listener of a broker in kafka.bootstrap.servers",
    ),
    Listener.HTTP: (
        "answers HTTP, so no Kafka broker listens there",
        "Correct kafka.bootstrap.servers, or advertised.listeners if a broker gave this address",
    ),
}


def wrong_listener(verdict: Verdict, host: str, port: int) -> WrongListener:
    """Returns the error for an address: what listens there, and which option to set."""
    what, action = _EXPLANATIONS[verdict.listener]
    names = f" ({', '.join(verdict.mechanisms)})" if verdict.mechanisms else ""
    peer, listener = f"{host}:{port}", verdict.listener.value
    sentence = f"{peer} {what.format(mechanisms=names)}"
    return WrongListener(sentence, action=action, peer=peer, listener=listener)


def silent(host: str, port: int, waited_s: float) -> ConnectionLost:
    """Returns the error for a peer that accepts connections and sends nothing. It may be a broker.

    ``waited_s``: seconds since the first request.
    """
    what = f"{host}:{port} accepts connections, but has said nothing for {waited_s:.0f} s"
    action = (
        "A broker that is starting or overloaded does that. If it goes on, check that "
        "kafka.bootstrap.servers names a Kafka broker's listener"
    )
    return ConnectionLost(what, action=action, peer=f"{host}:{port}")
