"""One simulated machine: a table of processes that a seed starts, stops and kills.

The kernel has the clock and the threads. A process of the product is a process of the kernel with
one thread; a stand-in has none, and events move it. A killed process is never resumed: no
``finally`` of it runs before the machine's end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from greenlet import GreenletExit

from simulation import kernel

SIGKILL, SIGTERM = 9, 15
_FIRST_PID, _LAST_PID = 300, 420
"""A small range: the system uses pids again."""
_SLOW_CALL_S = 0.05


class Failure(BaseException):
    """An invariant does not hold. No ``except Exception`` of the product hides it."""


@dataclass(slots=True, eq=False)
class Process:
    """An entry of the process table."""

    pid: int
    name: str
    sid: int
    started: float
    """By the steady clock."""
    ticks: int
    """Unique, unlike the pid."""
    parent: Process | None = None
    environ: dict[str, str] = field(default_factory=dict)
    cmdline: tuple[str, ...] = ()
    task: kernel.Process | None = None
    """What the scheduler runs; None: a stand-in, which events move."""
    on_signal: Callable[[int], None] | None = None
    on_end: Callable[[], None] | None = None
    zombie: bool = False
    gone: bool = False
    frozen: bool = False
    immortal_until: float = 0.0
    """It waits for a disk that does not answer, and takes no signal before."""
    fault_in: int = -1
    """The number of system calls until ``fault``; -1: none."""
    fault: Callable[[], None] | None = None
    connections: list[Any] = field(default_factory=list)
    result: BaseException | None = None
    finished: bool = False
    """Whether its function has returned."""
    ended_at: float = 0.0
    """By the steady clock, once it does not run."""

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return not (self.zombie or self.gone)


class Machine:
    """A table of processes, in the virtual time of a kernel."""

    def __init__(self, seed: str, wall_s: float, *, keep_story: bool = False) -> None:
        self.kernel = kernel.Kernel(f"machine {seed}")
        self.kernel.now, self.kernel.wall_offset = 0.0, wall_s
        self.random = self.kernel.random
        self.processes: dict[int, Process] = {}
        self.disk_full = False
        self.failure: Failure | None = None
        self.keep_story = keep_story
        self.story: list[tuple[float, float, str, str]] = []
        """Steady time, wall clock, who, and what."""
        self.calls = 0
        """How many calls of the system there were."""
        self.at, self.after = self.kernel.at, self.kernel.after
        self._number = 0
        self._pid = _FIRST_PID
        self._of: dict[kernel.Process, Process] = {}
        """The living processes of the product."""

    # Time

    @property
    def now(self) -> float:
        """The steady clock, in seconds from the start."""
        return self.kernel.now

    @property
    def wall(self) -> float:
        """The wall clock, in seconds since 1970."""
        return self.kernel.wall

    @property
    def steps(self) -> int:
        """How often the kernel dispatched an event, or could have stopped a process."""
        return self.kernel.steps + self.calls

    @property
    def over(self) -> bool:
        """Whether the simulation has ended, and processes only unwind."""
        return self.kernel.closed

    @property
    def current(self) -> Process | None:
        """The process that runs; None: events do."""
        thread = self.kernel.current
        return self._of.get(thread.process) if thread is not None else None

    def set_clock(self, seconds: float) -> None:
        """Move the wall clock by so many seconds."""
        self.kernel.wall_offset += seconds

    def run(self, until: float) -> None:
        """Dispatch events until a moment of the steady clock. Raises Failure."""
        self.kernel.run(until)
        if self.failure is not None:
            raise self.failure

    def run_until(self, condition: Callable[[], bool], within: float) -> bool:
        """Dispatch events until a condition holds. Returns whether it did within so long."""
        if condition():
            return True

        def stop_if_it_holds() -> None:
            if condition():
                self.kernel.stop()

        self.kernel.after_step = stop_if_it_holds
        try:
            self.run(self.now + within)
        finally:
            self.kernel.after_step = None
        return condition()

    def sleep(self, seconds: float) -> None:
        """Let the current process sleep."""
        if self.over:
            raise GreenletExit
        if self.current is not None:
            self.kernel.sleep(seconds)

    def point(self) -> None:
        """A call of the system: here the process may be killed, frozen, or late."""
        self.calls += 1
        if self.over:
            raise GreenletExit
        process = self.current
        if process is None:
            return
        if process.fault_in >= 0:
            process.fault_in -= 1
            if process.fault_in < 0 and process.fault is not None:
                process.fault()
        if len(self._of) > 1 and self.random.random() < 0.2:
            self.kernel.sleep(self.random.random() * _SLOW_CALL_S)

    def note(self, who: str, what: str) -> None:
        """Add a line to the story."""
        if self.keep_story:
            self.story.append((self.now, self.wall, who, what))

    # Processes

    def start(
        self,
        name: str,
        body: Callable[[], None] | None = None,
        *,
        parent: Process | None = None,
        environ: dict[str, str] | None = None,
        cmdline: tuple[str, ...] = (),
        session: Process | None = None,
    ) -> Process:
        """Start a process. Without a body it is a stand-in. ``session``: whose session it joins."""
        pid = self._free_pid()
        self._number += 1
        process = Process(
            pid=pid,
            name=name,
            sid=session.sid if session else pid,
            started=self.now,
            ticks=self._number,
            parent=parent,
            environ=environ or {},
            cmdline=cmdline,
        )
        self.processes[pid] = process
        if body is not None:
            process.task = self.kernel.spawn(name)
            self._of[process.task] = process
            process.task.start(self._main, process, body)
        return process

    def _free_pid(self) -> int:
        while True:
            self._pid = self._pid + 1 if self._pid < _LAST_PID else _FIRST_PID
            if self._pid not in self.processes:
                return self._pid

    def _main(self, process: Process, body: Callable[[], None]) -> None:
        try:
            body()
        except GreenletExit:
            return
        except Failure as failure:
            self.failure = failure
            self.kernel.stop()
        except BaseException as error:
            process.result = error
            self.note(process.name, f"dies of {error!r}")
        if not self.over:
            process.finished = True
            self.end(process)

    def freeze(self, process: Process, seconds: float) -> None:
        """Stop a process for a time: its disk does not answer, or its machine sleeps."""
        if not process.alive or process.frozen:
            return
        assert process.task is not None
        self.note(process.name, f"is frozen for {seconds:.0f} s")
        process.frozen = True
        process.task.freeze()
        self.after(seconds, self._thaw, process)
        if process is self.current:
            self.kernel.sleep(0.0)

    def _thaw(self, process: Process) -> None:
        process.frozen = False
        if process.alive and process.task is not None:
            self.note(process.name, "goes on")
            process.task.thaw()

    def signal(self, process: Process, number: int) -> None:
        """Deliver a signal."""
        if not process.alive:
            return
        if number == SIGKILL:
            self.kill(process)
        elif process.on_signal is not None:
            process.on_signal(number)
        else:
            self.end(process)

    def kill(self, process: Process) -> None:
        """End a process as SIGKILL does. Does not return if it is the current one."""
        if not process.alive:
            return
        if process.immortal_until > self.now:
            self.at(process.immortal_until, self.kill, process)
            return
        self.note(process.name, "is killed")
        self.end(process)
        if process.task is not None:
            process.task.kill()

    def end(self, process: Process) -> None:
        """End a process: the system closes its files and connections."""
        if process.task is not None:
            del self._of[process.task]
        for connection in process.connections:
            connection.close()
        process.connections.clear()
        for child in [one for one in self.processes.values() if one.parent is process]:
            child.parent = None
            if child.zombie:
                self.reap(child)
        process.zombie, process.ended_at = True, self.now
        if process.on_end is not None:
            self.after(0.0, process.on_end)
        if process.parent is None or not process.parent.alive:
            self.reap(process)

    def reap(self, process: Process) -> None:
        """Remove a zombie."""
        process.gone = True
        if self.processes.get(process.pid) is process:
            del self.processes[process.pid]

    def close(self) -> None:
        """Give up all processes. Their ``finally`` blocks run now, after the judgement."""
        self.kernel.close()
        self.processes.clear()
