"""The scheduler: simulated threads are greenlets, and one seed says which goes next.

A step is one event that the scheduler dispatches: a thread that goes on, or a timer's call. Time
moves only when no thread is ready. A killed process is never resumed, so no ``finally`` of it runs.
Its greenlets are kept until the end, when ``close`` unwinds them; then every wait raises.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from greenlet import GreenletExit, getcurrent, greenlet

Waiters = list["Thread"]
_FOREVER = float("inf")
_START_S, _START_WALL_S = 1000.0, 1_800_000_000.0
WALL_AT_START_S = _START_S + _START_WALL_S
"""Seconds since 1970 when a simulation begins."""


@dataclass(frozen=True, slots=True)
class Crash:
    """An exception that no code of a thread caught."""

    thread: Thread
    error: BaseException


class Thread:
    """A simulated thread."""

    __slots__ = ("daemon", "greenlet", "kernel", "name", "number", "process", "waits", "woken")

    def __init__(self, process: Process, name: str, call: Callable[[], object]) -> None:
        self.kernel = process.kernel
        self.process = process
        self.name = name
        self.number = self.kernel.next_number()
        self.daemon = False
        self.waits = 0
        """How many waits have ended. A timer of an earlier wait is stale."""
        self.woken = True
        self.greenlet: greenlet | None = greenlet(self._run, self.kernel.hub)
        self._call_of(call)

    def _call_of(self, call: Callable[[], object]) -> None:
        self.kernel.calls[self] = call

    def _run(self, _: object = None) -> None:
        kernel = self.kernel
        try:
            kernel.calls.pop(self)()
        except GreenletExit:
            pass
        except BaseException as error:
            kernel.crashes.append(Crash(self, error))
        self.greenlet = None
        self.process.ended(self)

    @property
    def alive(self) -> bool:
        """Whether the thread has not ended, and was not killed."""
        return self.greenlet is not None and self.process.alive

    def __repr__(self) -> str:
        return f"{self.process.name}/{self.name}"


class Process:
    """A simulated process: its threads, and what ends with it."""

    def __init__(self, kernel: Kernel, name: str, pid: int) -> None:
        self.kernel = kernel
        self.name = name
        self.pid = pid
        self.alive = True
        self.frozen = False
        self.threads: list[Thread] = []
        self.globals: dict[tuple[str, str], Any] = {}
        """Its own values of the product's module variables; see ``substitution``."""
        self._held: list[Thread] = []
        self._on_end: list[Callable[[], object]] = []
        self.exit_waiters: Waiters = []

    def start(self, call: Callable[..., object], *arguments: object, name: str = "main") -> Thread:
        """Start a thread. It is ready at once."""
        thread = Thread(self, name, lambda: call(*arguments))
        self.threads.append(thread)
        self.kernel.make_ready(thread)
        return thread

    def on_end(self, call: Callable[[], object]) -> None:
        """Call this when the process ends, in whatever way. The last one comes first."""
        self._on_end.append(call)

    def kill(self) -> None:
        """End the process as kill -9 does: no thread runs again. A thread may kill its own."""
        if not self.alive:
            return
        self._end()
        if getattr(self.kernel.current, "process", None) is self:
            self.kernel.switch_to_hub()

    def freeze(self) -> None:
        """Let no thread run until ``thaw``. Its timers go on."""
        self.frozen = True

    def thaw(self) -> None:
        """Let the threads run again."""
        self.frozen = False
        held, self._held = self._held, []
        for thread in held:
            self.kernel.make_ready(thread)

    def hold(self, thread: Thread) -> None:
        """Keep a ready thread until the process is no longer frozen."""
        self._held.append(thread)

    def ended(self, thread: Thread) -> None:
        """A thread has returned. The process ends with its first thread, as Python's does."""
        if self.alive and not any(t.alive and not t.daemon for t in self.threads):
            self._end()
        self.threads = [t for t in self.threads if t is not thread]

    def _end(self) -> None:
        self.alive = False
        self.kernel.forget(self)
        self.kernel.graveyard.extend(t for t in self.threads if t.greenlet is not None)
        while self._on_end:
            self._on_end.pop()()
        self.kernel.wake(self.exit_waiters)

    def __repr__(self) -> str:
        return f"{self.name} (pid {self.pid})"


