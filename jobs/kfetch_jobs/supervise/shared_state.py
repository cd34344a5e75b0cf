"""What the supervisors of several hosts share, as values: the leader's state, and its inbox. Pure.

The leader alone writes the state. Each new leader has a higher epoch, and writes it before anything
else. So the store refuses what an earlier leader still writes, because it names an older version.

All other hosts write the inbox: orders for the leader, and which of them wait for the lead.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, TypeVar

RUNS_SHARED = 50
"""How many runs of each job another host gets to know. The page lists 25."""
ORDERS_MAX = 100
"""Limit of orders in the inbox, and of replies in the state."""
_WAITING_MAX = 20
_GONE_S = 60.0
"""A host that waits says so every ten seconds. After a minute without that, nobody names it."""


_WITHOUT_STATE = (
    "Remove it. If no host leads, start kfetch up first on the host that led last: its database "
    "has the states of the jobs"
)
_WITHOUT_INBOX = "Remove it, and give the orders again that no leader has carried out"


class StateVersion(NamedTuple):
    """Which state of which history a database has."""

    history: str
    """Begins with the first state at a place. Versions of two histories are not comparable."""
    epoch: int
    change: int


NO_STATE = StateVersion("", 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedState:
    """What a leader knows about its jobs, with which the next one goes on."""

    history: str
    """See ``StateVersion``."""
    leader: str
    """Differs for each time that a process leads."""
    epoch: int
    """Grows by one with each leader."""
    change: int
    """Grows by one with each write of a leader."""
    place: str
    """The leader's host and storage: where the processes of its runs are."""
    tables: Mapping[str, Sequence[Mapping[str, Any]]]
    """Rows of the leader's database, by table."""

    def of_other_environment(self, environment: str | None) -> str:
        """Returns why a project with this environment must not go on with it; nothing if it may."""
        theirs = [row["environment"] for row in self.tables["supervisor"]]
        if theirs in ([], [environment]):
            return ""
        return f"it belongs to the environment {theirs[0] or '(none)'}: give each its own place"

    @property
    def ended_s(self) -> float | None:
        """When the leader ended all jobs; None if it had no time for that."""
        return next((row["ended_s"] for row in self.tables["supervisor"]), None)

    def content(self) -> bytes:
        """Returns the file's bytes."""
        return zlib.compress(json.dumps({"version": 1, **asdict(self)}).encode())

    @property
    def version(self) -> StateVersion:
        """Which state this is."""
        return StateVersion(self.history, self.epoch, self.change)

    def replaces(self, known: StateVersion) -> bool:
        """Returns whether a database with a known state must load this one."""
        return self.history != known.history or self.version > known

    def claimed(self, leader: str) -> SharedState:
        """Returns the same state with the epoch of the next leader."""
        return replace(self, leader=leader, epoch=self.epoch + 1, change=0)


def parse_state(content: bytes) -> SharedState:
    """Returns the state in a file. Ignores keys that it does not know. Raises ValueError."""
    try:
        fields = json.loads(zlib.decompress(content))
        return SharedState(**{name: fields[name] for name in SharedState.__slots__})
    except (ValueError, KeyError, TypeError, zlib.error) as cause:
        raise ValueError(f"it is damaged ({cause}). {_WITHOUT_STATE}") from cause


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedOrder:
    """An order that a command on another host has given."""

    id: str
    job: str
    order: str
    ends_s: float | None = None
    """No leader carries it out after this moment; None: it waits for the next leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingHost:
    """A supervisor that waits for the lead."""

    place: str
    host: str
    pid: int
    since_s: float
    seen_s: float
    """When it last said so. Like ``since_s``, by the clock of its host."""

    def __str__(self) -> str:
        return f"process {self.pid} on host {self.host}"


_Record = TypeVar("_Record", SharedOrder, WaitingHost)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbox:
    """What the other hosts have written for the leader, and for each other."""

    orders: tuple[SharedOrder, ...] = ()
    waiting: tuple[WaitingHost, ...] = ()

    def content(self, unique: str) -> bytes:
        """Returns the file's bytes. ``unique`` makes them differ from those of any other write."""
        return json.dumps({"version": 1, "unique": unique, **asdict(self)}, indent=1).encode()

    def with_orders(self, orders: Sequence[SharedOrder]) -> Inbox:
        """Returns the inbox with more orders. Raises ValueError if there are too many."""
        if len(self.orders) + len(orders) > ORDERS_MAX:
            raise ValueError(f"{len(self.orders)} orders wait for a supervisor")
        return replace(self, orders=(*self.orders, *orders))

    def without_orders(self, replied: Collection[str]) -> Inbox:
        """Returns the inbox without the orders that have a reply."""
        left = (one for one in self.orders if one.id not in replied)
        return replace(self, orders=tuple(left))

    def with_waiting(self, host: WaitingHost) -> Inbox:
        """Returns the inbox with what a waiting host says about itself."""
        others = self.without_waiting(host.place).waiting_now(host.seen_s)
        return replace(self, waiting=(*others, host)[-_WAITING_MAX:])

    def without_waiting(self, place: str) -> Inbox:
        """Returns the inbox without a host that waits no longer."""
        return replace(self, waiting=tuple(one for one in self.waiting if one.place != place))

    def waiting_now(self, now_s: float) -> tuple[WaitingHost, ...]:
        """Returns the hosts that have said within a minute that they wait."""
        return tuple(one for one in self.waiting if now_s - one.seen_s < _GONE_S)


def parse_inbox(content: bytes | None) -> Inbox:
    """Returns the inbox in a file, or an empty one for None. Raises ValueError."""
    if content is None:
        return Inbox()
    try:
        fields = json.loads(content)
        return Inbox(
            orders=tuple(_known(SharedOrder, one) for one in fields["orders"]),
            waiting=tuple(_known(WaitingHost, one) for one in fields["waiting"]),
        )
    except (ValueError, KeyError, TypeError) as cause:
        raise ValueError(f"it is damaged ({cause}). {_WITHOUT_INBOX}") from cause


def _known(kind: type[_Record], fields: Mapping[str, Any]) -> _Record:
    return kind(**{name: fields[name] for name in kind.__slots__ if name in fields})


def leads_no_longer(place: str) -> str:
    """Returns the sentence for runs of an earlier leader at another place."""
    host = place.partition(":")[0]
    return f"the supervisor of host {host} leads no longer, and its runs have ended"
