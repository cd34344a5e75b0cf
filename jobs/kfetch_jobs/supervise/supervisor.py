"""Keeps a project's jobs as their files say: the loop around the state machine.

    with office(storage), Supervisor.take(project) as supervisor:
        supervisor.run(stop)      until the event; then ends every job

Every tick: orders are read, processes looked after, each job's machine asked what to do. A run is
noted before its process is started, and its end when the process is gone; so whoever comes after a
supervisor that was killed knows what runs, adopts it, and misses no end of a run.
"""

from __future__ import annotations

import logging
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from kfetch_jobs.config import Job, Project
from kfetch_jobs.config.mistakes import unforeseen
from kfetch_jobs.errors import ConfigError, SupervisorError
from kfetch_jobs.run import ending
from kfetch_jobs.run.ending import Ending
from kfetch_jobs.run.kinds import Kind
from kfetch_jobs.run.watch import pulse_file, read_pulse
from kfetch_jobs.supervise import machine
from kfetch_jobs.supervise.answers import Answer, outdated
from kfetch_jobs.supervise.machine import Action, Facts, Order, Phase, State
from kfetch_jobs.supervise.processes import Process, adopt, launch, marked
from kfetch_jobs.supervise.rules import Rules, rules_of
from kfetch_jobs.supervise.store import Incumbent, Run, Store
from kfetch_jobs.util.plural import counted

__all__ = ["Command", "Supervisor", "last_word", "process_of"]

log = logging.getLogger("kfetch_jobs.supervisor")

TICK_S = 0.2
_AGAIN_S = 2.0
"""After a tick that failed: the disk may be full, the database locked."""
_BEGINS = (Order.START, Order.RESTART, Order.RESUME)
"""The next run takes the file as it is: so its mistakes are told now."""
_NOBODY = 0
"""No process that can be looked at has this number."""

Command = Callable[[str, Path], Sequence[str]]
"""From a job's name and the file for its last word to what is run."""


@dataclass(slots=True)
class _Supervised:
    """One job, and its process while there is one."""

    job: Job
    rules: Rules
    state: State
    run: int | None = None
    process: Process | None = None
    killed: bool = False
    """By us, because it did not end in time, or nobody had time."""


