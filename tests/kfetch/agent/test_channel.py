"""The channel between worker and agent: whole messages, closed sockets, limits."""

from __future__ import annotations

import os
import resource
import socket
import struct
import threading

import pytest

from kfetch.agent import channel
from kfetch.agent.channel import (
    Channel,
    ChannelClosed,
    ChannelTimeout,
    Greeting,
    StatusRequest,
    peer_uid,
)
from kfetch.errors import AgentError


def test_messages_of_any_size_arrive_whole(channels: tuple[Channel, Channel]) -> None:
    """A message larger than the socket's buffer arrives as one message."""
    worker, agent = channels
    large = Greeting(version="x" * 3_000_000, pid=1)
    sender = threading.Thread(target=worker.send, args=(large,))
    sender.start()

    assert (large, []) == agent.receive()
    sender.join()


def test_the_other_side_has_closed(channels: tuple[Channel, Channel]) -> None:
    """After one side closes, receive and send of the other side raise ChannelClosed."""
    worker, agent = channels
    worker.close()

    with pytest.raises(ChannelClosed):
        agent.receive()
    with pytest.raises(ChannelClosed):
        agent.send(StatusRequest())


def test_silence_is_a_timeout() -> None:
    """A wait for a message ends with ChannelTimeout after the channel's timeout."""
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with theirs, pytest.raises(ChannelTimeout):
        Channel(ours, 0.01).receive()
    ours.close()


def test_a_message_has_a_limit() -> None:
    """The channel refuses a message over 64 MiB before it allocates memory for it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    theirs.sendall(b"\xff\xff\xff\xff")
    with theirs, pytest.raises(AgentError, match="larger than"):
        Channel(ours, 5).receive()
    ours.close()


def test_a_message_that_is_too_large_is_not_sent(
    channels: tuple[Channel, Channel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """``send`` raises AgentError. The channel stays usable for other messages."""
    monkeypatch.setattr(channel, "MESSAGE_BYTES_MAX", 1000)
    worker, agent = channels
    with pytest.raises(AgentError, match="larger than 1000"):
        worker.send(Greeting(version="x" * 2000, pid=1))
    worker.send(StatusRequest())

    assert (StatusRequest(), []) == agent.receive()


def test_the_user_at_the_other_side() -> None:
    """``peer_uid`` returns the user of the process at the other side."""
    left, right = socket.socketpair(socket.AF_UNIX)

    with left, right:
        assert os.getuid() == peer_uid(left)


def test_no_free_descriptor(channels: tuple[Channel, Channel]) -> None:
    """If the receiver may not open the descriptors of a message, ``receive`` raises AgentError.

    It closes those that the kernel has opened.
    """
    worker, agent = channels
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = lowest_free_descriptor()
    agent.send(StatusRequest(), [0, 1, 2])
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, limits[1]))
    try:
        with pytest.raises(AgentError, match=r"no free descriptor.*kfetch.agent=inline"):
            worker.receive()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    assert free == lowest_free_descriptor()


def lowest_free_descriptor() -> int:
    """The number that the next descriptor of this process gets."""
    os.close(free := os.dup(0))
    return free


@pytest.mark.parametrize(
    "body",
    [
        b"ckfetch.agent.no_such_module\nGreeting\n.",
        b"ckfetch.agent.channel\nNoSuchMessage\n.",
        b"no pickle",
    ],
)
def test_a_message_of_another_release(body: bytes) -> None:
    """A message of a class that this release lacks raises AgentError, which says what to do."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(struct.pack(">I", len(body)) + body)

        with pytest.raises(AgentError, match=r"another release of kfetch .*: restart the executor"):
            Channel(ours, 5).receive()
