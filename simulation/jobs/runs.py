"""Stand-ins for the processes of runs: they report as real ones do, and end in many ways."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kfetch_jobs.progress.batch import Batch
from kfetch_jobs.progress.exit_report import ExitKind, ExitReport
from kfetch_jobs.progress.progress_file import append_entry
from kfetch_jobs.progress.reports import Pulse, write_exit_report, write_pulse
from simulation.jobs.machine import SIGTERM, Machine, Process
from simulation.jobs.records import Driver, Records

_AGENT_STAYS_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What becomes of a run, drawn before it starts."""

    startup_s: float
    """For so long it has no handler of SIGTERM: the signal ends it without a report."""
    life_s: float
    kind: ExitKind | None
    """How it ends by itself; None: it hangs from then on."""
    reacts_s: float | None
    """How long SIGTERM takes; None: it ignores SIGTERM."""
    finishes_at_term: bool
    """It ends by itself at the very moment of SIGTERM."""
    jvm_stays_s: float
    """Its JVM outlives it."""
    immortal_s: float
    """Its JVM takes no signal for so long after its leader's end."""
    pulse_s: float
    batch_s: float
    look_s: float
    """How often its driver reports what waits."""
    cut_line: bool
    """It leaves half a line in progress.jsonl."""

    @classmethod
    def draw(cls, draw: random.Random, *, finite: bool, typical_s: float, slow: float) -> Fate:
        """Returns the fate of a run."""
        kinds: dict[ExitKind | None, int] = {
            ExitKind.FINISHED: 60 if finite else 2,
            ExitKind.FAILED: 16,
            ExitKind.KILLED: 9,
            ExitKind.CONFIG: 2,
            ExitKind.STOPPED: 2,
            None: 9,
        }
        (kind,) = draw.choices([*kinds], [*kinds.values()])
        life_s = draw.expovariate(1 / typical_s)
        return cls(
            startup_s=draw.choice([0.0, draw.random() * 5]),
            life_s=life_s if finite or kind is not ExitKind.FINISHED else life_s * 50,
            kind=kind,
            reacts_s=draw.choice([0.0, 0.0, draw.random(), draw.random() * 9, None]),
            finishes_at_term=finite and draw.random() < 0.1,
            jvm_stays_s=draw.choice([0.0, 0.0, draw.random() * 5, 1e9]),
            immortal_s=draw.choice([0.0] * 8 + [draw.random() * 100]),
            pulse_s=draw.uniform(2, 10) * min(slow, 2.5),
            batch_s=draw.uniform(3, 30) * slow,
            look_s=2.0 * slow,
            cut_line=draw.random() < 0.2,
        )


