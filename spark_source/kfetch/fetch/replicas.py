"""Where a partition is read: at its leader, or at a follower in the same rack (KIP-392). Pure.

Only the leader may name a follower, and only a request with a rack asks it to. Each answer counts
for one period (``kafka.metadata.max.age.ms``). Then the leader is asked again:

    not asked  -- the leader names a follower --> at the follower -- period over --> not asked
    not asked  -- the leader names none       --> at the leader   -- period over --> not asked
    at the follower -- an error, or no news   --> at the leader

So a follower that fails is not tried again within the period. An answer belongs to one leader and
its epoch. A new leader is asked at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from kfetch.model import Broker, Leader


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaChoice:
    """Where one partition is read, as its leader or an error has decided."""

    leader: Leader
    """The leader that was asked."""
    follower: Broker | None = None
    """The follower to read from; None for the leader."""
    until: float
    """Monotonic seconds. From then on the choice is over."""

    def holds(self, leader: Leader, now: float) -> bool:
        """Returns whether the choice counts for a range that knows this leader."""
        return now < self.until and _same(self.leader, leader)


def redirected(
    choice: ReplicaChoice | None,
    leader: Leader,
    follower: Broker,
    *,
    now: float,
    period_s: float,
    forced: bool,
) -> ReplicaChoice | None:
    """Returns the choice after the leader named a follower.

    ``forced``: the leader names it although nobody asked, so it would send no records. Otherwise
    a choice for the leader holds until its end: it may be younger than the question.
    """
    if _is_outdated(choice, leader):
        return choice
    if choice and choice.follower is None and choice.holds(leader, now) and not forced:
        return choice
    return ReplicaChoice(leader=leader, follower=follower, until=now + period_s)


def kept(
    choice: ReplicaChoice | None, leader: Leader, *, now: float, period_s: float
) -> ReplicaChoice | None:
    """Returns the choice after the leader was asked, and named no follower."""
    if _is_outdated(choice, leader):
        return choice
    return ReplicaChoice(leader=leader, until=now + period_s)


def left(
    choice: ReplicaChoice | None,
    leader: Leader,
    follower: Broker,
    *,
    now: float,
    period_s: float,
) -> ReplicaChoice | None:
    """Returns the choice after a follower failed, or had no news of records that exist."""
    if _is_outdated(choice, leader):
        return choice
    if choice and choice.holds(leader, now) and choice.follower not in (None, follower):
        return choice  # another follower, which the leader has named since
    return ReplicaChoice(leader=leader, until=now + period_s)


def _is_outdated(choice: ReplicaChoice | None, leader: Leader) -> bool:
    """Returns whether an answer comes from a leader that has a successor already."""
    return choice is not None and leader.is_older_than(choice.leader.epoch)


def _same(one: Leader, other: Leader) -> bool:
    return (one.broker.node_id, one.epoch) == (other.broker.node_id, other.epoch)
