"""The lead of a project: of the supervisors on several hosts, one runs the jobs, and others wait.

    shared = Shared.of(project)            the files of ``sharedState``; None without that key
    with shared.leading(wait) as lead:     waits for the lead, and holds it for the block
        state = lead.claim(environment)    what the last leader knew; it can write no more
        store.publisher = lead             the store writes the state with each change

    leader.lease   who leads: a lease as beside a checkpoint, see ``kfetch.storage.lease``
    state          what the leader knows: see ``shared_state``
    inbox          orders from other hosts, and who waits

A leader that can't renew its lease ends its runs before another one can take over. The runs also
look at the ``term_file`` themselves: their supervisor may be dead, or frozen.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from kfetch.errors import CheckpointError
from kfetch.storage.lease import LENGTH_S, Holder, Life
from kfetch.storage.lease_holder import HeldLease, Surroundings, Wait, take
from kfetch.storage.open import StoredPath, versioned
from kfetch.storage.processes import life_of, this_process
from kfetch.storage.versions import Version, VersionedFile
from kfetch_jobs.config import Project
from kfetch_jobs.errors import SupervisorError
from kfetch_jobs.progress.term_file import TermFile
from kfetch_jobs.supervise.lease_looks import lease_status
from kfetch_jobs.supervise.shared_state import (
    Inbox,
    SharedState,
    StateVersion,
    WaitingHost,
    parse_inbox,
    parse_state,
)
from kfetch_jobs.supervise.status import LeadStatus
from kfetch_jobs.supervise.store import TURNS_MAX, Store, WriteTooEarly, supervisor_directory

log = logging.getLogger("kfetch_jobs.supervisor")

_LENGTH_S = LENGTH_S
LOOK_S = _LENGTH_S / 15
"""How often a waiting supervisor looks at the lease, and a leader at the inbox."""
LATE_S = _LENGTH_S * 0.4
"""A lease that is unchanged for so long has missed a renewal."""
SAY_S = _LENGTH_S / 3
"""How often a waiting supervisor says so."""
_REQUEST_S = _LENGTH_S / 10
"""How long one request of a supervisor to the store may take."""
STATUS_S = 1.0
"""The same for commands and the page, and for the state: its writer holds the database's lock.

It makes three requests at most before it releases the lock, without a pause.
"""
_TURN_S = 1.0
"""Google's store takes one write of an object per second, and answers others with 429."""
_CONFLICTS_MAX = 20
"""How often other hosts may write a file between a read and a write."""