class Supervisor:
    """The only one of its storage. Not for use by several threads."""

    def __init__(self, project: Project, store: Store, command: Command | None = None) -> None:
        self._project = project
        self._store = store
        self._command = command or _command(project)
        self._jobs: dict[str, _Supervised] = {}
        self._saved: dict[str, State] = {}
        self._ending = False
        self.stepped_s = time.time()
        """When the last tick was done, in seconds since 1970. Any thread may read it."""

    @classmethod
    @contextmanager
    def take(cls, project: Project, command: Command | None = None) -> Iterator[Supervisor]:
        """Become the supervisor of a storage, in whose office the caller is. Raises ConfigError for
        any mistake in the project.

        After a supervisor that was killed, a mistake is told and costs its own job alone: at night
        nobody is there to mend it, and the others have to go on.
        """
        jobs, mistakes = project.checked()
        with Store.of(project.storage) as store:
            last = store.incumbent()
            clean = last is None or last.ended_s is not None
            if mistakes and clean:
                raise ConfigError(*mistakes)
            for mistake in mistakes:
                log.error("%s", mistake)
            supervisor = cls(project, store, command)
            supervisor._begin(jobs, clean=clean)
            yield supervisor

    def _begin(self, jobs: dict[str, Job], *, clean: bool) -> None:
        now = time.time()
        states = self._store.states()
        for job in jobs.values():
            if job.file.enabled:
                rules, before = rules_of(job.file), states.get(job.name)
                keep = not clean and before is not None
                state = before if keep and before else machine.initial(rules, now, before)
                self._jobs[job.name] = _Supervised(job, rules, state)
        for run in self._store.open_runs():
            if run.job in self._jobs:
                self._recover(run, self._jobs[run.job], now)
            elif run.job in jobs or run.job not in self._project.jobs():
                self._end_nobodys(run, now)
        for supervised in self._jobs.values():
            self._without_process(supervised, now)
        self._take_office(now)
        self._save()

    def _take_office(self, now: float) -> None:
        me = psutil.Process()
        self._store.take_office(
            Incumbent(
                pid=me.pid,
                process_started_s=me.create_time(),
                environment=self._project.environment_name,
                started_s=now,
                ended_s=None,
            )
        )
        names = ", ".join(self._jobs) or "none"
        log.info("supervising %s: %s", counted(len(self._jobs), "job"), names)

    def _recover(self, run: Run, supervised: _Supervised, now: float) -> None:
        """A run without an end: its process lives and is adopted, or has ended meanwhile."""
        if supervised.run is not None:  # it has a newer one
            self._end_nobodys(run, now)
            return
        supervised.run = run.id
        supervised.process = process = process_of(self._project.storage, run)
        if not supervised.state.phase.has_process:
            supervised.state = machine.launched(supervised.rules, supervised.state, run.started_s)
        if process.alive:
            self._store.started(run.id, process.pid, process.started)
            log.info("job %s: adopted its process %d", run.job, process.pid)

    def _end_nobodys(self, run: Run, now: float) -> None:
        """Of a job that is gone or disabled. One whose file has a mistake runs on until then."""
        process_of(self._project.storage, run).kill()
        self._store.end(run.id, now, Kind.KILLED, "its job is not supervised any more")

    def _without_process(self, supervised: _Supervised, now: float) -> None:
        """A phase that needs a process, and none is known: begin anew."""
        if supervised.state.phase.has_process and supervised.process is None:
            supervised.state = machine.initial(supervised.rules, now, supervised.state)

    def run(self, stop: Callable[[], bool], hurry: Callable[[], bool]) -> None:
        """Until ``stop`` says so; then every job is ended, and nothing is left running.

        ``hurry`` ends them without waiting for their micro-batches.
        """
        while not stop():
            time.sleep(TICK_S if self._stepped() else _AGAIN_S)
        self._end_all(hurry)

    def _stepped(self) -> bool:
        """One tick; whether it went well. Jobs run on without a disk for our notes."""
        try:
            self.step(time.time())
        except (SupervisorError, OSError) as error:
            log.error("%s; trying again", error)
            return False
        return True

    def step(self, now: float) -> None:
        """One tick."""
        self._take_orders(now)
        for supervised in self._jobs.values():
            self._look_after(supervised, now)
        self._save()
        self.stepped_s = now

    def _save(self) -> None:
        states = {name: supervised.state for name, supervised in self._jobs.items()}
        changed = {name: state for name, state in states.items() if self._saved.get(name) != state}
        if changed:
            self._store.save(changed)
            self._saved |= changed

    def _take_orders(self, now: float) -> None:
        for asked in self._store.asked():
            answer = self._take(asked.job, asked.order, now)
            self._save()
            self._store.answer(asked.id, answer.to_text())

    def _take(self, name: str, order: Order, now: float) -> Answer:
        """Do what is asked, or say why not."""
        if order in _BEGINS:
            try:
                self._reread(name)
            except ConfigError as error:
                return Answer(said=str(error), exit_code=error.exit_code)
            except Exception as error:  # the others have to go on
                return Answer(said=unforeseen(name, error), exit_code=1)
        supervised = self._jobs.get(name)
        if supervised is None:
            why = f"job {name} is not supervised: it has no file, or enabled: false"
            return Answer(said=why, exit_code=1)
        supervised.state = machine.order(supervised.rules, supervised.state, order, now)
        log.info("job %s: %s: %s", name, order, supervised.state.phase)
        return Answer(said=outdated(supervised.job, supervised.state) if order in _BEGINS else "")

    def _reread(self, name: str) -> None:
        """A job's file may have changed, or be new."""
        job = self._project.job(name)
        rules = rules_of(job.file)
        if name in self._jobs:
            self._jobs[name].job, self._jobs[name].rules = job, rules
        elif job.file.enabled:
            now = time.time()
            before = self._store.states().get(name)
            self._jobs[name] = _Supervised(job, rules, machine.initial(rules, now, before))
            for run in self._store.open_runs():
                if run.job == name:
                    self._recover(run, self._jobs[name], now)

    def _look_after(self, supervised: _Supervised, now: float) -> None:
        if supervised.process is not None and not supervised.process.alive:
            self._ended(supervised, now)
        supervised.state, action = machine.tick(
            supervised.rules, supervised.state, self._facts(supervised, now)
        )
        if action is Action.LAUNCH and not self._ending:
            self._launch(supervised, now)
        elif action is Action.END and supervised.process is not None:
            log.info("job %s: ends after its micro-batch", supervised.job.name)
            supervised.process.end()
        elif action is Action.KILL and supervised.process is not None:
            log.warning("job %s: did not end in time, and is killed", supervised.job.name)
            supervised.killed = True
            supervised.process.kill()

    def _facts(self, supervised: _Supervised, now: float) -> Facts:
        rules, state = supervised.rules, supervised.state
        others = {name: other.state for name, other in self._jobs.items()}
        running = sum(other.state.phase.has_process for other in self._jobs.values())
        return Facts(
            now=now,
            ready=not rules.after or machine.ready(rules, state, others),
            room=running < self._project.file.concurrency,
            silent_s=_silent_s(supervised, now) if rules.no_progress_s is not None else 0.0,
        )

    def _launch(self, supervised: _Supervised, now: float) -> None:
        job = supervised.job
        state = machine.launched(supervised.rules, supervised.state, now)
        supervised.run = run = self._store.begin(job.name, state, now)
        supervised.state = self._saved[job.name] = state
        word = self._word(supervised)
        word.unlink(missing_ok=True)
        try:
            supervised.process = launch(
                self._command(job.name, word),
                log=job.directory / "run.log",
                directory=self._project.path.parent,
                mark=_mark(self._project.storage, run),
                environ=os.environ,
            )
        except OSError as cause:
            self._note_end(supervised, Ending(kind=Kind.FAILED, sentence=f"no start: {cause}"), now)
            return
        self._store.started(run, supervised.process.pid, supervised.process.started)
        log.info("job %s: started (process %d)", job.name, supervised.process.pid)

    def _word(self, supervised: _Supervised) -> Path:
        assert supervised.run is not None
        return last_word(self._project.storage, supervised.job.name, supervised.run)

    def _ended(self, supervised: _Supervised, now: float) -> None:
        assert supervised.process is not None
        if not supervised.process.kill():
            log.error("job %s: some of its processes do not die", supervised.job.name)
            return  # a next run beside them is what must not be: look again
        word = self._word(supervised)
        self._note_end(supervised, ending.read(word), now)
        word.unlink(missing_ok=True)

    def _note_end(self, supervised: _Supervised, told: Ending, now: float) -> None:
        assert supervised.run is not None
        kind, sentence = _noted_as(supervised, told)
        chance = random.random()  # noqa: S311 - spreads restarts
        name, state = supervised.job.name, supervised.state
        state = machine.ended(supervised.rules, state, told.kind, told.sentence, now, chance)
        self._store.end(
            supervised.run,
            now,
            kind,
            sentence,
            batches=told.batches,
            rows=told.rows,
            states={name: state},
        )
        supervised.state = self._saved[name] = state
        supervised.run = supervised.process = None
        supervised.killed = False
        if state.phase is Phase.BACKOFF and state.due_s is not None:
            pause_s = state.due_s - now
            log.warning("job %s: %s; again in %.0f s", name, state.sentence or kind, pause_s)
        elif state.phase is Phase.FAILED:
            log.error("job %s: given up: %s", name, state.sentence)
        else:
            log.info("job %s: %s: %s", name, kind, state.phase)

    def _end_all(self, hurry: Callable[[], bool]) -> None:
        """Every job ends after its micro-batch; the next supervisor begins them anew."""
        self._ending = True
        now = time.time()
        for supervised in self._jobs.values():
            if supervised.state.phase is Phase.RUNNING:
                supervised.state = machine.order(
                    supervised.rules, supervised.state, Order.RESTART, now
                )
        while running := [one for one in self._jobs.values() if one.process is not None]:
            for supervised in running:
                if hurry() and supervised.process is not None:
                    supervised.killed = True
                    supervised.process.kill()
                self._look_after(supervised, time.time())
            self._save()
            self.stepped_s = time.time()
            time.sleep(TICK_S / 4)
        self._store.leave_office(time.time())
        log.info("ended; no job runs")


