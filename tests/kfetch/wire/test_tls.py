"""TLS connections over real sockets: whom kfetch trusts, what fails, and the sentence for it."""

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
def test_a_connection_behind_tls(start: Start, version: ssl.TLSVersion) -> None:
    """With the authority in the truststore, requests and replies pass, in both versions of TLS."""
    connection = connect(start(version=version).port)

    assert "c" == ask(connection).cluster_id
    assert version.name == connection._frames.stream.version().replace(".", "_")  # type: ignore[attr-defined]
    connection.close()


@pytest.mark.parametrize("version", [V12, V13])
def test_an_idle_connection_behind_tls(start: Start, version: ssl.TLSVersion) -> None:
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
    """A reply of many TLS records fills the memory of ``allocate``, and is whole."""
    broker, name = start(), "x" * (300 << 10)
    reply = MetadataResponse(version=9, brokers=[], cluster_id=name, controller_id=1, topics=[])
    broker.answer(MetadataRequest, reply)
    connection, buffer = connect(broker.port), ReplyBuffer()
    connection.send(MetadataRequest[9](topics=[]))
    _, frame = connection.receive(soon(), buffer)

    assert name.encode() in bytes(frame)
    assert frame.obj is buffer(1).obj
    connection.close()


def test_pipelined_replies_in_one_record(start: Start) -> None:
    """Replies that wait inside the TLS object are received without a new byte on the socket."""
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
    """With an empty identification algorithm, any name will do, and the authority still counts."""
    broker = start(AUTHORITY.issue("elsewhere.example"))
    careless = replace(TLS, check_host_name=False)
    connect(broker.port, careless).close()
    with pytest.raises(TlsFailed, match="no trusted authority"):
        connect(broker.port, replace(careless, truststore=Store(pem=Secret(OTHER.pem))))


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
    """Each fault of the broker's certificate has its own sentence, at once."""
    broker, began = start(identity), time.monotonic()
    with pytest.raises(TlsFailed) as caught:
        connect(broker.port, options)

    assert f"{HOST}:{broker.port} {sentence} [TLS_FAILED]" == str(caught.value)
    assert problem == caught.value.problem
    assert time.monotonic() - began < 30


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
    """A missing or bad client certificate is named, in TLS 1.3 by the first read."""
    broker = start(clients=AUTHORITY, version=version)
    with pytest.raises(TlsFailed, match=expected) as caught:
        ask(connect(broker.port, replace(TLS, keystore=keystore)))

    assert f"{HOST}:{broker.port}" == caught.value.peer


def test_a_later_alert_is_the_first_cause(start: Start) -> None:
    """A connection that died by an alert raises it again at every later use."""
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
def test_nothing_in_common(
    start: Start, settings: dict[str, object], options: TlsOptions, expected: str
) -> None:
    """Without a common version or cipher suite, the sentence says which the options allow."""
    broker = start(**settings)
    with pytest.raises(TlsFailed, match=expected):
        connect(broker.port, options)


def test_the_wanted_cipher_is_used(start: Start) -> None:
    """A suite of TLS 1.2 that the options name is the one that is agreed."""
    cipher = "ECDHE-ECDSA-CHACHA20-POLY1305"
    connection = connect(start().port, replace(TLS, max_version="TLSv1.2", ciphers=(cipher,)))

    assert cipher == connection._frames.stream.cipher()[0]  # type: ignore[attr-defined]
    connection.close()
