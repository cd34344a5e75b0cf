"""Retries with exponential back-off and jitter, up to a deadline.

Deadlines are times of ``time.monotonic``.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Collection
from typing import TypeVar

from kfetch.backoff import Backoff
from kfetch.errors import (
    AuthenticationFailed,
    BrokerError,
    ConnectionLost,
    KfetchError,
    TlsFailed,
    WrongListener,
)
from kfetch.options import NetworkOptions

log = logging.getLogger(__name__)

T = TypeVar("T")


LASTING = (WrongListener, TlsFailed)
"""Errors that name a mistake in options, certificates or listeners. A retry alone can't help."""

JITTER = 0.2
"""The part by which a pause is shorter or longer, at random (KIP-580)."""


def longest_pause_s(options: NetworkOptions) -> float:
    """Returns the longest pause in seconds, jitter included."""
    return options.retry_backoff_max_s * (1 + JITTER)


class RetryPauses:
    """Pauses that double from ``retry_backoff_s`` to ``retry_backoff_max_s``, with ``JITTER``.

    They are those of KIP-580. If the first one is set longer than the longest one, every pause is
    the longest one.
    """

    def __init__(self, options: NetworkOptions) -> None:
        longest_s = options.retry_backoff_max_s
        self._backoff = Backoff(min(options.retry_backoff_s, longest_s), longest_s)
        self.tries = 0
        """Pauses so far, which is the number of failed tries."""

    def wait(self, deadline: float) -> bool:
        """Sleeps for the next pause. Returns False, without a sleep, if it passes the deadline."""
        pause_s = self.next_pause_s()
        if time.monotonic() + pause_s >= deadline:
            return False
        time.sleep(pause_s)
        return True

    def next_pause_s(self) -> float:
        """Returns the next pause in seconds, for callers that wait on their own."""
        pause_s = self._backoff.pause * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - jitter, no secret
        self.tries += 1
        self._backoff = self._backoff.doubled()
        return pause_s


class PacedRepair:
    """Says when a repair is due: at once for a new fault, and after a pause if a fault returns.

    The pauses grow while faults return. They start again once all faults have stayed away for the
    longest pause.
    """

    def __init__(self, options: NetworkOptions) -> None:
        self._options = options
        self._pauses = RetryPauses(options)
        self._repaired: set[object] = set()
        self._pause_s = 0.0
        self._due_at = 0.0

    def is_due(self, now: float, faults: Collection[object]) -> bool:
        """Returns whether to repair ``faults`` now. Then the caller does so, and calls ``ended``.

        ``now``: a time of ``time.monotonic``. ``faults``: all present ones; there may be none.
        """
        if not faults:
            if now >= self._due_at + self._options.retry_backoff_max_s:
                self._pauses, self._repaired = RetryPauses(self._options), set()
            return False
        if now < self._due_at and self._repaired.issuperset(faults):
            return False
        self._repaired.update(faults)
        self._pause_s = self._pauses.next_pause_s()
        self.ended(now)
        return True

    def ended(self, now: float) -> None:
        """Starts the pause at ``now``, because the repair has ended: it may take long."""
        self._due_at = now + self._pause_s


def may_retry(cause: KfetchError) -> bool:
    """Returns whether the same request may succeed later: the error says so, or is no broker's."""
    return bool(cause.where.get("retriable", not isinstance(cause, BrokerError)))


def clearer(first: KfetchError | None, cause: KfetchError) -> KfetchError:
    """Returns the first cause, or ``cause`` if there was none or if it tells more.

    It does if it alone names a mistake, or if no retry can help after it.
    """
    if first is None or _clarity(cause) > _clarity(first):
        return cause
    return first


def _clarity(cause: KfetchError) -> int:
    if isinstance(cause, AuthenticationFailed):
        return 2
    return int(isinstance(cause, LASTING))


def retrying(
    action: str,
    attempt: Callable[[], T],
    options: NetworkOptions,
    deadline: float,
    give_up_at: float | None = None,
    reason: str = "",
) -> T:
    """Calls ``attempt`` until it works or the deadline comes.

    Only lost connections and retriable broker errors are tried again.

    ``action``: the words for the attempt in the error.
    ``give_up_at``: the caller's deadline. If it is later, the warning counts up to it.
    ``reason``: the end of the warning, why the caller waits so long.

    Raises the first cause if no attempt works. A later cause of ``LASTING`` replaces it.
    """
    pauses = RetryPauses(options)
    first_cause: KfetchError | None = None
    while True:
        try:
            return attempt()
        except (ConnectionLost, BrokerError) as cause:
            if not may_retry(cause):
                raise
            if clearer(first_cause, cause) is cause:
                first_cause = cause
                _warn(cause, max(deadline, give_up_at or 0.0) - time.monotonic(), reason)
            if not pauses.wait(deadline):
                raise _with_tries(action, pauses.tries, clearer(first_cause, cause)) from None


def _warn(cause: KfetchError, remaining_s: float, reason: str) -> None:
    if remaining_s > 0:
        because = f", because {reason}" if reason else ""
        log.warning("kfetch: %s; trying again for %.0f s%s", cause.message, remaining_s, because)


def _with_tries(action: str, tries: int, first_cause: KfetchError) -> KfetchError:
    """Returns the first cause, of its own class, with the action and the tries in front."""
    return first_cause.behind(f"{action}: no success in {tries} tries; the first cause")
