"""One simulated machine: virtual time, and processes that a seed starts, stops and kills.

A process of the product is a greenlet. It runs until it sleeps, or until a call of the system where
the machine lets another process go first. A killed process is never resumed: no ``finally`` of it
runs before the machine's end.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from greenlet import GreenletExit, getcurrent, greenlet

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
    thread: greenlet | None = None
    """None: a stand-in, which events move."""
    on_signal: Callable[[int], None] | None = None
    on_end: Callable[[], None] | None = None
    zombie: bool = False
    gone: bool = False
    frozen: bool = False
    dozing: bool = False
    """It was due while it was frozen."""
    immortal_until: float = 0.0
    """It waits for a disk that does not answer, and takes no signal before."""
    fault_in: int = -1
    """The number of system calls until ``fault``; -1: none."""
    fault: Callable[[], None] | None = None
    connections: list[Any] = field(default_factory=list)
    result: BaseException | None = None
    finished: bool = False
    """Whether its function has returned."""

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return not (self.zombie or self.gone)


class Machine:
    """Virtual time and a table of processes. One thread of the system runs all of them."""

    def __init__(self, seed: str, wall_s: float, *, keep_story: bool = False) -> None:
        self.random = random.Random(f"machine {seed}")
        self.now = 0.0
        self.wall_offset = wall_s
        self.steps = 0
        self.current: Process | None = None
        self.processes: dict[int, Process] = {}
        self.disk_full = False
        self.over = False
        self.failure: Failure | None = None
        self.keep_story = keep_story
        self.story: list[tuple[float, str, str]] = []
        self.busy = 0
        """How many processes are between two sleeps of their own."""
        self._hub = getcurrent()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._pid = _FIRST_PID
        self._killed: list[greenlet] = []

    # Time

    @property
    def wall(self) -> float:
        """The wall clock, in seconds since 1970."""
        return self.now + self.wall_offset

    def at(self, when: float, action: Callable[[], None]) -> None:
        """Call ``action`` at a moment of the steady clock."""
        self._number += 1
        heapq.heappush(self._events, (max(when, self.now), self._number, action))

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Call ``action`` in so many seconds."""
        self.at(self.now + seconds, action)

    def run(self, until: float) -> None:
        """Dispatch events until a moment of the steady clock."""
        events = self._events
        while events and events[0][0] <= until:
            when, _, action = heapq.heappop(events)
            self.now = when
            self.steps += 1
            action()
            if self.failure is not None:
                raise self.failure
        self.now = max(self.now, until)

    def run_until(self, condition: Callable[[], bool], within: float) -> bool:
        """Dispatch events until a condition holds. Returns whether it did within so long."""
        deadline = self.now + within
        while not condition():
            if not self._events or self._events[0][0] > deadline:
                self.now = deadline
                return condition()
            self.run(self._events[0][0])
        return True

    def sleep(self, seconds: float) -> None:
        """Let the current process sleep."""
        if self.over:
            raise GreenletExit
        process = self.current
        if process is None or process.thread is None:
            return
        self.after(max(seconds, 0.0), lambda: self._resume(process))
        self._hub.switch()

    def point(self) -> None:
        """A call of the system: here the process may be killed, frozen, or late."""
        self.steps += 1
        if self.over:
            raise GreenletExit
        process = self.current
        if process is None or process.thread is None:
            return
        if process.fault_in >= 0:
            process.fault_in -= 1
            if process.fault_in < 0 and process.fault is not None:
                process.fault()
        if self.busy > 1 and self.random.random() < 0.2:
            self.sleep(self.random.random() * _SLOW_CALL_S)

    def note(self, who: str, what: str) -> None:
        """Add a line to the story."""
        if self.keep_story:
            self.story.append((self.now, who, what))

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
            process.thread = greenlet(lambda: self._main(process, body), parent=self._hub)
            self.busy += 1
            self.after(0.0, lambda: self._resume(process))
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
        except BaseException as error:
            process.result = error
            self.note(process.name, f"dies of {error!r}")
        if not self.over:
            process.finished = True
            self.end(process)
            self._hub.switch()

    def _resume(self, process: Process) -> None:
        if not process.alive or process.thread is None:
            return
        if process.frozen:
            process.dozing = True
            return
        self.current = process
        try:
            process.thread.switch()
        finally:
            self.current = None

    def freeze(self, process: Process, seconds: float) -> None:
        """Stop a process for a time: its disk does not answer, or its machine sleeps."""
        if not process.alive or process.frozen:
            return
        self.note(process.name, f"is frozen for {seconds:.0f} s")
        process.frozen = True
        self.after(seconds, lambda: self._thaw(process))
        if process is self.current:
            process.dozing = True
            self._hub.switch()

    def _thaw(self, process: Process) -> None:
        process.frozen = False
        if process.alive:
            self.note(process.name, "goes on")
        if process.dozing:
            process.dozing = False
            self._resume(process)

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
            self.at(process.immortal_until, lambda: self.kill(process))
            return
        self.note(process.name, "is killed")
        current = process is self.current
        self.end(process)
        if current:
            self._stay_dead()

    def _stay_dead(self) -> NoReturn:
        self._hub.switch()
        raise GreenletExit

    def end(self, process: Process) -> None:
        """End a process: the system closes its files and connections."""
        if process.thread is not None:
            self.busy -= 1
            self._killed.append(process.thread)
        for connection in process.connections:
            connection.close()
        process.connections.clear()
        for child in [one for one in self.processes.values() if one.parent is process]:
            child.parent = None
            if child.zombie:
                self.reap(child)
        process.zombie = True
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
        self.over = True
        threads = [one.thread for one in self.processes.values() if one.thread is not None]
        for thread in [*threads, *self._killed]:
            for _ in range(5):
                if thread.dead:
                    break
                try:
                    thread.throw(GreenletExit)
                except BaseException:
                    continue
        self._killed.clear()
        self.processes.clear()
