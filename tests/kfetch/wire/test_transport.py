"""A stream that can't be opened is a ConnectionLost."""

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
def test_a_host_name_that_dns_forbids(host: str) -> None:
    """An empty label or an overlong name raises ConnectionLost, not UnicodeError."""
    with pytest.raises(ConnectionLost, match="no connection to "):
        open_stream(host, 9092, NETWORK, time.monotonic() + 1)


def test_a_socket_that_refuses_its_options_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket may refuse its options because the broker has closed it. kfetch closes it, too, and
    raises ConnectionLost."""

    class RefusingSocket(socket.socket):
        def setsockopt(self, *_: object) -> None:
            raise OSError(22, "Invalid argument")

    stream = RefusingSocket()
    monkeypatch.setattr(transport, "connect", lambda *_: stream)
    with pytest.raises(ConnectionLost, match=r"h:9092 can't be configured: .*Invalid argument"):
        open_stream("h", 9092, NETWORK, time.monotonic() + 1)

    assert -1 == stream.fileno()
