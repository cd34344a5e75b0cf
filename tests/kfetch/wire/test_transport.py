"""Connections that can't be made."""

from __future__ import annotations

import socket
import time

import pytest

from kfetch.errors import ConnectionLost
from kfetch.spark.options import parse
from kfetch.wire import transport
from kfetch.wire.transport import open_stream

NETWORK = parse({"kafka.bootstrap.servers": "a:1", "subscribe": "t"}).network


@pytest.mark.parametrize("host", ["a..b", "a" * 300])
def test_a_name_that_no_dns_can_hold(host: str) -> None:
    """A host name that can't be encoded is ConnectionLost with the name in it, no traceback."""
    with pytest.raises(ConnectionLost, match="no connection to "):
        open_stream(host, 9092, NETWORK, time.monotonic() + 1)


def test_a_socket_that_takes_no_options_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its peer may be gone already. That is ConnectionLost, and no descriptor stays open."""

    class Refusing(socket.socket):
        def setsockopt(self, *_: object) -> None:
            raise OSError(22, "Invalid argument")

    stream = Refusing()
    monkeypatch.setattr(transport, "connect", lambda *_: stream)
    with pytest.raises(ConnectionLost, match=r"h:9092 can't be configured: .*Invalid argument"):
        open_stream("h", 9092, NETWORK, time.monotonic() + 1)

    assert -1 == stream.fileno()
