"""Events of fetching, as frozen values for event handlers.

A fetcher reports its requests, its replies and changes of its session. A SplitReader reports
decoded and skipped batches, and records that it could not decode. A BrokerThread reports waits for
memory. ``totals.Totals`` adds events up, and ``log_event`` writes them to the log at DEBUG. A
handler runs in the thread of the event. It must be quick and must not raise.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kfetch.model import Broker
from kfetch.session.transitions import SessionEvent

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """The fetcher opened a connection to a broker."""

    broker: Broker

    def __str__(self) -> str:
        return f"{self.broker}: connected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requested:
    """The fetcher sent a fetch request."""

    broker: Broker
    session_id: int
    epoch: int
    full: bool
    """Whether the request names every partition, or only changed ones."""
    partitions: int
    """Number of partitions that the request names."""
    forgotten: int
    """Number of partitions that the request removes from the session."""
    size: int
    """Bytes on the wire."""

    def __str__(self) -> str:
        kind = "full" if self.full else "incremental"
        return (
            f"{self.broker}: {kind} fetch ({self.session_id}, {self.epoch}) of {self.size} bytes "
            f"names {self.partitions} partitions and forgets {self.forgotten}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Replied:
    """The reply to a fetch request arrived."""

    broker: Broker
    size: int
    """Bytes on the wire."""
    partitions: int
    """Number of partitions in the reply; in an incremental session, those with changes."""
    wait_s: float
    """Seconds since the request was sent: the broker's long poll, or our own other work."""
    other_rack_bytes: int = 0
    """Bytes of record batches that came from another rack than the reader's."""

    def __str__(self) -> str:
        return (
            f"{self.broker}: {self.size} bytes of {self.partitions} partitions "
            f"after {self.wait_s * 1000:.1f} ms"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionChanged:
    """A reply, or a lost reply, changed the fetch session."""

    broker: Broker
    event: SessionEvent
    session_id: int
    """Id for the next request, or the id of the ended session; 0 if there was none."""
    partitions: int
    """Number of partitions that the session holds now."""
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
class BatchSkipped:
    """The decoder skipped a damaged record batch (``kfetch.onCorruptBatch=skip``)."""

    problem: str

    def __str__(self) -> str:
        return f"skipped: {self.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecoded:
    """Keys or values of some records of a topic could not be decoded, for one reason."""

    topic: str
    kind: str
    """The column and the reason, without the place in the value and without its bytes."""
    records: int

    def __str__(self) -> str:
        return f"{self.topic}: {self.records} records could not be decoded: {self.kind}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownFields:
    """A sample of records was examined for fields that their schema lacks."""

    topic: str
    fields: Mapping[str, int]
    """Names with their column in front, and the number of sampled records that have them."""
    sampled: int
    """Keys and values that were examined."""

    def __str__(self) -> str:
        names = ", ".join(self.fields) or "none"
        return f"{self.topic}: unknown fields in {self.sampled} sampled values: {names}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitedForMemory:
    """A request waited for memory (``kfetch.agent.memory``) and has it now."""

    broker: Broker
    seconds: float

    def __str__(self) -> str:
        return f"{self.broker}: waited {self.seconds:.2f} s for memory"


FetchEvent = (
    Connected
    | Requested
    | Replied
    | SessionChanged
    | Decoded
    | BatchSkipped
    | Undecoded
    | UnknownFields
    | WaitedForMemory
)
EventHandler = Callable[[FetchEvent], None]


def log_event(event: FetchEvent) -> None:
    """The event handler that writes to the log, at DEBUG."""
    log.debug("%s", event)
