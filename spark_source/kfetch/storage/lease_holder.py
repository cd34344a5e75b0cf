"""Takes the lease of a checkpoint, keeps it in a thread, and lets it go. The rules are ``lease``'s.

with take(file, this_process("run of job clicks")) as lease:
    lease.check()    # right before a commit
    lease.trouble()  # now and then: the work must stop if this tells why
"""

from __future__ import annotations

import errno
import itertools
import logging
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol, Self, TypeVar

from kfetch.errors import CheckpointError, CheckpointInUse, LeaseLost
from kfetch.storage.lease import (
    LENGTH_S,
    Decision,
    Holder,
    Lease,
    Life,
    Sight,
    Term,
    judge,
    seen,
    taken,
)
from kfetch.storage.processes import boottime, life_of
from kfetch.storage.versions import Version, VersionedFile

log = logging.getLogger("kfetch.storage")

_CONFLICTS_MAX = 3
"""How often other processes may take the lease between a look and a write."""
_LOOK_S = 0.5
"""How often a waiter looks, and how often it repeats a request that failed."""
_PATIENCE_S = 10.0
"""How long a request is repeated while somebody waits for the lease."""
_Result = TypeVar("_Result")

Report = Callable[[str], None]
"""Gets a sentence when a wait begins."""

Wait = Callable[[Sight], None]
"""Sleeps until the next look at a lease that another process holds. It may raise to give up."""


class Switch(Protocol):
    """Ends this process at a time. See ``processes.KernelTimer``."""

    def end_in(self, seconds: float) -> None:
        """End the process in so many seconds, instead of at the time before."""

    def close(self) -> None:
        """Let the process live."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Clocks, processes and the end of this one, which a simulation replaces."""

    clock: Callable[[], float] = boottime
    """Seconds that never go back. See ``processes.clock``."""
    wall: Callable[[], float] = time.time
    """Seconds since 1970, for people."""
    sleep: Callable[[float], None] = time.sleep
    life_of: Callable[[Holder], Life] = life_of


