"""What happens while reading, as frozen facts; whoever wants to know is a sink.

A fetcher tells its requests, replies and session's moves, a reading what it decoded, a lane that it
had to wait for memory. ``stats.Totals`` adds facts up, ``story`` writes them to the log at DEBUG.
A sink is called in the thread where the fact happened, must be quick, and must not raise.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from kfetch.model import Broker
from kfetch.session.transitions import SessionEvent

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """A connection to a broker was opened."""

    broker: Broker

    def __str__(self) -> str:
        return f"{self.broker}: connected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requested:
    """A fetch request was sent."""

    broker: Broker
    session_id: int
    epoch: int
    full: bool
    """Whether it named every partition; else only what changed."""
    named: int
    """Partitions in it."""
    forgotten: int
    size: int
    """Bytes on the wire."""

    def __str__(self) -> str:
        kind = "full" if self.full else "incremental"
        return (
            f"{self.broker}: {kind} fetch ({self.session_id}, {self.epoch}) of {self.size} bytes "
            f"names {self.named} partitions and forgets {self.forgotten}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Replied:
    """The reply to a fetch request arrived."""

    broker: Broker
    size: int
    """Bytes on the wire."""
    partitions: int
    """Partitions in it: those that moved, in an incremental session."""
    wait_s: float
    """Since the request was sent: the broker's long poll, or our own other work."""

    def __str__(self) -> str:
        return (
            f"{self.broker}: {self.size} bytes of {self.partitions} partitions "
            f"after {self.wait_s * 1000:.1f} ms"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionMoved:
    """A reply, or its absence, did this to the fetch session."""

    broker: Broker
    event: SessionEvent
    session_id: int
    """Id for the next request, or the one that is over; 0 if there was none."""
    partitions: int
    """Partitions that the session holds now."""
    problem: str = ""

    def __str__(self) -> str:
        why = f": {self.problem}" if self.problem else ""
        return (
            f"{self.broker}: session {self.session_id} {self.event.value}, "
            f"{self.partitions} partitions{why}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """Record batches became an Arrow batch."""

    records: int
    size: int
    """Raw bytes, as received."""
    seconds: float

    def __str__(self) -> str:
        return f"{self.records} records of {self.size} bytes decoded in {self.seconds * 1e3:.1f} ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A damaged record batch was left out (``kfetch.onCorruptBatch=skip``)."""

    problem: str

    def __str__(self) -> str:
        return f"left out: {self.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Starved:
    """A request could not be sent for want of memory (``kfetch.agent.memory``)."""

    broker: Broker
    seconds: float

    def __str__(self) -> str:
        return f"{self.broker}: waited {self.seconds:.2f} s for memory"


Fact = Connected | Requested | Replied | SessionMoved | Decoded | Skipped | Starved
Sink = Callable[[Fact], None]


def story(fact: Fact) -> None:
    """The sink that tells a session's story in the log, at DEBUG."""
    log.debug("%s", fact)
