"""Faults planted on purpose, to see whether the simulation of leases finds them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from unittest.mock import patch

from kfetch.errors import LeaseLost
from kfetch.storage.lease import LENGTH_S, Sight
from kfetch.storage.lease_holder import HeldLease
from simulation.leases import hosts


@contextmanager
def lease_renewed_after_its_end() -> Iterator[None]:
    """A holder that slept renews its lease, although a waiter may be about to take it."""

    def check_term(self: HeldLease) -> None:
        if self._lost:
            raise LeaseLost(self._lost)

    with patch.object(HeldLease, "_check_term", check_term):
        yield


@contextmanager
def no_look_before_a_commit() -> Iterator[None]:
    """A host that slept commits, although another one has the lease."""
    with patch.object(hosts, "before_commit", lambda _: None):
        yield


@contextmanager
def check_that_reads_only_the_clock() -> Iterator[None]:
    """The clock of a machine that was paused whole knows nothing of another holder."""
    with patch.object(HeldLease, "check", lambda self: self._check_term()):
        yield


@contextmanager
def waiter_without_patience() -> Iterator[None]:
    """A waiter takes a lease over that lay still for half of its time."""
    with patch.object(Sight, "ends_at", lambda self: self.at + LENGTH_S / 2):
        yield


PLANTED: dict[str, Callable[[], AbstractContextManager[None]]] = {
    fault.__name__.replace("_", "-"): fault
    for fault in (
        lease_renewed_after_its_end,
        no_look_before_a_commit,
        check_that_reads_only_the_clock,
        waiter_without_patience,
    )
}