@dataclass(slots=True, eq=False)
class SimulatedRun:
    """The processes of a run."""

    machine: Machine
    job: str
    directory: Path
    report_file: Path
    leader: Process
    fate: Fate
    records: Records | None = None
    """The records of a job whose lag has a limit."""
    on_term: Callable[[SimulatedRun], None] = lambda _: None
    jvm: Process | None = None
    agent: Process | None = None
    launched: float = 0.0
    last_sign: float = 0.0
    """When its last new pulse became visible, by the steady clock."""
    batches: int = 0
    terminated: bool = False
    hangs: bool = False
    ended: bool = field(default=False)
    driver: Driver | None = None
    planned: bool = False
    lag: int = 0
    lag_s: float = 0.0
    committed_wall: float = 0.0
    """When its last micro-batch was committed, by the wall clock."""

    def begin(self) -> None:
        """Start its other processes, and plan its life."""
        machine, leader = self.machine, self.leader
        self.launched = self.last_sign = machine.now
        leader.on_signal = self._signalled
        self.jvm = machine.start(
            f"{self.job}'s JVM", environ=leader.environ, cmdline=("java",), session=leader
        )
        self.jvm.on_signal = lambda _: None
        self.agent = machine.start(
            "agent", environ=leader.environ, cmdline=("python", "-m", "kfetch.agent")
        )
        machine.after(self.fate.startup_s + 1.0, self._pulse)
        machine.after(self.fate.startup_s + self.fate.batch_s, self._batch)
        if self.records is not None:
            self.driver = Driver(self.records, self.directory)
            machine.after(self.fate.startup_s + 0.5, self._see)
        machine.after(self.fate.life_s, self._come_to_its_fate)
        leader.on_end = self._after_leader

    @property
    def writes(self) -> bool:
        """Whether a process of it may write rows."""
        return self.leader.alive or (self.jvm is not None and self.jvm.alive)

    def _after_leader(self) -> None:
        if self.ended:
            return
        self.ended = True
        fate, machine, jvm, agent = self.fate, self.machine, self.jvm, self.agent
        assert jvm is not None
        assert agent is not None
        jvm.immortal_until = machine.now + fate.immortal_s
        if fate.jvm_stays_s < 1e8:
            machine.after(fate.jvm_stays_s + 0.01, lambda: machine.kill(jvm))

        def end_agent() -> None:
            if jvm.alive:
                machine.after(_AGENT_STAYS_S, end_agent)
            else:
                machine.kill(agent)

        machine.after(_AGENT_STAYS_S, end_agent)
        if fate.cut_line:
            with suppress(OSError), (self.directory / "progress.jsonl").open("a") as file:
                file.write('{"batch": 17, "sta')

    def _signalled(self, number: int) -> None:
        machine, fate = self.machine, self.fate
        self.on_term(self)
        if number != SIGTERM or self.terminated or self.ended:
            return
        self.terminated = True
        if machine.now < self.launched + fate.startup_s:
            machine.note(self.job, "SIGTERM comes before its handler is set")
            machine.kill(self.leader)
        elif fate.finishes_at_term:
            self._exit(ExitKind.FINISHED)
        elif fate.reacts_s is not None:
            machine.after(fate.reacts_s, lambda: self._exit(ExitKind.STOPPED))

    def _exit(self, kind: ExitKind) -> None:
        if not self.leader.alive or self.ended:
            return
        self.machine.note(self.job, f"ends: {kind}")
        if kind is not ExitKind.KILLED:
            report = ExitReport(kind=kind, sentence="" if kind.succeeded else f"it was {kind}")
            write_exit_report(self.report_file, report)
        self.machine.end(self.leader)

    def _come_to_its_fate(self) -> None:
        if self.fate.kind is None:
            if self.leader.alive and not self.terminated:
                self.machine.note(self.job, "hangs")
                self.hangs = True
        elif not self.terminated:
            self._exit(self.fate.kind)

    def _pulse(self) -> None:
        if self.ended or self.hangs or not self.leader.alive:
            return
        machine = self.machine
        batch = self.batches - 1 if self.batches else None
        full = machine.disk_full
        lag_s = self.lag_s + max(0.0, machine.wall - self.committed_wall) if self.lag else 0.0
        pulse = Pulse(at=machine.wall, batch=batch, lag=self.lag, lag_s=lag_s, query="q")
        write_pulse(self.directory, pulse)
        if not full:
            self.last_sign = machine.now
        machine.after(self.fate.pulse_s, self._pulse)

    def _see(self) -> None:
        """The driver looks at Kafka, and reports."""
        machine, driver = self.machine, self.driver
        assert driver is not None
        if self.ended or self.hangs or not self.leader.alive:
            return
        if not self.planned:
            driver.plan(machine.now, machine.wall)
            self.planned = True
        driver.report(machine.now, machine.wall)
        machine.after(self.fate.look_s, self._see)

    def _note_offsets(self) -> None:
        """Let the checkpoint have offsets, as it has before a run tells of a micro-batch."""
        offsets = self.directory / "checkpoint" / "offsets"
        offsets.mkdir(parents=True, exist_ok=True)
        (offsets / "0").touch()

    def _batch(self) -> None:
        if self.ended or self.hangs or not self.leader.alive:
            return
        self.batches += 1
        machine, records, driver = self.machine, self.records, self.driver
        end = latest = 1
        if records is not None and driver is not None:
            records.committed, latest = driver.planned, records.count(machine.now)
            end, self.lag, self.lag_s = records.committed, latest - driver.planned, 0.0
            if self.lag:
                self.lag_s = driver.waited_s(machine.wall)
            self.committed_wall = machine.wall
        batch = Batch(
            batch=self.batches - 1,
            started="",
            finished=machine.wall,
            rows=3,
            seconds=1.0,
            end=end,
            latest=latest,
            lag_s=self.lag_s,
            run_batches=self.batches,
            run_rows=3 * self.batches,
        )
        with suppress(OSError):
            self._note_offsets()
            append_entry(self.directory, batch)
        if driver is not None:
            driver.plan(machine.now, machine.wall)
        machine.after(self.fate.batch_s, self._batch)