class HeldLease:
    """A lease that this process holds. Its own thread and others may use it.

    As a context manager, it has a thread that renews it, and is released at the end.
    """

    def __init__(
        self,
        file: VersionedFile,
        lease: Lease,
        token: str,
        term: Term,
        around: Surroundings,
        switch: Switch | None = None,
        *,
        took_over: bool = False,
    ) -> None:
        self.file, self.lease = file, lease
        self.took_over = took_over
        """Whether the earlier holder did not release the lease: it died, or it sleeps."""
        self._token, self.term, self._around = token, term, around
        self._asked_at: float | None = None
        """When the renewal was first sent, if it has no answer yet."""
        self._failure = self._lost = ""
        self._retry_at = 0.0
        """When the renewal that failed is repeated."""
        self._switch = switch
        self._lock = threading.Lock()
        self._arm()

    def __enter__(self) -> Self:
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="kfetch-lease", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self.release()

    def _keep(self) -> None:
        """Renew the lease until the work is done, or until the lease is lost.

        In between it looks at the lease. A machine that was paused whole does not know it, and only
        the file tells that another process has taken over.
        """
        while not self._done.wait(min(self.pause_s(), self.term.look_s)):
            try:
                if self.pause_s() > 0:
                    self.check()
                else:
                    self.renew()
            except LeaseLost as lost:
                log.error("%s", lost.what)
                return
            except OSError as cause:
                log.warning("the lease %s was not renewed: %s", self.file, cause.strerror or cause)

    def renew(self) -> None:
        """Write the next version. Raises LeaseLost for good, and OSError if the store fails."""
        with self._lock:
            self._check_term()
            following = self.lease.renewed()
            # A lost answer may be that of a version which waiters have been watching since.
            self._asked_at = self._asked_at or self._around.clock()
            try:
                token = self.file.write(following.content(), self._token)
            except OSError as cause:
                self._failure = cause.strerror or str(cause)
                self._retry_at = self._around.clock() + self.term.retry_s
                raise
            if token is None:
                raise self._loss("another process has taken it")
            self.lease, self._token = following, token
            self.term = Term(self._asked_at, self.term.length_s)
            self._asked_at, self._failure = None, ""
            self._arm()

    def check(self) -> None:
        """Raises LeaseLost unless this process still holds the lease. One read of the file.

        If the store does not answer, the term decides.
        """
        with self._lock:
            self._check_term()
            with suppress(OSError):
                version = self.file.read()
                if not (version and self._is_own(version)):
                    raise self._loss("another process has taken it")
            self._check_term()

    def pause_s(self) -> float:
        """Returns in how many seconds the lease is renewed, or the failed renewal repeated."""
        due = self._retry_at if self._failure else self.term.renew_at
        return max(due - self._around.clock(), 0.0)

    def trouble(self) -> str:
        """Returns why the work must stop now; nothing while the lease is safe."""
        if not self._lost and self._around.clock() >= self.term.stop_at:
            return f"the lease {self.file} could not be renewed ({self._failure or 'no answer'})"
        return self._lost

    def release(self) -> None:
        """Let the lease go. If the store fails, the next holder waits until the lease has ended."""
        with self._lock:
            try:
                if not self._lost:
                    self._write_released()
            except OSError as cause:
                log.warning("the lease %s was not released: %s", self.file, cause.strerror)
            finally:
                self._let_go("released")

    def abandon(self) -> None:
        """Let the lease go without a release, so that the next holder takes over from a dead one.

        It has then to do what this process could not do after it had taken over.
        """
        with self._lock:
            self._let_go("abandoned")

    def _write_released(self) -> None:
        version = self.file.read()
        if version and self._is_own(version):  # perhaps of a renewal whose answer was lost
            last = self.lease.released(self._around.wall())
            self.file.write(last.content(), version.token)

    def _let_go(self, how: str) -> None:
        self._lost = self._lost or f"the lease {self.file} was {how}"
        if self._switch:
            self._switch.close()
            self._switch = None

    def _is_own(self, version: Version) -> bool:
        # The content is that of a renewal whose answer was lost, if it is not the last one's.
        return version.token == self._token or version.content == self.lease.renewed().content()

    def _check_term(self) -> None:
        if self._lost:
            raise LeaseLost(self._lost, file=str(self.file))
        if self._around.clock() >= self.term.ends_at:
            raise self._loss(f"it was not renewed within {self.term.length_s:g} s")

    def _loss(self, why: str) -> LeaseLost:
        self._lost = f"this process has lost the lease {self.file}, because {why}"
        return LeaseLost(
            self._lost,
            action="the work has stopped, because another process may go on",
            file=str(self.file),
        )

    def _arm(self) -> None:
        if self._switch:
            self._switch.end_in(max(self.term.ends_at - self._around.clock(), 0.0))


def take(
    file: VersionedFile,
    holder: Holder,
    *,
    length_s: float = LENGTH_S,
    around: Surroundings | None = None,
    report: Report = lambda _: None,
    switch: Switch | None = None,
    wait: Wait | None = None,
    noted: Sight | None = None,
) -> HeldLease:
    """Take a lease, once its holder has released it, is dead, or was silent for long enough.

    Raises CheckpointInUse if somebody holds it, and CheckpointError if the file can't be used. It
    returns within four thirds of the holder's lease, and the time of a few requests. With ``wait``
    it waits for a living holder, too, for as long as ``wait`` returns. ``noted``: what another
    process of this machine has seen of the lease before. ``switch`` ends this process if the lease
    ends before its release.
    """
    around = around or Surroundings()
    with ExitStack() as failing:
        if switch:
            failing.callback(switch.close)
        for _ in itertools.count() if wait else range(_CONFLICTS_MAX):
            sight = _awaited(file, around, wait) if wait else _free(file, around, report, noted)
            before = sight.lease if sight else None
            lease = taken(before, holder, length_s, around.wall())
            term = Term(around.clock(), length_s)
            written = partial(file.write, lease.content(), sight.token if sight else None)
            token = _patiently(file, "written", written, around)
            if token is not None:
                if not _patiently(file, "read", file.is_conditional, around):
                    raise _unconditional(file)
                if around.clock() >= term.stop_at:
                    raise _slow(file)
                took_over = sight is not None and not (before and before.holder is None)
                held = HeldLease(file, lease, token, term, around, switch, took_over=took_over)
                failing.pop_all()
                return held
        raise CheckpointInUse(f"many processes write the lease {file}", file=str(file))


