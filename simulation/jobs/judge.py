"""What must hold on a simulated machine with a supervisor, told by other means than the product's.

The judge sees each committed change of the database, each process that starts, and each signal.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kfetch_jobs.progress.progress_file import last_batch
from kfetch_jobs.progress.reports import read_pulse
from kfetch_jobs.supervise.job_lag import JobLag, job_lag
from kfetch_jobs.supervise.job_state import JobState, Order, Phase
from kfetch_jobs.supervise.processes import MARK
from kfetch_jobs.supervise.status import ProjectStatus
from kfetch_jobs.supervise.status_reader import health_problems
from kfetch_jobs.supervise.store import _state
from simulation.jobs.cron import is_fire, next_fire
from simulation.jobs.machine import Failure, Process
from simulation.jobs.system import Change

if TYPE_CHECKING:
    from simulation.jobs.runs import SimulatedRun
    from simulation.jobs.supervision import Supervision

_STEP_SEEN_S = 2.5
"""The supervisor may overlook smaller steps of the clock."""
_SERVED_S = 3 * 3600.0
_INITIAL_PAUSE_S = 5.0
_LONGEST_PAUSE_S = 40.0 * 1.2
_STOP_S = 30.0
_START_WITHIN_S = 300.0
_HELD = (Phase.STOPPED, Phase.PAUSED, Phase.FAILED)


@dataclass(slots=True)
class KnownOrder:
    """An order, as its command and the database tell of it."""

    id: int
    job: str
    word: str
    at: float
    command: Process | None
    ends_s: float | None
    answered: float | None = None
    failed: float | None = None
    """When its command has reported that nobody carries it out."""


@dataclass(slots=True)
class KnownJob:
    """What the judge knows about a job."""

    state: JobState | None = None
    before_begin: JobState | None = None
    """The state from which the present run was launched."""
    run: SimulatedRun | None = None
    failed_at: float | None = None
    pause: tuple[float, float] | None = None
    """When a back-off began, and how long it is to last."""
    last_order: str = ""
    ordered_at: float = -1.0
    served: set[float] = field(default_factory=set)
    """Cron times that had their run."""
    differs_since: float | None = None
    ready_since: float | None = None
    complained_at: float = 0.0
    """When status last said something of its lag."""


class Judge:
    """Checks a supervision as it goes on."""

    def __init__(self, world: Supervision) -> None:
        self._world = world
        self._machine = world.machine
        self._jobs = {job.name: KnownJob() for job in world.jobs}
        self._orders: dict[int, KnownOrder] = {}
        self._quiet_since = 0.0
        self._stepped_back_at = -1e9
        self._stepped_at = -1e9
        self._margin_s = 15.0 + 4 * world.profile.pace_s
        self._started: Process | None = None

    # What happens

    def disturbed(self) -> None:
        """Something keeps the supervisor from its work, or has done so until now."""
        self._quiet_since = self._machine.now

    def frozen(self, seconds: float) -> None:
        """The supervisor does nothing for a time."""
        self._quiet_since = self._machine.now + seconds

    def clock_set(self, seconds: float) -> None:
        """Somebody sets the clock."""
        self.disturbed()
        wall = self._machine.wall + seconds
        for known in self._jobs.values():
            if seconds < -_SERVED_S / 2:
                known.served = {at for at in known.served if at <= wall}
            if not self._is_healthy():
                known.pause = None
        self._stepped_at = self._machine.now
        if seconds < 0:
            self._stepped_back_at = self._machine.now

    def supervisor_started(self) -> None:
        """A supervisor has taken over."""
        self.disturbed()
        self._started = self._machine.current
        for known in self._jobs.values():
            known.failed_at = known.pause = None

    def supervisor_ended(self) -> None:
        """A supervisor has ended by itself: no process may be left."""
        self._started = None
        self._check_no_process("the supervisor has ended")

    def is_down(self) -> None:
        """``kfetch down`` has succeeded: no process may be left."""
        self._check_no_process("kfetch down has succeeded")

    def _check_no_process(self, why: str) -> None:
        for process in self._marked():
            raise Failure(f"{why}, and process {process.pid} of {process.name} lives")

    def _marked(self) -> list[Process]:
        return [
            process
            for process in self._machine.processes.values()
            if process.alive and MARK in process.environ and "kfetch.agent" not in process.cmdline
        ]

    def _is_healthy(self) -> bool:
        process = self._world.supervisor_process
        return (
            process is not None
            and process is self._started
            and process.alive
            and not process.frozen
            and not self._world.signals
            and not self._machine.disk_full
        )

    # The database

    def committed(self, process: Process | None, changes: Sequence[Change]) -> None:
        """Judge the changes of one transaction."""
        if not changes or process is None:
            return
        before = {name: known.state for name, known in self._jobs.items()}
        for statement, values, row in changes:
            if statement.startswith("INSERT OR REPLACE INTO jobs"):
                self._saved(values[0], _state(values[1]))
            elif statement.startswith("INSERT INTO runs"):
                self._jobs[values[0]].before_begin = before[values[0]]
            elif statement.startswith("UPDATE runs SET ended_s"):
                self._run_ended(values[-1], str(values[1]), before)
            elif statement.startswith("INSERT INTO orders"):
                job, word, _, ends_s = values
                self._orders[row] = KnownOrder(
                    row, job, str(word), self._machine.now, process, ends_s
                )
            elif statement.startswith("UPDATE orders SET answer"):
                # With the state in one transaction: a killed supervisor has done both or nothing.
                self._answered(values[1], json.loads(values[0]))

    def _saved(self, name: str, state: JobState) -> None:
        known, machine = self._jobs[name], self._machine
        before = known.state
        known.state = state
        if before is None or before.phase is not state.phase:
            machine.note("database", f"{name}: {state.phase}")
        if state.phase is Phase.BACKOFF and (before is None or before.phase is not Phase.BACKOFF):
            assert state.due_s is not None
            pause_s = min(state.due_s - machine.wall, _LONGEST_PAUSE_S)
            supervisor = self._world.supervisor
            # In a round during which somebody has set the clock, the due time is by the old one.
            unseen = supervisor is not None and supervisor._clock.step_s()
            known.pause = None if unseen else (machine.now, pause_s)
        self._check_plan(name, before, state)

    def _check_plan(self, name: str, before: JobState | None, state: JobState) -> None:
        """A job that begins to wait for a cron time waits for the next one."""
        job, due_s = self._world.job(name), state.due_s
        begins = before is None or before.since_s != state.since_s
        if not job.cron or due_s is None or state.forced or state.phase is not Phase.WAITING:
            return
        wall = self._machine.wall
        slack = _SERVED_S if self._machine.now - self._stepped_back_at < 2 * _SERVED_S else 0.0
        latest = next_fire(job.cron, job.zone, wall + slack)
        if due_s > latest + self._margin_s:
            raise Failure(f"job {name} is due {due_s - wall:.0f} s from now, {job.cron} before")
        if (
            begins
            and not state.queued
            and due_s > wall + 1
            and not is_fire(job.cron, job.zone, due_s)
        ):
            raise Failure(f"job {name} is due at {due_s:.0f}, which is no time of {job.cron}")

    def _run_ended(self, run: int, kind: str, before: Mapping[str, JobState | None]) -> None:
        mark = f"{self._world.storage}#{run}"
        for process in self._marked():
            if process.environ[MARK] == mark:
                raise Failure(
                    f"the end of run {run} is recorded, and process {process.pid} of "
                    f"{process.name} lives"
                )
        for name, known in self._jobs.items():
            if known.run is not None and known.run.leader.environ[MARK] == mark:
                fails = self._has_failed(kind, before[name], known.state)
                # A supervisor may be frozen between its look and its note.
                known.failed_at = known.run.leader.ended_at if fails else None

    @staticmethod
    def _has_failed(kind: str, before: JobState | None, after: JobState | None) -> bool:
        """Returns whether a run has failed. It has not if an order or the supervisor ended it."""
        if before is not None and before.phase is Phase.STOPPING:
            hung = before.then is Phase.BACKOFF
            return hung and after is not None and after.phase is not Phase.WAITING
        return kind in ("failed", "killed")

    def _answered(self, number: int, reply: dict[str, Any]) -> None:
        order = self._orders.get(number)
        if order is None:
            return
        order.answered = self._machine.now
        known = self._jobs[order.job]
        if reply["exit_code"]:
            return
        self._machine.note("database", f"order {number} ({order.word} {order.job}) is carried out")
        if order.failed is not None:
            raise Failure(
                f"{order.word} {order.job} is carried out {self._machine.now - order.failed:.0f} s "
                "after its command has reported that it is not"
            )
        has_effect = (
            order.word != "pause"
            or known.state is None
            or known.state.phase
            not in (
                Phase.FAILED,
                Phase.STOPPED,
            )
        )
        known.last_order = order.word if has_effect else ""
        known.ordered_at = self._machine.now

    # Orders

    def order_failed(self, message: str) -> None:
        """A command has reported that its order is not carried out."""
        if not message.startswith("the supervisor has not taken"):
            return
        for order in self._orders.values():
            if order.command is self._machine.current and order.answered is None:
                order.failed = self._machine.now

    def order_accepted(self, name: str, order: Order) -> None:
        """A command has its reply."""

    def order_done(self, name: str, order: Order) -> None:
        """A command has waited until its order was done."""
        known = self._jobs[name]
        mine = [one for one in self._orders.values() if one.command is self._machine.current]
        others = [one for one in self._orders.values() if one.job == name and one.at > mine[0].at]
        if order not in (Order.STOP, Order.PAUSE) or others:
            return
        if known.run is not None and known.run.leader.alive:
            raise Failure(f"{order} {name} is done, and process {known.run.leader.pid} lives")

    # Processes

    def launched(self, run: SimulatedRun) -> None:
        """Judge the start of a run."""
        known = self._jobs[run.job]
        for other in self._world.runs:
            if other.job == run.job and other.writes:
                raise Failure(f"a run of {run.job} starts beside another one")
        running = [
            name
            for name, one in self._jobs.items()
            if one.state is not None and one.state.phase.has_process
        ]
        if len(running) > self._world.concurrency:
            raise Failure(f"{len(running)} jobs run, more than {self._world.concurrency}")
        self._check_held(run.job, known)
        self._check_paused_before(run.job, known)
        self._check_due(run.job, known)
        known.run = run
        known.failed_at = known.pause = known.ready_since = None

    def _check_held(self, name: str, known: KnownJob) -> None:
        before = known.before_begin
        if known.last_order in ("stop", "pause") or (before and before.phase in _HELD):
            raise Failure(f"job {name} starts after the order {known.last_order or before}")

    def _check_paused_before(self, name: str, known: KnownJob) -> None:
        now = self._machine.now
        if known.ordered_at >= (known.failed_at or 0.0):
            return
        if known.failed_at is not None and now - known.failed_at < _INITIAL_PAUSE_S - 0.5:
            raise Failure(f"job {name} starts {now - known.failed_at:.1f} s after its failure")
        before = known.before_begin
        if known.pause is not None and before is not None and before.phase is Phase.BACKOFF:
            began, pause_s = known.pause
            if now - began < pause_s - _STEP_SEEN_S:
                raise Failure(
                    f"job {name} backs off for {now - began:.1f} s in place of {pause_s:.1f} s"
                )

    def _check_due(self, name: str, known: KnownJob) -> None:
        job, before, wall = self._world.job(name), known.before_begin, self._machine.wall
        if not job.cron or before is None or before.phase is not Phase.WAITING or before.forced:
            return
        due_s = before.due_s
        if due_s is None or due_s > wall + _STEP_SEEN_S:
            raise Failure(f"job {name} starts before its time {due_s}")
        if not is_fire(job.cron, job.zone, due_s):
            return  # a queued run, right after the one before
        if due_s in known.served:
            raise Failure(f"job {name} starts again for its time {due_s:.0f} of {job.cron}")
        known.served.add(due_s)

    def terminated(self, run: SimulatedRun) -> None:
        """A run gets SIGTERM. If it counts as silent, it has been silent."""
        world = self._world
        supervisor = world.supervisor
        if self._machine.current is not world.supervisor_process or supervisor is None:
            return
        state = supervisor._jobs[run.job].state
        limit_s = world.job(run.job).limit_s
        if state.phase is not Phase.STOPPING or state.then is not Phase.BACKOFF or not limit_s:
            return
        silent_s = self._machine.now - max(run.launched, run.last_sign)
        if silent_s < limit_s - _STEP_SEEN_S:
            raise Failure(
                f"job {run.job} is ended as silent for {limit_s:.0f} s, and was for {silent_s:.1f}"
            )

    # From time to time

    def watch(self) -> None:
        """Look at everything, again and again."""
        if self._is_healthy():
            healthy_s = self._machine.now - self._quiet_since
            for name, known in self._jobs.items():
                self._check_process(name, known, healthy_s)
                self._check_starved(name, known, healthy_s)
                self._check_silence(name, known, healthy_s)
                self._check_lag(name, known)
            self._check_orders(healthy_s)
        else:
            self._quiet_since = max(self._quiet_since, self._machine.now)
            for known in self._jobs.values():
                known.differs_since = known.ready_since = None
        self._machine.after(max(5.0, self._world.profile.pace_s), self.watch)

    def _check_orders(self, healthy_s: float) -> None:
        if healthy_s < self._margin_s:
            return
        now = self._machine.now
        for number, order in [*self._orders.items()]:
            if order.answered is not None:
                if now - order.answered > 1000:
                    del self._orders[number]
            elif now - order.at > self._margin_s:
                raise Failure(
                    f"nobody has replied to order {number} ({order.word} {order.job}) for "
                    f"{now - order.at:.0f} s"
                )

    def _check_process(self, name: str, known: KnownJob, healthy_s: float) -> None:
        """Database and processes agree, after a while."""
        state, run = known.state, known.run
        if state is None:
            return
        lives = run is not None and run.leader.alive
        stuck = state.phase is Phase.STOPPING and (
            self._machine.wall - state.since_s > _STOP_S + self._margin_s + 120
        )
        if lives == state.phase.has_process and not stuck:
            known.differs_since = None
            return
        now = self._machine.now
        if known.differs_since is None:
            known.differs_since = now
        immortal_s = 120.0  # what does not die keeps the next run waiting
        if now - known.differs_since > self._margin_s + immortal_s < healthy_s:
            lives_on = "lives" if lives else "does not live"
            raise Failure(f"job {name} is {state.phase}, and its process {lives_on}")

    def _check_starved(self, name: str, known: KnownJob, healthy_s: float) -> None:
        """No job that is due waits while there is room."""
        state, world = known.state, self._world
        running = sum(
            one.state is not None and one.state.phase.has_process for one in self._jobs.values()
        )
        waits = state is not None and state.phase in (Phase.WAITING, Phase.BACKOFF)
        due = (
            waits
            and state is not None
            and (state.due_s is not None and state.due_s <= self._machine.wall)
            and (state.forced or state.phase is Phase.BACKOFF or not world.job(name).after)
        )
        if not due or running >= world.concurrency:
            known.ready_since = None
            return
        now = self._machine.now
        known.ready_since = known.ready_since or now
        if now - known.ready_since > self._margin_s < healthy_s:
            raise Failure(f"job {name} is {state and state.phase}, due, and does not start")

    def _check_silence(self, name: str, known: KnownJob, healthy_s: float) -> None:
        """Status says that a run is silent for longer than its limit."""
        limit_s, run, state = self._world.job(name).limit_s, known.run, known.state
        if limit_s is None or run is None or state is None or not run.leader.alive:
            return
        machine = self._machine
        silent_s = machine.now - max(run.launched, run.last_sign)
        silent_s = min(silent_s, healthy_s)
        if state.phase is not Phase.RUNNING or silent_s <= limit_s + self._margin_s:
            return
        job = self._world.project.job(name)
        pulse = read_pulse(job.directory, state.started_s or 0.0)
        problems = [*health_problems(job.file.health, state, pulse, JobLag(), machine.wall)]
        if not any("no progress" in one for one in problems):
            raise Failure(f"status says well while {name} is silent for {silent_s:.0f} s")

    def _check_lag(self, name: str, known: KnownJob) -> None:
        """Status says that a record waits for longer than its limit, or that nobody knows."""
        limit_s, run, state = self._world.job(name).lag_limit_s, known.run, known.state
        if limit_s is None or run is None or state is None or not run.leader.alive:
            return
        machine = self._machine
        since = max(run.launched, self._stepped_at, known.complained_at)
        waits_s = min(self._world.records[name].waits_s(machine.now), machine.now - since)
        slack_s = 2 * run.fate.look_s + run.fate.startup_s + _STEP_SEEN_S
        if self._stepped_at > run.launched:
            # If the run hangs, its reports seem to be older or newer than they are.
            slack_s += max(limit_s + run.fate.batch_s, _START_WITHIN_S)
        if state.phase is not Phase.RUNNING or waits_s <= limit_s:
            return
        job = self._world.project.job(name)
        started_s = state.started_s or 0.0
        pulse = read_pulse(job.directory, started_s)
        if pulse is None:  # it has not started, or the disk was full until now
            slack_s = max(slack_s, _START_WITHIN_S)
        lag = job_lag(job, started_s, pulse, last_batch(job.directory), machine.wall)
        if [*health_problems(job.file.health, state, pulse, lag, machine.wall)]:
            known.complained_at = machine.now
        elif waits_s > limit_s + slack_s:
            raise Failure(f"status says well while a record of {name} waits for {waits_s:.0f} s")

    def check_status(self, status: ProjectStatus) -> None:
        """What ``kfetch status`` says of processes is so, while the supervisor works."""
        if not self._is_healthy() or self._machine.now - self._quiet_since < self._margin_s:
            return
        process = self._world.supervisor_process
        if process is not None and status.supervisor != process.pid:
            raise Failure(f"status names the supervisor {status.supervisor}, not {process.pid}")

    def check_settled(self) -> None:
        """After a quiet time, the supervisor works, and no order is left."""
        if not self._is_healthy():
            raise Failure("no supervisor works after a quiet time")
        waiting = [one for one in self._orders.values() if one.answered is None]
        if waiting:
            raise Failure(f"nobody has replied to {waiting[0].word} {waiting[0].job}")

    def check_ended(self) -> None:
        """After the end of the supervisor, nothing is left."""
        self._check_no_process("the supervisor has ended")
        store_runs = [
            name
            for name, known in self._jobs.items()
            if known.state is not None and known.state.phase.has_process
        ]
        if store_runs:
            raise Failure(f"the supervisor has ended, and {store_runs} are recorded as running")
