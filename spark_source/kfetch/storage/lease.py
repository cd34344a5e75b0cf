"""Who may write a checkpoint: the rules of its lease. Pure: times and versions are arguments.

A lease is a small file beside the checkpoint. Its holder writes a new version of it every ten
seconds. Each version replaces the one before only if that is unchanged, so nobody overwrites a
lease unseen. Each new holder has a higher ``epoch``.

The clocks of hosts differ, so nobody compares a time in the file with a clock. A waiter measures by
its own clock how long the file stays unchanged. After the holder's whole lease and a margin, it
takes over. For the holder, the lease begins before the request that confirmed it. So the holder's
lease ends before the waiter's wait.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

LENGTH_S = 30.0
"""How long a lease lasts without renewal, in seconds."""
LENGTH_MAX_S = 600.0
"""The longest lease that a waiter believes."""
_RENEWALS = 3
"""A holder renews so many times within one lease."""
_MARGIN = 1 / 3
"""A waiter waits this share of a lease longer than the lease.

Meanwhile the kernel ends the holder, and the store carries out the holder's last requests.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process that holds a lease, or asks for one."""

    id: str
    """Random, and new for each lease."""
    host: str
    """The host's name, for people."""
    machine: str
    """The boot of its kernel and the namespace of its process ids; empty if unknown."""
    pid: int
    started: str
    """When the process started, in its machine's own units; empty if unknown."""
    purpose: str
    """What it does, such as ``run of job clicks``."""

    def __str__(self) -> str:
        return f"process {self.pid} on host {self.host} ({self.purpose})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The content of a lease."""

    epoch: int
    """Grows by one with each holder. A damaged file starts again at 0."""
    holder: Holder | None
    """None if nobody holds it."""
    since_s: float
    """When it was taken or released, in seconds since 1970, by the clock of that host."""
    length_s: float
    renewals: int = 0

    def content(self) -> bytes:
        """Returns the file's bytes."""
        return json.dumps({"version": 1, **asdict(self)}, indent=1).encode()

    def renewed(self) -> Lease:
        """Returns the next version by the same holder."""
        return replace(self, renewals=self.renewals + 1)

    def released(self, now_s: float) -> Lease:
        """Returns the version that ends the lease. ``now_s``: seconds since 1970."""
        return replace(self.renewed(), holder=None, since_s=now_s)

    @property
    def since(self) -> str:
        """``since_s`` for people."""
        return f"{datetime.fromtimestamp(self.since_s, UTC):%Y-%m-%d %H:%M:%S} UTC"


def parse(content: bytes) -> Lease | None:
    """Returns the lease in a file; None if the content is damaged, so that its holder is unknown.

    Ignores keys that it does not know.
    """
    try:
        fields = json.loads(content)
        holder = fields["holder"]
        lease = Lease(
            epoch=int(fields["epoch"]),
            holder=None if holder is None else _holder(holder),
            since_s=float(fields["since_s"]),
            length_s=min(float(fields["length_s"]), LENGTH_MAX_S),
            renewals=int(fields["renewals"]),
        )
        # ``since`` raises an error for a time beyond the calendar. A NaN is not 0 or more.
        return lease if lease.since and lease.length_s >= 0 else None
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _holder(fields: Any) -> Holder:
    texts = {name: str(fields[name]) for name in ("id", "host", "machine", "started", "purpose")}
    return Holder(pid=int(fields["pid"]), **texts)


def taken(before: Lease | None, holder: Holder, length_s: float, now_s: float) -> Lease:
    """Returns the lease of a new holder. ``now_s``: seconds since 1970."""
    epoch = before.epoch + 1 if before else 1
    return Lease(epoch=epoch, holder=holder, since_s=now_s, length_s=length_s)


class Life(StrEnum):
    """What this process knows about a holder."""

    ALIVE = "alive"
    """It is a process of this machine, and runs, or is stopped and may go on."""
    DEAD = "dead"
    """It was a process of this machine, and has ended."""
    UNKNOWN = "unknown"
    """It is on another machine."""


@dataclass(frozen=True, slots=True)
class Sight:
    """A version of a lease, as a waiter sees it."""

    token: str
    lease: Lease | None
    """None if its content is damaged."""
    at: float
    """When the waiter had first read this version, in seconds of its own clock."""

    def ends_at(self) -> float:
        """Returns when the version has been unchanged for long enough."""
        return self.at + (self.lease.length_s if self.lease else LENGTH_S) * (1 + _MARGIN)


def seen(before: Sight | None, token: str, content: bytes, now: float) -> Sight:
    """Returns what a waiter sees. ``now``: after the read, in seconds of its own clock.

    The wait for a damaged version goes on: without hard links, it may have been read half written.
    On a disk, the lease of another holder may have the same token after the directory was removed.
    """
    lease = parse(content)
    if before and before.token == token and before.lease in (None, lease):
        return Sight(token, lease, before.at)
    return Sight(token, lease, now)


class Decision(StrEnum):
    """What a waiter does next."""

    TAKE = "take"
    WAIT = "wait"
    REFUSE = "refuse"


def judge(first: Sight, sight: Sight, life: Life, now: float) -> Decision:
    """Returns what a waiter does.

    ``first`` is what it saw first, and ``sight`` what it sees now. ``life`` is that of the holder
    in ``sight``. A version that somebody has just written shows that its holder lives.
    """
    if sight.lease is not None and sight.lease.holder is None:
        return Decision.TAKE
    if life is Life.DEAD:
        return Decision.TAKE
    if life is Life.ALIVE or sight.token != first.token:
        return Decision.REFUSE
    return Decision.TAKE if now >= sight.ends_at() else Decision.WAIT


@dataclass(frozen=True, slots=True)
class Term:
    """How long the holder of a lease may go on, in seconds of its own clock."""

    confirmed_at: float
    """Before the request that wrote the last version."""
    length_s: float

    @property
    def renew_at(self) -> float:
        """When the holder writes the next version."""
        return self.confirmed_at + self.length_s / _RENEWALS

    @property
    def stop_at(self) -> float:
        """When the holder stops its work if it could not renew the lease."""
        return self.confirmed_at + self.length_s * (_RENEWALS - 1) / _RENEWALS

    @property
    def ends_at(self) -> float:
        """When the holder must not write any more."""
        return self.confirmed_at + self.length_s

    @property
    def look_s(self) -> float:
        """How often the holder looks whether another process has taken over."""
        return self.length_s / 30

    @property
    def retry_s(self) -> float:
        """How long the holder waits after a renewal that failed. A request takes no longer."""
        return self.length_s / 15
