"""Retries: the pauses, with exponential back-off and jitter, and the policies that name them.

A client asks by one policy, ``Retries``. Deadlines are times of ``time.monotonic``.
"""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
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
from kfetch.options import NetworkOptions, SourceOptions

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
    """Pauses that double from the first one to the longest one, with ``JITTER`` (KIP-580).

    If the first one is set longer than the longest one, every pause is the longest one.
    """

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._backoff = Backoff(min(first_s, longest_s), longest_s)
        self.tries = 0
        """Pauses so far, which is the number of failed tries."""

    @classmethod
    def of(cls, options: NetworkOptions) -> RetryPauses:
        """Returns the pauses between requests to brokers."""
        return cls(options.retry_backoff_s, options.retry_backoff_max_s)

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
        self._pauses = RetryPauses.of(options)
        self._repaired: set[object] = set()
        self._pause_s = 0.0
        self._due_at = 0.0

    def is_due(self, now: float, faults: Collection[object]) -> bool:
        """Returns whether to repair ``faults`` now. Then the caller does so, and calls ``ended``.

        ``now``: a time of ``time.monotonic``. ``faults``: all present ones; there may be none.
        """
        if not faults:
            if now >= self._due_at + self._options.retry_backoff_max_s:
                self._pauses, self._repaired = RetryPauses.of(self._options), set()
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


@dataclass(frozen=True, slots=True)
class Round:
    """One round of tries, with growing pauses, up to a deadline."""

    retries: Retries
    deadline: float
    give_up_at: float
    """The end of the last round. Warnings count up to it."""

    def repeat(self, action: str, attempt: Callable[[], T]) -> T:
        """Calls ``attempt`` until it works or the deadline comes.

        Only lost connections and retriable broker errors are tried again.

        ``action``: the words for the attempt in the error.

        Raises the first cause if no attempt works. A later cause of ``LASTING`` replaces it.
        """
        pauses = RetryPauses.of(self.retries.network)
        first_cause: KfetchError | None = None
        while True:
            try:
                return attempt()
            except (ConnectionLost, BrokerError) as cause:
                if not may_retry(cause):
                    raise
                if clearer(first_cause, cause) is cause:
                    first_cause = cause
                    _warn(cause, self.give_up_at - time.monotonic(), self.retries.reason)
                if not pauses.wait(self.deadline):
                    tried = f"{action}: no success in {pauses.tries} tries; the first cause"
                    raise clearer(first_cause, cause).prefixed(tried) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """The policy of one client: how often, and how long, it asks a question again.

    A round lasts as long as a request may, and repeats the question with growing pauses.
    """

    network: NetworkOptions
    rounds: int = 1
    pause_s: float = 0.0
    """The pause between two rounds."""
    all_s: float = math.inf
    """The limit for all rounds together."""
    reason: str = ""
    """The end of a warning: why the client waits so long."""

    @classmethod
    def of_new_query(cls, options: SourceOptions) -> Retries:
        """Returns the policy without a checkpoint: ``fetchOffset.numRetries`` more rounds.

        ``kafka.default.api.timeout.ms`` limits them all.
        """
        return cls(
            network=options.network,
            rounds=1 + options.lookups.retries,
            pause_s=options.lookups.pause_s,
            all_s=options.lookups.timeout_s,
        )

    @classmethod
    def of_checkpoint(cls, options: SourceOptions) -> Retries:
        """Returns the policy of a query that goes on from a checkpoint. It may wait longer."""
        policy = cls.of_new_query(options)
        return replace(policy, all_s=math.inf, reason="the query has a checkpoint")

    def ask(self, action: str, attempt: Callable[[Round], T], deadline: float | None = None) -> T:
        """Repeats ``attempt`` in each round. See ``Round.repeat`` and ``in_rounds``."""
        return self.in_rounds(lambda now: now.repeat(action, lambda: attempt(now)), deadline)

    def in_rounds(self, question: Callable[[Round], T], deadline: float | None = None) -> T:
        """Calls ``question`` once in each round, until it works or the last round is over.

        ``deadline``: the caller's own. Then there is one round, up to it.
        """
        if deadline is not None:
            return question(Round(self, deadline, deadline))
        limit, left = time.monotonic() + self.all_s, self.rounds - 1
        while True:
            try:
                return question(self._round(limit, left))
            except (ConnectionLost, BrokerError) as cause:
                if not (left and self._has_time(limit) and may_retry(cause)):
                    raise
                log.warning("kfetch: %s (%d retries are left)", cause.message, left)
                left -= 1
                time.sleep(self.pause_s)

    def _round(self, limit: float, more: int) -> Round:
        round_s = self.network.request_timeout_s
        deadline = min(time.monotonic() + round_s, limit)
        return Round(self, deadline, min(deadline + more * (self.pause_s + round_s), limit))

    def _has_time(self, limit: float) -> bool:
        """Returns whether there is time for another round.

        A round ends up to one pause before its deadline. What is left then is no time for one.
        """
        return time.monotonic() + self.pause_s + longest_pause_s(self.network) < limit


def _warn(cause: KfetchError, remaining_s: float, reason: str) -> None:
    if remaining_s > 0:
        because = f", because {reason}" if reason else ""
        log.warning("kfetch: %s; trying again for %.0f s%s", cause.message, remaining_s, because)