def _free(
    file: VersionedFile, around: Surroundings, report: Report, noted: Sight | None
) -> Sight | None:
    """Returns the version that may be replaced; None if there is none. Waits for it."""
    first: Sight | None = None
    sight = noted
    while (version := _patiently(file, "read", file.read, around)) is not None:
        sight = seen(sight, version.token, version.content, around.clock())
        holder = sight.lease and sight.lease.holder
        life = around.life_of(holder) if holder else Life.UNKNOWN
        verdict = judge(first or sight, sight, life, around.clock())
        if verdict is Decision.REFUSE:
            raise _in_use(file, sight)
        if verdict is Decision.TAKE:
            return sight
        wait_s = sight.ends_at() - around.clock()
        if first is None:
            first = sight
            report(f"{_held(file, sight)}. Waiting for a sign of life, {wait_s:.0f} s at most")
        around.sleep(min(_LOOK_S, max(wait_s, 0.0)))
    return None


def _awaited(file: VersionedFile, around: Surroundings, wait: Wait) -> Sight | None:
    """Returns the version that may be replaced, however long that takes; None if there is none.

    A holder that is stopped on this machine keeps the lease for no longer than one elsewhere.
    """
    sight: Sight | None = None
    while (version := _patiently(file, "read", file.read, around)) is not None:
        sight = seen(sight, version.token, version.content, around.clock())
        holder = sight.lease.holder if sight.lease else None
        dead = holder is not None and around.life_of(holder) is Life.DEAD
        life = Life.DEAD if dead else Life.UNKNOWN
        if judge(sight, sight, life, around.clock()) is Decision.TAKE:
            return sight
        wait(sight)
    return None


def _patiently(
    file: VersionedFile, verb: str, request: Callable[[], _Result], around: Surroundings
) -> _Result:
    """Repeat a request while the store fails. Raises CheckpointError in the end."""
    give_up_at = around.clock() + _PATIENCE_S
    while True:
        try:
            return request()
        except OSError as cause:
            if cause.errno == errno.ENOTSUP:
                raise _unconditional(file) from None
            if isinstance(cause, PermissionError) or around.clock() >= give_up_at:
                raise CheckpointError(
                    f"the lease {file} can't be {verb}: {cause.strerror or cause}",
                    action="without it, nobody knows whether another process writes the checkpoint",
                    file=str(file),
                ) from None
            around.sleep(_LOOK_S)


def _held(file: VersionedFile, sight: Sight) -> str:
    lease = sight.lease
    if lease is None or lease.holder is None:
        return f"the lease {file} is damaged, so its holder is unknown"
    return f"the lease {file} is held by {lease.holder} since {lease.since}"


def _in_use(file: VersionedFile, sight: Sight) -> CheckpointInUse:
    return CheckpointInUse(
        _held(file, sight),
        action="end that process first, with kfetch pause JOB if kfetch up runs it",
        file=str(file),
    )


def _unconditional(file: VersionedFile) -> CheckpointError:
    return CheckpointError(
        f"the store has no conditional writes, and without them nobody can hold the lease {file}",
        action="use a store with If-None-Match and If-Match, as S3 has them",
        file=str(file),
    )


def _slow(file: VersionedFile) -> CheckpointError:
    return CheckpointError(
        f"the store took so long to write the lease {file} that it has nearly ended",
        action="look at the store and at the network, and start again",
        file=str(file),
    )