class Kernel:
    """Threads, timers and the clock of one simulation."""

    def __init__(self, seed: int | str) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self._chance = self.random.random
        self.now = _START_S
        """Steady time in seconds, as time.monotonic gives it."""
        self.wall_offset = _START_WALL_S
        self.steps = 0
        self.step_limit = 0
        """Stop after so many steps; 0: no limit."""
        self.hub = greenlet(self._loop)
        self.current: Thread | None = None
        self.crashes: list[Crash] = []
        self.calls: dict[Thread, Callable[[], object]] = {}
        self.graveyard: list[Thread] = []
        self.closed = False
        self.preempt = 0.0
        """The chance that a thread lets another one go first where it could."""
        self.after_step: Callable[[], object] | None = None
        self.on_switch: Callable[[Process], object] | None = None
        """Called before a thread of another process than the last one runs."""
        self.thread_objects: dict[Thread, Any] = {}
        """What ``threading.current_thread`` returns."""
        self._last_process: Process | None = None
        self._ready: list[Thread] = []
        self._timers: list[tuple[float, int, Any, Any]] = []
        self._processes: list[Process] = []
        self._numbers = 0
        self._pids = 100
        self._until = _FOREVER
        self._stopped = False
        self._main: greenlet | None = None
        self._failure: BaseException | None = None

    # -- from anywhere ---------------------------------------------------------------------

    @property
    def wall(self) -> float:
        """Seconds since 1970, as a clock shows that somebody may have set."""
        return self.now + self.wall_offset

    def next_number(self) -> int:
        """Returns a number that was not used before."""
        self._numbers += 1
        return self._numbers

    def spawn(self, name: str) -> Process:
        """Returns a new process without a thread."""
        self._pids += 1
        process = Process(self, name, self._pids)
        self._processes.append(process)
        return process

    def forget(self, process: Process) -> None:
        """Drop an ended process from the list of living ones."""
        self._processes.remove(process)

    def at(self, time: float, call: Callable[..., object], *arguments: object) -> None:
        """Call this at a time, outside of any thread. A time that has passed means now."""
        self._numbers += 1
        heapq.heappush(self._timers, (max(time, self.now), self._numbers, call, arguments))

    def after(self, seconds: float, call: Callable[..., object], *arguments: object) -> None:
        """Call this after so many seconds, outside of any thread."""
        self.at(self.now + seconds, call, *arguments)

    def wake(self, waiters: Waiters) -> None:
        """Make all waiting threads ready, and empty the list."""
        for thread in waiters:
            self.make_ready_once(thread)
        waiters.clear()

    def wake_one(self, waiters: Waiters) -> None:
        """Make the thread ready that has waited longest."""
        while waiters:
            if self.make_ready_once(waiters.pop(0)):
                return

    def first_thread(self, process: Process) -> Thread:
        """Returns the thread that a process began with."""
        return min(process.threads, key=lambda thread: thread.number)

    def stop(self) -> None:
        """Return from ``run`` after this step."""
        self._stopped = True

    def run(self, until: float = _FOREVER) -> None:
        """Step until a time, until nothing is left to do, or until ``stop``."""
        self._until, self._stopped, self._main = until, False, getcurrent()
        self.hub.parent = self._main
        self.hub.switch()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def close(self) -> None:
        """End every thread, also those of killed processes. From now on each wait raises."""
        self.closed = True
        alive = [thread for process in self._processes for thread in process.threads]
        for thread in [*self.graveyard, *alive]:
            if thread.greenlet:  # it has started, and not ended
                thread.greenlet.parent = getcurrent()
                thread.greenlet.throw(GreenletExit)
            thread.greenlet = None
        if self.hub:  # the garbage collection can't free a greenlet that waits, nor what it holds
            self.hub.parent = getcurrent()
            self.hub.throw(GreenletExit)
        self._timers.clear()
        self._ready.clear()

    # -- within a thread --------------------------------------------------------------------

    def sleep(self, seconds: float) -> None:
        """Wait so many seconds. With 0, let others go first."""
        self.wait(None, self.now + max(0.0, seconds))

    def pause_point(self) -> None:
        """Perhaps let another thread go first, by chance."""
        if self.preempt and self.current is not None and self._chance() < self.preempt:
            self.sleep(0.0)

    def wait(self, waiters: Waiters | None, deadline: float = _FOREVER) -> bool:
        """Wait until somebody wakes the list. Returns False if the deadline came first."""
        thread = self.current
        if self.closed:
            raise GreenletExit
        if thread is None:
            raise RuntimeError("only a simulated thread can wait")
        thread.woken = False
        if waiters is not None:
            waiters.append(thread)
        if deadline < _FOREVER:
            self._numbers += 1
            entry = (max(deadline, self.now), self._numbers, thread, thread.waits)
            heapq.heappush(self._timers, entry)
        self.hub.switch()
        if self.closed:
            raise GreenletExit
        if thread.woken:
            return True
        if waiters is not None and thread in waiters:
            waiters.remove(thread)
        return False

    def switch_to_hub(self) -> NoReturn:
        """Leave a thread that must never run again."""
        self.hub.switch()
        raise GreenletExit

    # -- the scheduler ----------------------------------------------------------------------

    def make_ready(self, thread: Thread) -> None:
        """Let a thread run at one of the next steps."""
        self._ready.append(thread)

    def make_ready_once(self, thread: Thread) -> bool:
        """Make a thread ready if it waits. Returns whether it did."""
        if thread.woken or thread.greenlet is None or not thread.process.alive:
            return False
        thread.woken = True
        thread.waits += 1
        self._ready.append(thread)
        return True

    def _loop(self) -> None:
        while True:
            try:
                self._steps()
            except BaseException as failure:
                self._failure = failure
            self.current = None
            assert self._main is not None
            self._main.switch()

    def _steps(self) -> None:
        ready, timers, chance = self._ready, self._timers, self._chance
        while not self._stopped:
            if ready:
                count = len(ready)
                if count > 1:
                    index = int(chance() * count)
                    ready[index], ready[-1] = ready[-1], ready[index]
                self._resume(ready.pop())
            elif timers and timers[0][0] <= self._until:
                time, _, target, detail = heapq.heappop(timers)
                if type(target) is Thread:
                    if target.waits != detail or not target.process.alive:
                        continue
                    self.now = time
                    target.waits += 1
                    self._resume(target)
                else:
                    self.now = time
                    self.steps += 1
                    self.current = None
                    target(*detail)
            else:
                if self._until != _FOREVER:
                    self.now = max(self.now, self._until)
                return
            if self.after_step is not None:
                self.after_step()
            if self.step_limit and self.steps >= self.step_limit:
                return

    def _resume(self, thread: Thread) -> None:
        process = thread.process
        if thread.greenlet is None or not process.alive:
            return
        if process.frozen:
            process.hold(thread)
            return
        self.steps += 1
        if process is not self._last_process:
            self._last_process = process
            if self.on_switch is not None:
                self.on_switch(process)
        self.current = thread
        thread.greenlet.switch()
        self.current = None