class Shared:
    """The files that the supervisors of a project share."""

    def __init__(self, directory: StoredPath, quick: StoredPath, storage: Path) -> None:
        """``quick``: the directory, with requests of a second."""
        self.lease = versioned(directory / "leader.lease")
        self._state = versioned(quick / "state", private=True)
        self._inbox = versioned(directory / "inbox", private=True)
        self._storage = storage
        self.place = f"{socket.gethostname()}:{storage}"
        self.limits_writes = False
        """Whether the store has refused a write because another one came right before."""
        self.purpose = f"kfetch up, storage {storage}"
        """What the lease says about this host's supervisor."""

    @classmethod
    def of(cls, project: Project, *, request_s: float | None = None) -> Self | None:
        """Returns the files of a project; None if it names no ``sharedState``. It asks no store.

        ``request_s``: how long a request may take.
        """
        path = project.shared_state(request_s=request_s or _REQUEST_S)
        quick = project.shared_state(request_s=STATUS_S)
        return cls(path, quick, project.storage) if path and quick else None

    @contextmanager
    def leading(self, wait: Wait) -> Iterator[Lead]:
        """Hold the lead for the block, as soon as nobody else does.

        ``wait`` sleeps between looks, and may raise to give up. Raises SupervisorError if the
        files can't be used.
        """
        me, term = this_process(self.purpose), term_file(self._storage)
        try:
            around = Surroundings(life_of=self._life_of)
            with take(
                self.lease, me, length_s=_LENGTH_S, around=around, switch=term, wait=wait
            ) as lease:
                yield Lead(self, lease, term)
        except CheckpointError as cause:
            raise SupervisorError(
                f"{cause.what}: without it, nobody knows which supervisor leads"
            ) from None

    def _life_of(self, holder: Holder) -> Life:
        """The runs of a dead supervisor live for a while. Who has its storage adopts them."""
        return life_of(holder) if holder.purpose == self.purpose else Life.UNKNOWN

    def state(self) -> SharedState | None:
        """Returns the leader's state; None before the first leader. Raises SupervisorError."""
        with _errors(self._state):
            version = self._state.read()
            return parse_state(version.content) if version else None

    def state_of(self, environment: str | None) -> SharedState | None:
        """The same. It is an error, too, if it is that of another environment."""
        state = self.state()
        with _errors(self._state):
            if state and (wrong := state.of_other_environment(environment)):
                raise ValueError(wrong)
        return state

    def replies(self) -> dict[str, str]:
        """Returns the leader's last replies to orders, by their ids. Raises SupervisorError."""
        state = self.state()
        rows = state.tables["orders"] if state else ()
        return {row["shared_id"]: row["answer"] for row in rows}

    def inbox(self) -> Inbox:
        """Returns the inbox. Raises SupervisorError."""
        with _errors(self._inbox):
            version = self._inbox.read()
            return parse_inbox(version.content if version else None)

    def change_inbox(self, change: Callable[[Inbox], Inbox]) -> Inbox:
        """Change the inbox, and return it as it is now. Raises SupervisorError."""
        with _errors(self._inbox):
            for _ in range(_CONFLICTS_MAX):
                version = self._inbox.read()
                before = parse_inbox(version.content if version else None)
                after = change(before)
                content = after.content(uuid.uuid4().hex)
                if after == before or self.write(self._inbox, content, _token(version)):
                    return after
            raise ValueError("many hosts write it")

    def write(self, file: VersionedFile, content: bytes, before: str | None) -> str | None:
        """Write a version. See ``VersionedFile``. It waits if the store limits writes."""
        for _ in range(TURNS_MAX):
            try:
                return file.write(content, before)
            except OSError as cause:
                if cause.errno != errno.EBUSY:
                    raise
                self.limits_writes = True
            time.sleep(_TURN_S)
        return file.write(content, before)

    def say_waiting(self, since_s: float) -> None:
        """Say in the inbox that this process waits for the lead."""
        me = WaitingHost(
            place=self.place,
            host=socket.gethostname(),
            pid=os.getpid(),
            since_s=since_s,
            seen_s=time.time(),
        )
        self.change_inbox(lambda inbox: inbox.with_waiting(me))

    def say_waiting_no_more(self) -> None:
        """Take this host out of the inbox. If the store fails, readers do it after a minute."""
        with suppress(SupervisorError):
            self.change_inbox(lambda inbox: inbox.without_waiting(self.place))


def _token(version: Version | None) -> str | None:
    return version.token if version else None


@contextmanager
def _errors(file: VersionedFile) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as cause:
        why = getattr(cause, "strerror", None) or cause
        early = getattr(cause, "errno", None) == errno.EBUSY
        raise (WriteTooEarly if early else SupervisorError)(
            f"{file} can't be used: {why}"
        ) from None