def _noted_as(supervised: _Supervised, told: Ending) -> tuple[Kind, str]:
    """What the history says of a run's end: also why we ended it, if we did."""
    state = supervised.state
    if state.phase is not Phase.STOPPING:
        return told.kind, told.sentence
    if state.then is Phase.BACKOFF:
        return Kind.HUNG, state.sentence
    if told.kind is not Kind.KILLED:
        return told.kind, told.sentence
    if supervised.killed:
        return Kind.KILLED, "it was told to end, and did not end in time"
    return Kind.STOPPED, "it was told to end before its query had begun"


def _mark(storage: Path, run: int) -> str:
    return f"{storage}#{run}"


def last_word(storage: Path, job: str, run: int) -> Path:
    """Where a run says how it ended."""
    return storage / job / f"ending-{run}.json"


def process_of(storage: Path, run: Run) -> Process:
    """A run's process, alive or not."""
    mark = _mark(storage, run.id)
    if run.pid is None or run.process_started_s is None:
        # Its supervisor died between the start and the note of it, or before the start.
        return marked(mark) or adopt(_NOBODY, 0.0, mark)
    return adopt(run.pid, run.process_started_s, mark)


def _silent_s(supervised: _Supervised, now: float) -> float:
    pulse = read_pulse(pulse_file(supervised.job))
    started_s = supervised.state.started_s or now
    return now - max(started_s, pulse.at if pulse else 0.0)


def _command(project: Project) -> Command:
    """``kfetch run``, as this Python and this project run it."""
    environment = ["--env", project.environment_name] if project.environment_name else []

    def command(job: str, word: Path) -> list[str]:
        return [
            # -P: the project's own jobs/ must not pass for the package.
            *(sys.executable, "-P", "-m", "kfetch", "run", job),
            *("--project", str(project.path), "--ending", str(word)),
            *environment,
        ]

    return command
