"""Keeps values of other services for all connections of this process: tokens and keys.

The first caller starts a thread that fetches. Every caller waits for it up to its own deadline, and
none holds a lock meanwhile. A fetch that hangs costs one thread, however many callers come. It may
hang for ever, as a function without a timeout does after a lost connection. So after a minute
another one may start, then after two minutes, and after an hour at most.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from kfetch.backoff import Backoff
from kfetch.errors import KfetchError, TokenUnavailable

log = logging.getLogger(__name__)

V = TypeVar("V")

_ENTRIES_MAX = 100
_RENEWAL_PAUSE_S = 10.0
"""A renewal that fails is not tried again for this time, while the old value is valid."""
_FETCH_SHARE = 0.9
"""A fetch ends before its first caller's deadline, so that the caller learns the cause."""
_HUNG_AFTER = Backoff(60.0, 3600.0)
"""How many seconds behind its deadline a fetch is given up. Each one leaves a thread behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched(Generic[V]):
    """A value, and its times in seconds of Unix time."""

    value: V
    renew_at: float
    expires_at: float


Fetch = Callable[[float], Fetched[V]]
"""Fetches a value up to a deadline of ``time.monotonic``."""


@dataclass(slots=True)
class _Entry(Generic[V]):
    fetched: Fetched[V] | None = None
    fetched_at: float = 0.0
    """When that was: monotonic seconds. The clock of Unix time may be set."""
    pending: Future[Fetched[V]] | None = None
    hung_at: float = 0.0
    """Monotonic time from which ``pending`` counts as hung."""
    patience: Backoff = field(default_factory=lambda: _HUNG_AFTER)


class Shared(Generic[V]):
    """Values by the settings that they belong to. Equal settings share a value."""

    def __init__(self, what: str) -> None:
        """``what``: the words for a value in errors."""
        self._what = what
        self._entries: dict[Hashable, _Entry[V]] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, fetch: Fetch[V], deadline: float) -> V:
        """Returns the value of a key, fetched once for all callers.

        ``fetch`` gets a deadline, and runs in a thread of its own. Deadlines are times of
        ``time.monotonic``. While an old value is valid, a failed renewal is only a warning, even
        if the other service refuses it: that may pass.

        Raises TokenUnavailable, and whatever error of kfetch ``fetch`` raises.
        """
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._forget_others(key)
            old, now = entry.fetched, time.time()
            if old is not None and now < old.renew_at:
                return old.value
            valid = old if old is not None and now < old.expires_at else None
            # With a valid value, the caller needs the rest of its time for something else.
            wait_s = max(0.0, deadline - time.monotonic()) * (0.5 if valid else 1.0)
            self._give_up_hung(entry)
            pending = entry.pending or self._start(entry, fetch, wait_s * _FETCH_SHARE)
        try:
            return _outcome(pending, wait_s, self._what).value
        except Exception as cause:
            now = time.time()  # the wait may have been long
            if valid is None or now >= valid.expires_at:
                raise
            text = cause.message if isinstance(cause, KfetchError) else type(cause).__name__
            log.warning("kfetch: %s; the old one is valid for a while", text)
            with self._lock:
                entry.fetched = entry.fetched and replace(
                    entry.fetched, renew_at=max(entry.fetched.renew_at, now + _RENEWAL_PAUSE_S)
                )
            return valid.value

    def forget(self, key: Hashable, value: V, since: float) -> bool:
        """Forgets a value that is of no use, unless the key has another one by now.

        Returns whether it was fetched before ``since``, a time of ``time.monotonic``: then another
        one may be of use.
        """
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return False
            if entry.fetched is None or entry.fetched.value != value:
                return True
            entry.fetched = None
            return entry.fetched_at < since

    def clear(self) -> None:
        """Forgets all values."""
        with self._lock:
            self._entries.clear()

    def _forget_others(self, key: Hashable) -> None:
        for other in [*self._entries][: max(0, len(self._entries) - _ENTRIES_MAX)]:
            if other != key:
                del self._entries[other]

    def _give_up_hung(self, entry: _Entry[V]) -> None:
        """Let another fetch start if the pending one hangs. Called with the lock."""
        if entry.pending is not None and time.monotonic() >= entry.hung_at:
            log.warning("kfetch: the last try to get %s hangs; kfetch starts another", self._what)
            entry.pending, entry.patience = None, entry.patience.doubled()

    def _start(self, entry: _Entry[V], fetch: Fetch[V], within_s: float) -> Future[Fetched[V]]:
        """Start to fetch. Called with the lock, which the thread takes only when it is done."""
        pending: Future[Fetched[V]] = Future()
        deadline = time.monotonic() + within_s

        def run() -> None:
            try:
                outcome: Fetched[V] | BaseException = fetch(deadline)
            except BaseException as cause:
                outcome = cause
            with self._lock:
                given_up = entry.pending is not pending
                if not given_up:
                    entry.pending = None
                if isinstance(outcome, Fetched):
                    if not given_up or _is_later(outcome, entry.fetched):
                        entry.fetched, entry.fetched_at = outcome, time.monotonic()
                    entry.patience = _HUNG_AFTER
            if isinstance(outcome, Fetched):
                pending.set_result(outcome)
            else:
                pending.set_exception(outcome)

        threading.Thread(target=run, name="kfetch-token", daemon=True).start()
        entry.pending, entry.hung_at = pending, deadline + entry.patience.pause
        return pending


def _is_later(late: Fetched[V], known: Fetched[V] | None) -> bool:
    """Returns whether a fetch that was given up has brought a value that is valid for longer."""
    return known is None or late.expires_at >= known.expires_at


def within(what: str, call: Callable[[], V], deadline: float) -> V:
    """Returns the result of a call, in a thread of its own because it may block for long.

    ``what``: the words for the result. ``deadline``: a time of ``time.monotonic``. Raises
    TokenUnavailable after it, and whatever ``call`` raises.
    """
    pending: Future[V] = Future()

    def run() -> None:
        try:
            result = call()
        except BaseException as cause:
            pending.set_exception(cause)
        else:
            pending.set_result(result)

    threading.Thread(target=run, name="kfetch-ticket", daemon=True).start()
    return _outcome(pending, max(0.0, deadline - time.monotonic()), what)


def _outcome(pending: Future[V], timeout_s: float, what: str) -> V:
    try:
        return pending.result(timeout_s)
    except KfetchError as cause:
        # Each caller raises an error of its own: a traceback belongs to one thread.
        raise type(cause)(cause.what, action=cause.action, **cause.where) from None
    except TimeoutError as cause:
        if pending.done():  # the call itself raised it
            raise
        raise TokenUnavailable(f"{what} did not come within the deadline") from cause
