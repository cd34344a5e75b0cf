"""The socket between a worker and its agent: what it does with bytes that it does not know."""

from __future__ import annotations

import socket
import struct

import pytest

from kfetch.agent.channel import Channel
from kfetch.errors import AgentError


@pytest.mark.parametrize(
    "body",
    [
        b"cspark_source.agent.channel\nHello\n.",
        b"ckfetch.agent.channel\nNoSuchMessage\n.",
        b"no pickle",
    ],
)
def test_another_release_is_told(body: bytes) -> None:
    """A message of a class that this release does not have is an AgentError with what to do."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(struct.pack(">I", len(body)) + body)

        with pytest.raises(AgentError, match=r"another release of kfetch .*: restart the executor"):
            Channel(ours, 5).receive()
