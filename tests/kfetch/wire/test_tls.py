"""TLS connections over real sockets: which brokers kfetch trusts, and the errors for the others."""

from __future__ import annotations

import socket
import ssl
import time
from dataclasses import replace

import pytest
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from kfetch.errors import TlsFailed
from kfetch.options.secret import Secret
from kfetch.options.tls import Store, TlsOptions
from kfetch.wire import tls
from kfetch.wire.connection import Connection
from kfetch.wire.frames import ReplyBuffer
from tests.kfetch.wire.certificates import Authority, Identity
from tests.kfetch.wire.tls_helpers import (
    AUTHORITY,
    BROKER,
    CLIENT,
    HOST,
    OTHER,
    TLS,
    V12,
    V13,
    Start,
    ask,
    connect,
    network,
    own,
    soon,
)


@pytest.mark.parametrize("version", [V12, V13])
def test_requests_and_replies_pass_over_tls(start: Start, version: ssl.TLSVersion) -> None:
    """With the broker's authority in the truststore, a request gets its reply over TLS 1.2 and
    1.3."""
    connection = connect(start(version=version).port)

    assert "c" == ask(connection).cluster_id
    assert version.name == connection._frames.stream.version().replace(".", "_")  # type: ignore[attr-defined]
    connection.close()


@pytest.mark.parametrize("version", [V12, V13])
def test_an_idle_tls_connection_stays_alive(start: Start, version: ssl.TLSVersion) -> None:
    """An idle connection stays alive until the broker closes it."""
    broker = start(version=version)
    connection = connect(broker.port)
    for _ in range(3):
        assert connection.alive
        assert "c" == ask(connection).cluster_id
    assert connection.alive
    broker.drop()

    assert not connection.alive


def test_a_large_reply_is_received_into_the_callers_memory(start: Start) -> None:
    """A reply of many TLS records is received in whole, in the memory that the caller's buffer
    gives."""
    broker, name = start(), "x" * (300 << 10)
    reply = MetadataResponse(version=9, brokers=[], cluster_id=name, controller_id=1, topics=[])
    broker.answer(MetadataRequest, reply)
    connection, buffer = connect(broker.port), ReplyBuffer()
    connection.send(MetadataRequest[9](topics=[]))
    _, frame = connection.receive(soon(), buffer)

    assert name.encode() in bytes(frame)
    assert frame.obj is buffer(1).obj
    connection.close()


def test_replies_that_tls_has_buffered_are_received(start: Start) -> None:
    """Several replies may arrive together. The TLS object keeps the later ones, and ``receive``
    returns them although the socket has no more bytes."""
    broker = start()
    connection = connect(broker.port)
    for _ in range(3):
        connection.send(MetadataRequest[9](topics=[]))
    broker.wait_asked(MetadataRequest, 3)

    assert ["c"] * 3 == [
        connection._decode(*connection.receive(soon())).cluster_id for _ in range(3)
    ]
    connection.close()


@pytest.mark.parametrize("version", [V12, V13])
def test_mutual_tls(start: Start, version: ssl.TLSVersion) -> None:
    """A broker that wants a client certificate accepts one of its authority."""
    broker = start(clients=AUTHORITY, version=version)
    connection = connect(broker.port, replace(TLS, keystore=own(CLIENT)))

    assert "c" == ask(connection).cluster_id
    connection.close()


def test_an_intermediate_authority_can_be_trusted(start: Start) -> None:
    """As in Java, a certificate of the truststore is trusted although it is no root."""
    middle = Authority("middle", issuer=AUTHORITY)
    broker = start(middle.issue(HOST))
    connection = connect(broker.port, TlsOptions(truststore=Store(pem=Secret(middle.pem))))

    assert "c" == ask(connection).cluster_id
    connection.close()


def test_host_names_may_be_left_unchecked(start: Start) -> None:
    """Without the check of host names, a certificate may have any name. A trusted authority must
    still have signed it."""
    broker = start(AUTHORITY.issue("elsewhere.example"))
    unchecked_name = replace(TLS, check_host_name=False)
    connect(broker.port, unchecked_name).close()
    with pytest.raises(TlsFailed, match="no trusted authority"):
        connect(broker.port, replace(unchecked_name, truststore=Store(pem=Secret(OTHER.pem))))


@pytest.mark.parametrize(("host", "sent"), [("localhost", "localhost"), (HOST, None)])
def test_the_server_name_is_sent(start: Start, host: str, sent: str | None) -> None:
    """A host name travels as SNI (RFC 6066). An IP address does not, but is checked."""
    names: list[str | None] = []
    broker = start()
    assert broker.tls is not None
    broker.tls.sni_callback = lambda _, name, __: names.append(name)
    connect(broker.port, host=host).close()

    assert [sent] == names


