"""The supervisor on a simulated machine: its commands, its runs, and all that goes wrong."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from kfetch_jobs import config
from kfetch_jobs.errors import ConfigError, JobsError, SupervisorError
from kfetch_jobs.supervise import control
from kfetch_jobs.supervise.job_state import Order
from kfetch_jobs.supervise.processes import MARK
from kfetch_jobs.supervise.status_reader import read_status
from kfetch_jobs.supervise.store import Store
from kfetch_jobs.supervise.supervisor import Supervisor
from kfetch_jobs.supervise.supervisor_lock import hold_supervisor_lock
from simulation.jobs.chaos import NIGHT, PROFILES, Event, Kind, Profile, draw_events
from simulation.jobs.judge import Judge
from simulation.jobs.machine import SIGTERM, Failure, Machine, Process
from simulation.jobs.project import CHANGES, ENVIRON, DrawnJob, draw_jobs, write_project
from simulation.jobs.records import Records
from simulation.jobs.runs import Fate, SimulatedRun
from simulation.jobs.system import installed, room_in_memory

TICK_S = 0.2
_ALERT_S = 60.0
"""For so long after an event the supervisor's loop has its real pace."""
_SETTLES_S = 400.0
_ENDS_S = 600.0


class Supervision:
    """One simulation of a supervisor."""

    def __init__(
        self, seed: int, events: Sequence[Event] | None = None, *, keep_story: bool = False
    ) -> None:
        draw = random.Random(f"supervision {seed}")
        self.seed = seed
        self.profile: Profile = draw.choice(PROFILES)
        zone, date, expression = draw.choice(CHANGES)
        begin = datetime.fromisoformat(date).replace(tzinfo=UTC).timestamp()
        begin += draw.random() * 3600
        self.slow = max(1.0, self.profile.pace_s / 5)
        self.jobs = draw_jobs(
            draw, zone, expression, mostly_cron=self.profile is NIGHT, slow=self.slow
        )
        self.records = {
            job.name: Records(f"{seed} {job.name}", draw.choice([2.0, 40.0, 200.0]) * self.slow)
            for job in self.jobs
            if job.lag_limit_s
        }
        self.concurrency = draw.choice([1, 2, 16])
        self.keeper_s = draw.choice([5.0, 15.0, 60.0])
        drawn = draw_events(draw, self.profile, [job.name for job in self.jobs])
        self.events = drawn if events is None else list(events)
        self.machine = Machine(str(seed), begin, keep_story=keep_story)
        self.runs: list[SimulatedRun] = []
        self.supervisor_process: Process | None = None
        self.supervisor: Supervisor | None = None
        self.signals: list[int] = []
        self.room = room_in_memory()
        self.project = config.load(write_project(self.room, self.jobs, self.concurrency), ENVIRON)
        self.storage = self.project.storage
        self.judge = Judge(self)
        self._alert_until = _ALERT_S
        self._launches: dict[str, int] = {}
        self._keeps = True
        self._closing = False

    def job(self, name: str) -> DrawnJob:
        """Returns a job by its name."""
        return next(job for job in self.jobs if job.name == name)

    # The whole simulation

    def run(self) -> None:
        """Simulate. Raises Failure if an invariant does not hold."""
        machine = self.machine
        system = installed(
            machine, {}, observer=self.judge.committed, launch=self._launch, stretch=self._stretch
        )
        try:
            with system:
                try:
                    self._simulate()
                finally:
                    machine.close()
        finally:
            shutil.rmtree(self.room, ignore_errors=True)

    def _simulate(self) -> None:
        machine = self.machine
        for event in self.events:
            machine.at(event.at, self._carrying_out(event))
        self._keep()
        self.judge.watch()
        machine.run(self.profile.seconds)
        self._settle()

    def _settle(self) -> None:
        """Nothing goes wrong any more: the supervisor runs, and ends."""
        machine = self.machine
        self.alert()
        machine.run(machine.now + _SETTLES_S + 10 * self.profile.pace_s)
        machine.note("machine", "the supervisor has had its time to settle")
        self.judge.check_settled()
        self._keeps = False
        process = self.supervisor_process
        assert process is not None
        machine.signal(process, SIGTERM)
        if not machine.run_until(lambda: not process.alive, _ENDS_S):
            raise Failure(f"the supervisor has not ended within {_ENDS_S:.0f} s")
        if process.result is not None:
            raise Failure(f"the supervisor ended with {process.result!r}") from process.result
        self.judge.check_ended()

    def alert(self) -> None:
        """Give the supervisor's loop its real pace for a while."""
        self._alert_until = self.machine.now + _ALERT_S

    def _stretch(self, seconds: float) -> float:
        if seconds != TICK_S or self.machine.now < self._alert_until:
            return seconds
        return self.profile.pace_s

    # The supervisor

    def _keep(self) -> None:
        """Start a supervisor if there is none, as systemd does."""
        process = self.supervisor_process
        if self._keeps and (process is None or not process.alive):
            self.supervisor_process = self.start_supervisor()
        self.machine.after(self.keeper_s, self._keep)

    def start_supervisor(self) -> Process:
        """Start ``kfetch up``."""
        machine, signals = self.machine, list[int]()
        process: Process
        own: list[Supervisor] = []

        def body() -> None:
            try:
                with (
                    hold_supervisor_lock(self.storage),
                    Supervisor.start(self.project, self._command) as supervisor,
                ):
                    own.append(supervisor)
                    self.supervisor = supervisor
                    self.judge.supervisor_started()
                    supervisor.run(lambda: len(signals) > 0, lambda: len(signals) > 1)
                    self.judge.supervisor_ended()
            except (JobsError, OSError) as error:
                machine.note("supervisor", f"ends: {error}")
            except Exception as error:
                raise Failure(f"the supervisor died of {error!r}") from error
            finally:
                if own and self.supervisor is own[0]:
                    self.supervisor = None

        def signalled(number: int) -> None:
            signals.append(number)
            machine.note("supervisor", f"gets signal {number}")

        self.signals = signals
        process = machine.start("supervisor", body)
        process.on_signal = signalled
        machine.note("machine", f"starts a supervisor, process {process.pid}")
        return process

    def _command(self, job: str, report_file: Path) -> Sequence[str]:
        return ("run", job, str(report_file))

    def _launch(self, parent: Process, command: Sequence[str], environ: dict[str, str]) -> Process:
        machine = self.machine
        _, job, report_file = command
        number = self._launches[job] = self._launches.get(job, 0) + 1
        draw = random.Random(f"run {self.seed} {job} {number}")
        if draw.random() < 0.01:
            raise OSError(11, "Resource temporarily unavailable")
        own = {MARK: environ[MARK]}
        leader = machine.start(job, parent=parent, environ=own, cmdline=("kfetch", "run", job))
        drawn = self.job(job)
        run = SimulatedRun(
            machine,
            job,
            self.storage / job,
            Path(report_file),
            leader,
            Fate.draw(
                draw,
                finite=drawn.finite,
                typical_s=self.profile.life_s,
                slow=self.slow,
            ),
            self.records.get(job),
        )
        run.on_term = self.judge.terminated
        machine.note(job, f"run {number} starts, process {leader.pid}")
        self.judge.launched(run)
        self.runs = [one for one in self.runs if one.writes]
        self.runs.append(run)
        run.begin()
        return leader

    # Events

    def _carrying_out(self, event: Event) -> Callable[[], None]:
        action = {
            Kind.ORDER: self._order,
            Kind.CLOCK: self._set_clock,
            Kind.DISK: self._fill_disk,
            Kind.KILL: self._kill,
            Kind.FREEZE: self._freeze,
            Kind.END: self._end,
            Kind.DOWN: self._down,
            Kind.KILL_RUN: self._kill_run,
            Kind.STATUS: self._status,
        }[event.kind]

        def act() -> None:
            self.machine.note("chaos", str(event))
            self.alert()
            action(event)

        return act

    def _order(self, event: Event) -> None:
        """A command gives an order, and waits until it is done."""
        machine, judge = self.machine, self.judge
        order = Order(event.word)

        def body() -> None:
            with Store.of(self.storage) as store:
                try:
                    notices = control.give_order(self.project, store, [event.job], order)
                    if notices is None:
                        machine.note("command", "no supervisor runs")
                        return
                    judge.order_accepted(event.job, order)
                    control.wait_until_done(store, [event.job], order, 180.0)
                    judge.order_done(event.job, order)
                except (SupervisorError, ConfigError) as error:
                    machine.note("command", f"{order} {event.job}: {error.message}")
                    judge.order_failed(str(error.message))

        process = machine.start(f"kfetch {order} {event.job}", lambda: _quietly(body))
        self._may_die(process, event)

    def _may_die(self, process: Process, event: Event) -> None:
        if event.calls >= 0:
            process.fault_in = event.calls
            process.fault = lambda: self.machine.kill(process)

    def _set_clock(self, event: Event) -> None:
        self.judge.clock_set(event.seconds)
        self.machine.set_clock(event.seconds)

    def _fill_disk(self, event: Event) -> None:
        self.machine.disk_full = True
        self.judge.disturbed()

        def free() -> None:
            self.machine.disk_full = False
            self.judge.disturbed()
            self.machine.note("machine", "the disk has room again")

        self.machine.after(event.seconds, free)

    def _kill(self, event: Event) -> None:
        process = self.supervisor_process
        if process is not None and process.alive and process.fault_in < 0:
            process.fault_in = event.calls
            process.fault = lambda: self.machine.kill(process)

    def _freeze(self, event: Event) -> None:
        if event.word:
            self._order(replace(event, calls=-1))
        process = self.supervisor_process
        if process is not None and process.alive and process.fault_in < 0:
            process.fault_in = event.calls

            def freeze() -> None:
                self.judge.frozen(event.seconds)
                self.machine.freeze(process, event.seconds)

            process.fault = freeze

    def _end(self, event: Event) -> None:
        process = self.supervisor_process
        if process is not None and process.alive:
            self.machine.signal(process, SIGTERM)
            if event.calls > 0:
                self.machine.after(0.5, lambda: self.machine.signal(process, SIGTERM))

    def _down(self, event: Event) -> None:
        def body() -> None:
            with Store.of(self.storage) as store:
                try:
                    now = event.word in ("stop", "pause")
                    control.shut_down(self.project, store, timeout_s=60.0, now=now)
                    self.judge.is_down()
                except SupervisorError as error:
                    self.machine.note("kfetch down", error.message)

        self._may_die(self.machine.start("kfetch down", lambda: _quietly(body)), event)

    def _kill_run(self, event: Event) -> None:
        for run in self.runs:
            if run.job == event.job and run.leader.alive:
                self.machine.kill(run.leader)

    def _status(self, event: Event) -> None:
        def body() -> None:
            with Store.of(self.storage) as store:
                status = read_status(self.project, store, self.machine.wall)
                self.judge.check_status(status)

        self.machine.start("kfetch status", lambda: _quietly(body))


def _quietly(body: Callable[[], None]) -> None:
    """A command may fail on a full or locked disk."""
    with suppress(JobsError, OSError):
        body()
