"""Keeps a project's jobs running as their files say: the loop around the state machine.

    with hold_supervisor_lock(storage), Supervisor.start(project) as supervisor:
        supervisor.run(stop, hurry)      until ``stop``; then ends every job

With a ``Lead``, it stops as well once it does not lead any more.

Every tick reads the orders, checks the processes, and takes the action of each job's state machine.
The supervisor records a run before the process starts, and its end after the process has ended.
So the successor of a killed supervisor knows the runs, adopts their processes, and misses no end.
"""

from __future__ import annotations

import logging
import os
import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import replace
from pathlib import Path

from kfetch_jobs.checkpoints.fresh_start import fresh_start_refusal
from kfetch_jobs.config import Job, Project
from kfetch_jobs.config.mistakes import unexpected_mistake
from kfetch_jobs.config.snapshot import write_snapshot
from kfetch_jobs.errors import ConfigError, JobsError, SupervisorError
from kfetch_jobs.progress.exit_report import ExitKind, ExitReport, interruption
from kfetch_jobs.progress.reports import exit_report_path, read_exit_report
from kfetch_jobs.supervise import state_machine
from kfetch_jobs.supervise.heartbeat import write_heartbeat
from kfetch_jobs.supervise.job_files import job_now, job_of_run
from kfetch_jobs.supervise.job_state import Action, Facts, JobState, Order, Phase
from kfetch_jobs.supervise.leadership import Lead
from kfetch_jobs.supervise.order_reply import TOO_LATE, OrderReply, outdated_file_notice
from kfetch_jobs.supervise.processes import GONE_WITHIN_S, kill_together, launch
from kfetch_jobs.supervise.run_killer import RunKiller, report_interruption
from kfetch_jobs.supervise.run_process import (
    NO_PID,
    Command,
    command_for_runs,
    remove_settings,
    run_mark,
    run_process,
)
from kfetch_jobs.supervise.shared_state import leads_no_longer
from kfetch_jobs.supervise.store import Run, Store, SupervisorRecord, WaitingOrder
from kfetch_jobs.supervise.supervised_job import (
    UNREAD,
    SupervisedJob,
    comes_before,
    history_entry,
    second_writer,
    waiting_jobs,
)
from kfetch_jobs.supervise.wall_clock import WallClock
from kfetch_jobs.util.process import start_of
from kfetch_jobs.util.wording import counted

log = logging.getLogger("kfetch_jobs.supervisor")

TICK_S = 0.2
_AGAIN_S = 2.0
"""The pause after a tick that failed: the disk may be full, the database locked."""
_READ_S = 10.0
"""How often the supervisor reads files that it could not read."""
_LEAVE_S = 2.0
"""How long runs may take to end by themselves once this host leads no longer."""
_STARTING_ORDERS = (Order.START, Order.RESTART, Order.RESUME)
"""The next run reads the job's file anew. So the reply to these orders lists its mistakes."""


