"""How long a refused client fetches without a session before it asks again.

A broker whose session cache is full answers a request for a session with id 0. Asking with every
fetch would flood the cache: each such request may evict somebody, and makes the broker build a
session only to drop it. So the client waits, counted in fetches because the core has no clock:
1 sessionless fetch after the first refusal, then 2, 4, … up to 64 between two askings.
"""

from __future__ import annotations

from dataclasses import dataclass

WAIT_FETCHES_MAX = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Refusals so far and fetches still to wait."""

    refusals: int = 0
    """Refusals since a session was last opened."""
    wait_fetches: int = 0
    """Sessionless fetches to be answered before the next asking."""

    @property
    def over(self) -> bool:
        """Whether a session may be asked for."""
        return self.wait_fetches == 0

    def refused(self) -> Backoff:
        """After one more refusal: wait twice as long as after the one before."""
        wait = min(2 ** min(self.refusals, WAIT_FETCHES_MAX), WAIT_FETCHES_MAX)
        return Backoff(refusals=self.refusals + 1, wait_fetches=wait)

    def waited(self) -> Backoff:
        """After one more answered sessionless fetch."""
        return Backoff(refusals=self.refusals, wait_fetches=max(0, self.wait_fetches - 1))

    def opened(self) -> Backoff:
        """After a session was opened: all is forgiven."""
        return Backoff()