class Lead:
    """The lead of a project, which this process holds. For its supervisor's thread alone."""

    def __init__(self, shared: Shared, lease: HeldLease, term: TermFile) -> None:
        self._shared, self._lease, self._term = shared, lease, term
        self._file = shared._state
        self._token: str | None = None
        self._id = uuid.uuid4().hex
        self._version = StateVersion(history=self._id, epoch=1, change=0)
        self._lost = ""
        self._inbox_at = self._written_at = 0.0

    @property
    def place(self) -> str:
        """This host and its storage."""
        return self._shared.place

    def trouble(self) -> str:
        """Returns why the runs must stop now; nothing while this process leads for certain.

        Runs end by themselves if this host's disk takes no term. Another host may lead.
        """
        no_term = f"this host can't write {self._term.path}" if self._term.trouble() else ""
        return self._lost or self._lease.trouble() or no_term

    def end_runs(self) -> None:
        """Let the runs of this host end at once: each one looks four times a second."""
        self._term.close()

    def claim(self, environment: str | None) -> SharedState | None:
        """Returns what the last leader knew; None before the first one. It can't write any more.

        Raises SupervisorError, also if the state is that of another environment.
        """
        with _errors(self._file):
            for _ in range(_CONFLICTS_MAX):
                if (version := self._file.read()) is None:
                    return None
                state = parse_state(version.content)
                if wrong := state.of_other_environment(environment):
                    raise ValueError(wrong)
                claimed = state.claimed(self._id)
                self._version = claimed.version
                if token := self._shared.write(self._file, claimed.content(), version.token):
                    self._token, self._written_at = token, time.monotonic()
                    return claimed
            raise ValueError("another supervisor writes it")

    def await_turn(self) -> None:
        """Wait until the store takes the next state. The database is not locked meanwhile."""
        if self._shared.limits_writes:
            time.sleep(max(self._written_at + _TURN_S - time.monotonic(), 0.0))

    def publish(self, tables: Mapping[str, list[dict[str, Any]]]) -> StateVersion:
        """Write the state for other hosts. Returns its version.

        Raises SupervisorError if the store fails, and for good once another supervisor leads.
        Raises WriteTooEarly if the store takes it in another turn.
        """
        if self._lost:
            raise SupervisorError(self._lost)
        self._version = self._version._replace(change=self._version.change + 1)
        state = SharedState(
            leader=self._id, place=self.place, tables=tables, **self._version._asdict()
        )
        try:
            with _errors(self._file):
                self._token = self._written(state.content())
        except WriteTooEarly:
            self._shared.limits_writes = True
            raise
        finally:
            self._written_at = time.monotonic()
        return state.version

    def _written(self, content: bytes) -> str:
        """Write the state behind its last version, or behind a write whose answer was lost."""
        if token := self._file.write(content, self._token):
            return token
        present = self._file.read()
        own = present is None or parse_state(present.content).leader == self._id
        if own and (token := self._file.write(content, _token(present))):
            return token
        self._lost = "another supervisor leads: it has written the shared state"
        raise ValueError(self._lost)

    def take_orders(self, store: Store) -> None:
        """Put orders of other hosts into the database, and remove those with a reply.

        It looks once in two seconds. Raises SupervisorError.
        """
        now = time.monotonic()
        if now < self._inbox_at:
            return
        self._inbox_at = now + LOOK_S
        if not self._shared.inbox().orders:
            return
        replied = store.shared_replies()
        inbox = self._shared.change_inbox(lambda inbox: inbox.without_orders(replied))
        store.add_shared_orders(inbox.orders, time.time())


def term_file(storage: Path) -> TermFile:
    """Returns the file that tells runs until when the supervisor of this storage leads."""
    return TermFile(supervisor_directory(storage) / "term", _LENGTH_S)


def read_lead(project: Project, store: Store) -> LeadStatus | None:
    """Returns who leads, and who waits; None if the project names no ``sharedState``.

    If this host does not lead, the database gets what the leader knows. Three requests to the
    store, of a second at most.
    """
    if (shared := Shared.of(project, request_s=STATUS_S)) is None:
        return None
    leader = lease_status(shared.lease, own=shared.purpose)
    in_term = not term_file(project.storage).trouble()
    own = leader is not None and leader.here and leader.purpose == shared.purpose
    here = own and in_term
    if leader is not None and here:  # the term compares no clocks
        leader = replace(leader, over_s=None)
    inbox, trouble = Inbox(), ""
    try:
        inbox = shared.inbox()
        unknown = leader is not None and bool(leader.trouble)
        if not here and not unknown and (state := shared.state_of(project.environment_name)):
            store.load(state)
    except SupervisorError as error:
        trouble = error.message
    waiting = inbox.waiting_now(time.time())
    return LeadStatus(leader=leader, here=here, in_term=in_term, waiting=waiting, trouble=trouble)


def refresh_if_led_elsewhere(project: Project, store: Store) -> Callable[[], object] | None:
    """Returns what brings the database up to date; None if this host's supervisor does that."""
    lead = read_lead(project, store)
    return None if lead is None or lead.here else partial(read_lead, project, store)
