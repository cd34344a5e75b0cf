"""How long a refused client fetches without a session before it asks for one again.

A broker refuses a session when its session cache is full: it answers with session id 0. A client
that asked with every fetch would flood the cache. Each such request may evict another client's
session, and the broker builds a session only to drop it. So the client waits. It counts fetches,
because the core has no clock: 1 sessionless fetch after the first refusal, then 2, 4, … up to 64.
"""

from __future__ import annotations

from dataclasses import dataclass

from kfetch.backoff import Backoff

WAIT_FETCHES_MAX = 64

_FIRST = Backoff(1, WAIT_FETCHES_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalBackoff:
    """The sessionless fetches that remain before the client asks for a session again."""

    remaining_fetches: int = 0
    """Sessionless fetches that the broker must still answer."""
    after_next_refusal: Backoff = _FIRST
    """How many fetches the next refusal costs."""

    @property
    def is_over(self) -> bool:
        """Whether the client may ask for a session."""
        return self.remaining_fetches == 0

    def refused(self) -> RefusalBackoff:
        """Returns the value after a refusal: wait twice as long as after the refusal before."""
        return RefusalBackoff(
            remaining_fetches=int(self.after_next_refusal.pause),
            after_next_refusal=self.after_next_refusal.doubled(),
        )

    def fetched(self) -> RefusalBackoff:
        """Returns the value after the broker answered one more sessionless fetch."""
        return RefusalBackoff(
            remaining_fetches=max(0, self.remaining_fetches - 1),
            after_next_refusal=self.after_next_refusal,
        )

    def opened(self) -> RefusalBackoff:
        """Returns the value after the broker opened a session: the series starts anew."""
        return RefusalBackoff()
