"""What the tests of TLS share: an authority, options that trust it, and short calls."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable

from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from kfetch.options import NetworkOptions
from kfetch.options.secret import Secret
from kfetch.options.security import SecurityOptions
from kfetch.options.tls import Store, TlsOptions
from kfetch.wire.connection import Connection
from tests.kfetch.wire.certificates import Authority, Identity
from tests.kfetch.wire.scripted import ScriptedBroker

HOST = "127.0.0.1"
AUTHORITY = Authority()
OTHER = Authority("other")
BROKER = AUTHORITY.issue(HOST, "localhost")
CLIENT = AUTHORITY.issue("client")
TRUST = Store(pem=Secret(AUTHORITY.pem))
TLS = TlsOptions(truststore=TRUST)
V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


def own(identity: Identity) -> Store:
    """A keystore with this identity."""
    return Store(pem=Secret(identity.pem + identity.key()))


def network(options: TlsOptions) -> NetworkOptions:
    return NetworkOptions(
        request_timeout_s=60.0,
        connect_timeout_s=60.0,
        frame_bytes_max=64 << 20,
        security=SecurityOptions(tls=options),
    )


def soon(seconds: float = 60.0) -> float:
    """The deadline in so many seconds, by ``time.monotonic``."""
    return time.monotonic() + seconds


def connect(port: int, options: TlsOptions = TLS, host: str = HOST) -> Connection:
    return Connection.open(host, port, network(options), soon())


def ask(connection: Connection, name: str = "c") -> MetadataResponse:
    return connection.call(MetadataRequest[9](topics=[]), soon())


Start = Callable[..., ScriptedBroker]
"""Starts a broker with TLS: its identity, and settings of ``server_context``."""
