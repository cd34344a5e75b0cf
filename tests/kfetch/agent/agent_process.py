"""Real agent processes: connects to them, asks for their status, finds them."""

from __future__ import annotations

import psutil

from kfetch.agent import launch
from kfetch.agent.channel import Channel, Status, StatusRequest
from kfetch.agent.home import AgentFiles, ProcessIdentity

MEMORY = 64 << 20


def connect(files: AgentFiles, owner: ProcessIdentity, memory: int = MEMORY) -> Channel:
    """A channel to the owner's agent."""
    return launch.connect(files, owner, memory=memory, timeout_s=30)


def status(channel: Channel) -> Status:
    """The status of the agent at the other end. Closes the channel."""
    channel.send(StatusRequest())
    answer, _ = channel.receive()
    channel.close()
    assert isinstance(answer, Status)
    return answer


def agents_of(owner: ProcessIdentity) -> list[psutil.Process]:
    """The agents that serve an owner."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if {"kfetch.agent", str(owner)} <= {*(process.info["cmdline"] or ())}
    ]
