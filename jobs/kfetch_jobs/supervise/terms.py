"""Supervises a project while this host leads it, and waits for the lead in between.

    Terms(project, stop, hurry, ready).run()       until ``stop``

Without ``sharedState`` there is one term, which begins at once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from kfetch.storage.lease import Sight
from kfetch.storage.processes import boottime
from kfetch_jobs.checkpoints.lease_note import note_lease
from kfetch_jobs.config import Project
from kfetch_jobs.errors import JobsError, SupervisorError
from kfetch_jobs.supervise.heartbeat import write_heartbeat
from kfetch_jobs.supervise.leadership import LATE_S, LOOK_S, SAY_S, STATUS_S, Shared
from kfetch_jobs.supervise.run_process import Command
from kfetch_jobs.supervise.store import Store, SupervisorRecord
from kfetch_jobs.supervise.supervisor import TICK_S, Supervisor

log = logging.getLogger("kfetch_jobs.supervisor")


class _Stopped(Exception):
    """Somebody has stopped the supervisor while it waited."""


class Terms:
    """The supervisor of a host, from its start to its end."""

    def __init__(
        self,
        project: Project,
        stop: Callable[[], bool],
        hurry: Callable[[], bool],
        ready: Callable[[str], None],
        command: Command | None = None,
    ) -> None:
        """``stop`` and ``hurry``: see ``Supervisor.run``.

        ``ready`` is called once it leads or waits, with a sentence about that if there are several
        hosts.
        """
        self._project, self._command = project, command
        self._stop, self._hurry, self._ready = stop, hurry, ready
        self._shared = Shared.of(project)
        self._supervisor: Supervisor | None = None
        self._waits_since_s: float | None = None
        self._said_at = 0.0
        self._noted_token = ""
        self._is_up = False
        """Whether it has waited or led, so that a store that fails does not end it."""
        self._looked_s = time.time()

    @property
    def last_step_s(self) -> float:
        """When it last took a step, in seconds since 1970. Any thread may read it."""
        supervisor = self._supervisor
        return supervisor.last_tick_s if supervisor else self._looked_s

    def run(self) -> None:
        """Supervise or wait, until ``stop`` returns True.

        Raises SupervisorError if the shared files can't be used at the start; later it tries again.
        """
        if self._shared is None:
            with Supervisor.start(self._project, self._command) as supervisor:
                self._supervise(supervisor, "")
            return
        try:
            while not self._stop():
                self._try_to_lead(self._shared)
        except _Stopped:
            self._wait_no_more(self._shared)
            with Store.of(self._project.storage) as store:
                store.record_end(time.time())

    def _try_to_lead(self, shared: Shared) -> None:
        """Wait for the lead, and supervise while it lasts."""
        try:
            with shared.leading(self._wait) as lead:
                self._wait_no_more(shared)
                with Supervisor.start(self._project, self._command, lead) as supervisor:
                    self._supervise(supervisor, "This host leads.")
            if not self._stop():
                self._pause(2 * LOOK_S)  # a host that waits takes over
        except (SupervisorError, OSError) as error:
            if self._stop() or not self._is_up:
                raise
            log.warning("%s; trying again", error)
            self._pause(LOOK_S)

    def _supervise(self, supervisor: Supervisor, sentence: str) -> None:
        self._supervisor = supervisor
        try:
            self._come_up(sentence)
            supervisor.run(self._stop, self._hurry)
        finally:
            self._looked_s, self._supervisor = time.time(), None

    def _come_up(self, sentence: str) -> None:
        if not self._is_up:
            self._is_up = True
            self._ready(sentence)

    def _wait(self, sight: Sight) -> None:
        """Wait until the next look at a lease that another process holds."""
        if self._waits_since_s is None:
            self._begin_to_wait(sight)
        self._say(time.monotonic())
        self._note_leases(sight)
        self._pause(LOOK_S)

    def _note_leases(self, sight: Sight) -> None:
        """Look at the leases of all checkpoints once the leader's renewal is late."""
        if sight.token == self._noted_token or boottime() - sight.at < LATE_S:
            return
        self._noted_token = sight.token
        for job in self._project.jobs_and_mistakes()[0].values():
            if self._stop():
                raise _Stopped
            try:
                note_lease(job, request_s=STATUS_S)
            except (JobsError, OSError) as error:  # the runs look by themselves
                log.warning("%s", error)

    def _begin_to_wait(self, sight: Sight) -> None:
        now = time.time()
        with Store.of(self._project.storage) as store:
            store.record_start(
                SupervisorRecord.of_this_process(self._project.environment_name, now)
            )
        self._waits_since_s = now
        for mistake in self._project.jobs_and_mistakes()[1]:
            log.error("%s", mistake)
        holder = sight.lease.holder if sight.lease else None
        sentence = f"{holder or 'An unknown process'} leads. This host waits."
        log.info("%s", sentence)
        self._come_up(sentence)

    def _say(self, now: float) -> None:
        """Tell the other hosts now and then that this one waits."""
        if now < self._said_at or self._shared is None or self._waits_since_s is None:
            return
        self._said_at = now + SAY_S
        try:
            self._shared.say_waiting(self._waits_since_s)
        except SupervisorError as error:
            log.warning("%s", error)

    def _wait_no_more(self, shared: Shared) -> None:
        if self._waits_since_s is not None:
            self._waits_since_s, self._said_at = None, 0.0
            shared.say_waiting_no_more()

    def _pause(self, seconds: float) -> None:
        """Sleep, and show that this process lives. Raises _Stopped."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self._stop():
                raise _Stopped
            self._looked_s = time.time()
            write_heartbeat(self._project.storage, self._looked_s)
            time.sleep(TICK_S)