class Supervisor:
    """The only supervisor of its storage. Not for use by several threads."""

    def __init__(
        self,
        project: Project,
        store: Store,
        command: Command | None = None,
        lead: Lead | None = None,
    ) -> None:
        self._project = project
        self._store = store
        self._lead = lead
        self._command = command or command_for_runs(project)
        self._jobs: dict[str, SupervisedJob] = {}
        self._saved: dict[str, JobState] = {}
        self._due: dict[str, SupervisedJob] = {}
        """The jobs that this round starts."""
        self._killer = RunKiller(project.storage, store)
        self._clock = WallClock()
        self._shutting_down = False
        self._reads_at = 0.0
        """When it next reads the files that it could not read: monotonic."""
        self.last_tick_s = time.time()
        """When the last tick ended, in seconds since 1970. Any thread may read it."""

    @classmethod
    @contextmanager
    def start(
        cls, project: Project, command: Command | None = None, lead: Lead | None = None
    ) -> Iterator[Supervisor]:
        """Become the supervisor of a storage; the caller holds its lock.

        ``lead``: of a project with supervisors on several hosts.

        Raises ConfigError for any mistake in the project. After a killed supervisor, or one on
        another host, the new one logs the mistakes instead, and reads these files again and again:
        at night nobody can correct a file.
        """
        jobs, mistakes = project.jobs_and_mistakes()
        with Store.of(project.storage) as store:
            last = store.last_supervisor()
            ended_s = last.ended_s if last else None
            clean = last is None or ended_s is not None
            if lead is not None:
                store.publisher = lead
                if (state := lead.claim(project.environment_name)) is not None:
                    store.load(state)
                    own = state.place == lead.place
                    ended_s, clean = state.ended_s, own and state.ended_s is not None
                    if not own:
                        store.end_open_runs(time.time(), leads_no_longer(state.place))
            if mistakes and clean:
                raise ConfigError(*mistakes)
            for mistake in mistakes:
                log.error("%s", mistake)
            supervisor = cls(project, store, command, lead)
            supervisor._take_over(jobs, ended_s, clean=clean)
            yield supervisor

    def _take_over(self, jobs: dict[str, Job], ended_s: float | None, *, clean: bool) -> None:
        """Begin with the states and the runs that the last supervisor has left.

        ``jobs``: those with valid files. ``ended_s``: when the last supervisor ended. ``clean``:
        whether nobody has killed it.
        """
        now, states, names = time.time(), self._store.states(), self._project.jobs()
        jobs = jobs | self._jobs_of_runs(jobs, set(names) - jobs.keys())
        names = [name for name in names if name not in jobs or jobs[name].file.enabled]
        if set_back_s := self._set_back_s([states[name] for name in names if name in states], now):
            self._store.clock_stepped(set_back_s)
        for name in names:
            job, before = jobs.get(name), states.get(name)
            file = job.file if job else UNREAD
            if before is not None:
                before = state_machine.after_clock_step(file, before, set_back_s, now)
            if before is None and job is None:
                before = JobState(phase=Phase.WAITING, since_s=now)  # its file says when it is due
            elif before is None or clean:
                before = state_machine.initial_state(file, now, before, ended_s)
            before = state_machine.planned_again(file, before, now)
            self._jobs[name] = SupervisedJob(self._project.storage / name, job, before)
        for run in self._store.open_runs():
            if run.job in self._jobs:
                self._recover(run, self._jobs[run.job])
            else:
                self._killer.add_unwanted(run)
        self._killer.end_unwanted(self._jobs, now, GONE_WITHIN_S)
        for supervised in self._jobs.values():
            self._reset_without_process(supervised, now)
        self._record_start(now, waiting_jobs(states) - self._jobs.keys())
        self._round_ended(now)

    def _set_back_s(self, states: Iterable[JobState], now: float) -> float:
        """Returns by how much the clock was set back, at least, while no supervisor ran.

        No run begins in the future: its reports would seem to be those of an earlier run. And a job
        that waits for others would wait until they finish after its own start.
        """
        moments = [run.started_s for run in self._living_runs()]
        moments += [max(one.since_s, one.started_s or 0, one.finished_s or 0) for one in states]
        return min(0.0, now - max(moments, default=now))

    def _living_runs(self) -> list[Run]:
        storage = self._project.storage
        return [run for run in self._store.open_runs() if run_process(storage, run).alive]

    def _jobs_of_runs(self, jobs: dict[str, Job], mistaken: set[str]) -> dict[str, Job]:
        """Returns the jobs that still run, as they were validated for their runs.

        Their files may have changed since, and may have mistakes now. A disabled job ends.
        """
        wanted = {name for name, job in jobs.items() if job.file.enabled} | mistaken
        found = [job_of_run(self._project, r) for r in self._living_runs() if r.job in wanted]
        return {job.name: job for job in found if job is not None}

    def _record_start(self, now: float, forgotten: Collection[str]) -> None:
        record = SupervisorRecord.of_this_process(self._project.environment_name, now)
        self._saved = self._changed_states()
        self._store.record_start(record, self._saved, forgotten)
        names = ": " + ", ".join(self._jobs) if self._jobs else ""
        log.info("supervising %s%s", counted(len(self._jobs), "job"), names)

    def _recover(self, run: Run, supervised: SupervisedJob) -> None:
        """Adopt the process of a run without an end. It may have ended meanwhile."""
        if supervised.run is not None:  # the job has a newer run
            self._killer.add_unwanted(run)
            return
        supervised.run = run.id
        supervised.process = process = run_process(self._project.storage, run)
        if not supervised.state.phase.has_process:
            state = supervised.state
            supervised.state = state_machine.after_launch(supervised.file, state, run.started_s)
        if process.alive:
            process.start = process.start or start_of(process.pid)  # an older kfetch recorded none
            self._store.started(run.id, process.pid, process.started, process.start)
            log.info("job %s: adopted its process %d", run.job, process.pid)

    def _reset_without_process(self, supervised: SupervisedJob, now: float) -> None:
        """Reset a job whose phase needs a process if the job has none."""
        before = supervised.state
        if before.phase.has_process and supervised.process is None:
            supervised.state = replace(
                state_machine.initial_state(supervised.file, now, before),
                failures=before.failures,
                silent_kills=before.silent_kills,
                sentence=before.sentence,
            )

    def run(self, stop: Callable[[], bool], hurry: Callable[[], bool]) -> None:
        """Supervise until ``stop`` returns True; then end every job with all its processes.

        Once ``hurry`` returns True, jobs end without waiting for their micro-batches. A supervisor
        that leads no longer ends its jobs before another host may run them.
        """
        while not stop() and not self._trouble():
            time.sleep(TICK_S if self._tick_succeeded() else _AGAIN_S)
        if not self._trouble():
            self._end_all(hurry)
        if trouble := self._trouble():
            self._abandon(trouble)

    def _trouble(self) -> str:
        """Returns why this supervisor leads no longer; nothing while it leads."""
        return self._lead.trouble() if self._lead else ""

    def _abandon(self, trouble: str) -> None:
        """End every job at once. The database stays as it is for the next leader.

        The runs look whether they may go on. Who ends by himself releases his checkpoint's lease.
        """
        assert self._lead is not None
        self._shutting_down = True
        log.error("%s: this host leads no longer, and ends its jobs", trouble)
        self._lead.end_runs()
        running = [one for one in self._jobs.values() if one.process is not None]
        gone = kill_together([one.process for one in running if one.process], _LEAVE_S)
        if not all(gone):
            log.error("some processes of jobs do not die; they can write no checkpoint any more")
        for one in running:
            if one.run is not None:
                report_interruption(self._project.storage, one.run, one.name, trouble)

    def _tick_succeeded(self) -> bool:
        """Run one tick. Jobs run on while the supervisor cannot write to its disk."""
        try:
            self.tick(self._now())
        except (SupervisorError, OSError) as error:
            log.error("%s; trying again", error)
            return False
        return True

    def _now(self) -> float:
        """Returns the time. If somebody has set the clock, all durations stay."""
        now = self._clock.now()
        if step_s := self._clock.step_s():
            log.warning("the clock has moved by %+.0f s: due times are planned again", step_s)
            self._store.clock_stepped(step_s)
            for supervised in self._jobs.values():
                supervised.clock_stepped(step_s, now)
            self._clock.accept()
        return now

    def tick(self, now: float) -> None:
        """Read orders, check processes and take the due actions, once."""
        if self._lead is not None:
            self._take_shared_orders(self._lead)
        self._take_orders(now)
        self._killer.end_unwanted(self._jobs, now)
        self._read_again()
        failures = list[Exception]()
        try:
            for one in self._jobs.values():
                with _collected(failures, OSError):
                    self._check(one, now)
            due = self._recorded_runs(now)
        finally:
            self._due.clear()
        for one in due:
            with _collected(failures, OSError, SupervisorError):
                self._launch(one, now)
        self._save()
        self._round_ended(now)
        if failures:
            raise failures[0]

    def _round_ended(self, now: float) -> None:
        self.last_tick_s = now
        write_heartbeat(self._project.storage, now)

    def _save(self) -> None:
        if changed := self._changed_states():
            self._store.save(changed)
            self._saved |= changed

    def _changed_states(self) -> dict[str, JobState]:
        states = {name: supervised.state for name, supervised in self._jobs.items()}
        return {name: state for name, state in states.items() if self._saved.get(name) != state}

    def _take_shared_orders(self, lead: Lead) -> None:
        try:
            lead.take_orders(self._store)
        except SupervisorError as error:  # it comes again at the next look
            log.warning("orders of other hosts: %s", error)

    def _take_orders(self, now: float) -> None:
        for waiting in self._store.waiting_orders():
            if waiting.ends_s is not None and waiting.ends_s < max(now, time.time()):
                log.warning("job %s: %s: %s", waiting.job, waiting.order, TOO_LATE.message)
                self._store.record_reply(waiting.id, TOO_LATE.to_text())
            else:
                self._take(waiting, now)

    def _take(self, waiting: WaitingOrder, now: float) -> None:
        """Carry an order out and record the reply, or do neither.

        The command withdraws its order when it gives up. It may do so while a round hangs.
        """
        supervised, reply = self._carry_out(waiting.job, waiting.order, now)
        states = {waiting.job: supervised.state} if supervised else {}
        if not self._store.record_reply(waiting.id, reply.to_text(), states):
            log.warning("job %s: %s: withdrawn meanwhile", waiting.job, waiting.order)
            return
        if supervised:
            self._jobs[waiting.job] = supervised
        self._saved |= states

    def _carry_out(
        self, name: str, order_name: str, now: float
    ) -> tuple[SupervisedJob | None, OrderReply]:
        """Returns a job as an order changes it, and the reply. No job: the order is refused."""
        try:
            order = Order(order_name)
        except ValueError:
            unknown = (
                f"the supervisor does not know the order {order_name}: update kfetch on its host"
            )
            return None, OrderReply(message=unknown, exit_code=1)
        supervised = copy(self._jobs.get(name))
        if order in _STARTING_ORDERS:
            found = self._reread(name, order, supervised)
            if isinstance(found, OrderReply):
                return None, found
            supervised = found
        if supervised is None:
            return None, OrderReply(message=f"job {name} is not supervised", exit_code=1)
        supervised.state = state_machine.apply_order(supervised.file, supervised.state, order, now)
        log.info("job %s: %s: %s", name, order, supervised.state.phase)
        job = supervised.job if order in _STARTING_ORDERS else None
        notice = outdated_file_notice(job, supervised.state) if job else ""
        return supervised, OrderReply(message=notice)

    def _reread(
        self, name: str, order: Order, present: SupervisedJob | None
    ) -> SupervisedJob | OrderReply:
        """Read the job's files again: they may have changed, or be new. Returns the job with them.

        A job that runs on keeps the files that its run was started with. Returns a reply if the
        files have a mistake, or the job may not run.
        """
        try:
            job = job_now(self._project, name)
            writers = [one for one in self._jobs.values() if one.may_write]
            if sentence := second_writer(job, writers) or fresh_start_refusal(job):
                raise SupervisorError(sentence)
        except JobsError as error:
            return OrderReply(message=error.message, exit_code=error.exit_code)
        except Exception as error:  # a bug that one job triggers must not stop the others
            return OrderReply(message=unexpected_mistake(name, error), exit_code=1)
        now = time.time()
        if present is None:
            return self._new(job, now)
        if present.job is None:
            present.state = state_machine.after_reading(job.file, present.state, now)
        if (
            present.job is None
            or order is Order.RESTART
            or present.state.phase is not Phase.RUNNING
        ):
            present.job = job
        return present

    def _read_again(self) -> None:
        """Try to read the files that could not be read."""
        if time.monotonic() < self._reads_at:
            return
        self._reads_at = time.monotonic() + _READ_S
        for supervised in [one for one in self._jobs.values() if one.job is None]:
            found, state = self._reread(supervised.name, Order.START, supervised), supervised.state
            if isinstance(found, OrderReply) and state.phase in (Phase.WAITING, Phase.BACKOFF):
                self._refuse(supervised, replace(state, refusal=found.message))

    def _refuse(self, supervised: SupervisedJob, state: JobState) -> None:
        if state.refusal != supervised.state.refusal:
            log.error("job %s can't start: %s", supervised.name, state.refusal)
        supervised.state = state

    def _new(self, job: Job, now: float) -> SupervisedJob:
        state = state_machine.initial_state(job.file, now, self._store.states().get(job.name))
        supervised = SupervisedJob(job.directory, job, state)
        for run in self._store.open_runs():
            if run.job == job.name:
                self._recover(run, supervised)
        return supervised

    def _check(self, supervised: SupervisedJob, now: float) -> None:
        if supervised.no_start is not None:
            self._record_end(supervised, supervised.no_start, now)
        if supervised.process is not None and not supervised.process.alive:
            self._process_ended(supervised, now)
        now = self._clock.late(now)
        supervised.state, action = state_machine.tick(
            supervised.file, supervised.state, self._facts(supervised, now)
        )
        if action is Action.LAUNCH and not self._shutting_down:
            self._launch_or_refuse(supervised, now)
        elif action is Action.END and supervised.process is not None:
            log.info("job %s: ends after its micro-batch", supervised.name)
            supervised.process.end()
        elif action is Action.KILL and supervised.process is not None:
            if not supervised.killed:
                log.warning("job %s: did not end in time, and is killed", supervised.name)
            supervised.killed = True
            supervised.process.kill()

    def _facts(self, supervised: SupervisedJob, now: float) -> Facts:
        file, state = supervised.file, supervised.state
        limited = file.health.noProgress is not None
        pulse = supervised.pulse() if limited else None
        silent_s = supervised.silent_s(pulse, now, self._clock.late(now)) if limited else 0.0
        others = {name: other.state for name, other in self._jobs.items()}
        running = sum(other.phase.has_process for other in others.values()) + len(self._due)
        waiting = {name: state for name, state in others.items() if name not in self._due}
        ahead = state_machine.jobs_ahead(supervised.name, waiting)
        return Facts(
            now=now,
            upstream_finished=state_machine.upstream_finished(file, state, others),
            has_room=running + ahead < self._project.file.concurrency,
            has_file=supervised.has_file,
            silent_s=silent_s,
            has_committed=pulse is not None and pulse.batch is not None,
            is_idle=pulse is not None and pulse.is_idle,
        )

    def _refusal(self, supervised: SupervisedJob, job: Job) -> str:
        """Returns why a due job can't be started now."""
        try:
            first = [one for one in self._jobs.values() if comes_before(one, supervised)]
            refusal = second_writer(job, [*self._due.values(), *first])
            if not (refusal or supervised.looked):
                refusal = fresh_start_refusal(job)
                supervised.looked = not refusal
        except OSError as error:
            return f"job {job.name}: {error}"
        return refusal

    def _launch_or_refuse(self, supervised: SupervisedJob, now: float) -> None:
        assert supervised.job is not None
        if sentence := self._refusal(supervised, supervised.job):
            state, now = supervised.state, self._clock.late(now)
            state = state_machine.after_refusal(supervised.file, state, sentence, now)
            self._refuse(supervised, state)
        else:
            self._due[supervised.name] = supervised

    def _recorded_runs(self, now: float) -> list[SupervisedJob]:
        """Record the runs of all due jobs with one write. Returns these jobs."""
        due, now = [*self._due.values()], self._clock.late(now)
        states = {one.name: state_machine.after_launch(one.file, one.state, now) for one in due}
        for one in due:
            self._remove_old_reports(one.directory)
        runs = self._store.begin(states, now) if due else {}
        self._saved |= states
        for one in due:
            one.state, one.run = states[one.name], runs[one.name]
        return due

    def _launch(self, supervised: SupervisedJob, now: float) -> None:
        job, run, now = supervised.job, supervised.run, self._clock.late(now)
        assert job is not None
        assert run is not None
        report_file = self._report_file(supervised)
        try:
            report_file.unlink(missing_ok=True)
            write_snapshot(job, run)
            supervised.process = launch(
                self._command(job.name, report_file),
                log=job.directory / "run.log",
                directory=self._project.path.parent,
                mark=run_mark(self._project.storage, run),
                environ=os.environ,
            )
        except Exception as cause:  # a bug that one job triggers must not stop the others
            why = cause if isinstance(cause, OSError) else unexpected_mistake(job.name, cause)
            supervised.no_start = ExitReport(kind=ExitKind.FAILED, sentence=f"no start: {why}")
            self._record_end(supervised, supervised.no_start, now)
            return
        process = supervised.process
        supervised.heard_s, supervised.heard_at = self._clock.late(now), None
        self._store.started(run, process.pid, process.started, process.start)
        log.info("job %s: started (process %d)", job.name, supervised.process.pid)

    def _report_file(self, supervised: SupervisedJob) -> Path:
        assert supervised.run is not None
        return exit_report_path(self._project.storage / supervised.name, supervised.run)

    def _remove_old_reports(self, directory: Path) -> None:
        """Remove the reports of runs whose ends are recorded, perhaps by another host."""
        open_ = {exit_report_path(directory, one.id) for one in self._store.open_runs()}
        with suppress(OSError):  # the next launch removes them
            for report in set(directory.glob("ending-*.json")) - open_:
                report.unlink(missing_ok=True)

    def _process_ended(self, supervised: SupervisedJob, now: float) -> None:
        assert supervised.process is not None
        assert supervised.run is not None
        if not self._killer.kill(supervised.run, supervised.name, supervised.process):
            supervised.heard_s = self._clock.late(now)  # the run has ended, and is not silent
            return  # no next run may start beside them
        remove_settings(self._project.storage, supervised.name)
        report_file = self._report_file(supervised)
        report = read_exit_report(report_file)
        if supervised.process.pid == NO_PID and report.by_signal:
            report = interruption("its supervisor ended before the run began")
        self._record_end(supervised, report, self._clock.late(now))
        report_file.unlink(missing_ok=True)

    def _record_end(self, supervised: SupervisedJob, report: ExitReport, now: float) -> None:
        assert supervised.run is not None
        kind, sentence = history_entry(supervised, report)
        chance = random.random()  # noqa: S311 - spreads restarts
        name, file, state = supervised.name, supervised.file, supervised.state
        batches, rows = supervised.committed()
        if report.interrupted and state.phase is Phase.RUNNING:
            state = state_machine.after_interruption(file, state, now)
        else:
            state = state_machine.after_exit(file, state, report.kind, report.sentence, now, chance)
        self._store.end(
            supervised.run, now, kind, sentence, batches=batches, rows=rows, states={name: state}
        )
        supervised.state = self._saved[name] = state
        supervised.run = supervised.process = supervised.no_start = supervised.heard_s = None
        supervised.killed = False
        if state.phase is Phase.BACKOFF and state.due_s is not None:
            pause_s = state.due_s - now
            log.warning("job %s: %s; again in %.0f s", name, state.sentence or kind, pause_s)
        elif report.interrupted:
            log.warning("job %s: interrupted: %s", name, sentence)
        elif state.phase is Phase.FAILED:
            log.error("job %s: given up: %s", name, state.sentence)
        else:
            log.info("job %s: %s: %s", name, kind, state.phase)

    def _end_all(self, hurry: Callable[[], bool]) -> None:
        """End every job after its micro-batch. Raises an error of the database once no job runs."""
        self._shutting_down = True
        now = self._now()
        for supervised in self._jobs.values():
            supervised.state = state_machine.interrupt(supervised.state, now)
        while running := [one for one in self._jobs.values() if one.run is not None]:
            if self._trouble():
                return
            try:
                self._end_round(hurry)
            except (SupervisorError, OSError) as error:
                if all(self._is_gone(one) for one in running):
                    raise  # the next supervisor records the ends
                log.error("%s; trying again", error)
                time.sleep(_AGAIN_S)
            time.sleep(TICK_S / 4)
        self._store.record_end(time.time())
        log.info("ended; no job runs")

    def _is_gone(self, supervised: SupervisedJob) -> bool:
        """Kill what an ended run has left, and return whether nothing of the run lives."""
        process, run = supervised.process, supervised.run
        if process is None or run is None:
            return True
        return not process.alive and self._killer.kill(run, supervised.name, process)

    def _end_round(self, hurry: Callable[[], bool]) -> None:
        """Check each job once, living processes first: on a full disk, recording an end fails."""
        now = self._now()
        running = [one for one in self._jobs.values() if one.run is not None]
        for supervised in sorted(running, key=lambda one: not (one.process and one.process.alive)):
            if hurry() and supervised.process is not None:
                supervised.killed = True
                supervised.process.kill()
            self._check(supervised, now)
        self._save()
        self._round_ended(now)


@contextmanager
def _collected(failures: list[Exception], *kinds: type[Exception]) -> Iterator[None]:
    """Collect an error of one job, so that the others are looked after, too."""
    try:
        yield
    except kinds as error:
        failures.append(error)