# The certificate of the broker, kfetch's options, and the sentence.
REFUSED: list[tuple[str, Identity, TlsOptions, str]] = [
    (
        "unknown authority",
        OTHER.issue(HOST),
        TLS,
        "has a certificate that no trusted authority has signed. Add the certificate of its "
        "authority to kafka.ssl.truststore.certificates",
    ),
    (
        "unknown authority",
        BROKER,
        TlsOptions(),
        "has a certificate that no trusted authority has signed. Give the certificate of its "
        "authority in kafka.ssl.truststore.location or kafka.ssl.truststore.certificates. Without "
        "them, kfetch trusts the system's authorities",
    ),
    (
        "expired",
        AUTHORITY.issue(HOST, days=(-30, -1)),
        TLS,
        "has a certificate that has expired. Renew the broker's certificate, or check the clock of "
        "this machine",
    ),
    (
        "not yet valid",
        AUTHORITY.issue(HOST, days=(1, 30)),
        TLS,
        "has a certificate that is not valid yet. Check the clocks of the broker and of this "
        "machine",
    ),
    (
        "other name",
        AUTHORITY.issue("broker.example", "127.0.0.2"),
        TLS,
        "has a certificate for other names than 127.0.0.1. Connect by a name that the certificate "
        "has, or let it have 127.0.0.1 as a subject alternative name. An empty "
        "kafka.ssl.endpoint.identification.algorithm switches the check off",
    ),
]


@pytest.mark.parametrize(("problem", "identity", "options", "sentence"), REFUSED)
def test_a_certificate_is_refused(
    start: Start, problem: str, identity: Identity, options: TlsOptions, sentence: str
) -> None:
    """Each fault of the broker's certificate has an error sentence of its own. kfetch does not
    retry."""
    broker, started_at = start(identity), time.monotonic()
    with pytest.raises(TlsFailed) as caught:
        connect(broker.port, options)

    assert f"{HOST}:{broker.port} {sentence} [TLS_FAILED]" == str(caught.value)
    assert problem == caught.value.problem
    assert time.monotonic() - started_at < 30


@pytest.mark.parametrize("version", [V12, V13])
@pytest.mark.parametrize(
    ("keystore", "expected"),
    [
        (None, "requires a client certificate"),
        (own(OTHER.issue("client")), "refuses the client certificate"),
        (own(AUTHORITY.issue("client", days=(-9, -1))), "refuses the client certificate"),
    ],
    ids=["none", "unknown", "expired"],
)
def test_the_broker_refuses_the_client(
    start: Start, version: ssl.TLSVersion, keystore: Store | None, expected: str
) -> None:
    """The error names a missing or bad client certificate. In TLS 1.3, the first read raises it."""
    broker = start(clients=AUTHORITY, version=version)
    with pytest.raises(TlsFailed, match=expected) as caught:
        ask(connect(broker.port, replace(TLS, keystore=keystore)))

    assert f"{HOST}:{broker.port}" == caught.value.peer


def test_every_use_of_a_refused_connection_raises_the_same_error(start: Start) -> None:
    """The broker refuses the connection with a TLS alert. Every later use raises the alert's
    error."""
    broker = start(clients=AUTHORITY, version=V13)
    options = network(TLS)
    stream = tls.secure(
        socket.create_connection((HOST, broker.port)), HOST, broker.port, options, soon(), None
    )
    connection = Connection(stream, (HOST, broker.port), options)
    errors = []
    for _ in range(2):
        with pytest.raises(TlsFailed) as caught:
            ask(connection)
        errors.append(str(caught.value))

    assert errors[0] == errors[1]


@pytest.mark.parametrize(
    ("settings", "options", "expected"),
    [
        ({"version": V12}, replace(TLS, min_version="TLSv1.3"), "does not speak TLSv1.3. Set"),
        ({"version": V13}, replace(TLS, max_version="TLSv1.2"), "does not speak TLSv1.2. Set"),
        (
            {"version": V12, "ciphers": "ECDHE-ECDSA-AES256-GCM-SHA384"},
            replace(TLS, max_version="TLSv1.2", ciphers=("ECDHE-ECDSA-AES128-GCM-SHA256",)),
            "has no cipher suite for TLSv1.2 in common with kfetch",
        ),
        (
            {"version": V13},
            replace(TLS, tls_1_3_suites=("TLS_AES_128_CCM_SHA256",)),
            "chooses TLS_AES_256_GCM_SHA384, which kafka.ssl.cipher.suites does not have",
        ),
    ],
    ids=["no 1.3", "no 1.2", "cipher", "suite of 1.3"],
)
def test_the_two_sides_have_no_version_or_cipher_in_common(
    start: Start, settings: dict[str, object], options: TlsOptions, expected: str
) -> None:
    """Without a common version or cipher suite, the error says which ones the options allow."""
    broker = start(**settings)
    with pytest.raises(TlsFailed, match=expected):
        connect(broker.port, options)


def test_the_chosen_cipher_is_used(start: Start) -> None:
    """The connection uses the TLS 1.2 suite that the options name."""
    cipher = "ECDHE-ECDSA-CHACHA20-POLY1305"
    connection = connect(start().port, replace(TLS, max_version="TLSv1.2", ciphers=(cipher,)))

    assert cipher == connection._frames.stream.cipher()[0]  # type: ignore[attr-defined]
    connection.close()
