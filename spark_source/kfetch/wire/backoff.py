"""Waiting between tries: exponential, with jitter, never past a deadline."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import TypeVar

from kfetch.errors import BrokerError, ConnectionLost, KfetchError
from kfetch.options import NetworkOptions

log = logging.getLogger(__name__)

T = TypeVar("T")


class Backoff:
    """Pauses that double from ``retry_backoff_s`` to ``retry_backoff_max_s``, +-20 % (KIP-580)."""

    def __init__(self, options: NetworkOptions) -> None:
        self._options = options
        self._pause_s = options.retry_backoff_s
        self.tries = 0

    def wait(self, deadline: float) -> bool:
        """Sleep for the next pause; False, at once, if that would pass the deadline."""
        pause_s = self.pause_s()
        if time.monotonic() + pause_s >= deadline:
            return False
        time.sleep(pause_s)
        return True

    def pause_s(self) -> float:
        """The next pause, in seconds, for who waits in another way."""
        pause_s = self._pause_s * random.uniform(0.8, 1.2)  # noqa: S311 - jitter, not a secret
        self.tries += 1
        self._pause_s = min(2 * self._pause_s, self._options.retry_backoff_max_s)
        return pause_s


def retrying(
    what: str,
    attempt: Callable[[], T],
    options: NetworkOptions,
    deadline: float,
    gives_up: float | None = None,
) -> T:
    """Call ``attempt`` until it works, or the deadline comes: then tell the first cause.

    Only lost connections and retriable broker errors are tried again. ``gives_up`` is when the
    caller does, if that is later: the warning tells how long all of it may take.
    """
    backoff = Backoff(options)
    first: KfetchError | None = None
    while True:
        try:
            return attempt()
        except (ConnectionLost, BrokerError) as cause:
            if isinstance(cause, BrokerError) and not cause.where.get("retriable"):
                raise
            if first is None:
                now = time.monotonic()
                left_s = max(deadline, gives_up or 0.0, now) - now
                if left_s > 0:
                    log.warning("kfetch: %s; trying again for %.0f s", cause.message, left_s)
            first = first or cause
            if not backoff.wait(deadline):
                raise _gave_up(what, backoff.tries, first) from None


def _gave_up(what: str, tries: int, first: KfetchError) -> KfetchError:
    """The first cause again, of its own class, with what was tried in front."""
    return first.behind(f"{what}: no success in {tries} tries; the first cause")
