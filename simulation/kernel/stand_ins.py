"""Stand-ins for ``time``, ``threading``, ``queue`` and ``random``, over one kernel.

They have what the product uses, with the semantics of Python's documentation. Code outside of a
simulated thread may call whatever does not wait.
"""

from __future__ import annotations

import queue as real_queue
import random as real_random
import threading as real_threading
import time as real_time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from simulation.kernel.scheduler import Kernel, Process, Thread, Waiters

_FOREVER = float("inf")


def time_module(kernel: Kernel) -> SimpleNamespace:
    """Returns a stand-in for ``time``."""
    return SimpleNamespace(
        monotonic=lambda: kernel.now,
        monotonic_ns=lambda: int(kernel.now * 1e9),
        perf_counter=lambda: kernel.now,
        perf_counter_ns=lambda: int(kernel.now * 1e9),
        process_time=lambda: kernel.now,
        thread_time=lambda: kernel.now,
        time=lambda: kernel.wall,
        time_ns=lambda: int(kernel.wall * 1e9),
        sleep=kernel.sleep,
        gmtime=lambda s=None: real_time.gmtime(kernel.wall if s is None else s),
        localtime=lambda s=None: real_time.localtime(kernel.wall if s is None else s),
        strftime=lambda form, t=None: real_time.strftime(form, t or real_time.gmtime(kernel.wall)),
        struct_time=real_time.struct_time,
        mktime=real_time.mktime,
    )


def random_module(kernel: Kernel) -> SimpleNamespace:
    """Returns a stand-in for ``random``."""
    chance = kernel.random
    return SimpleNamespace(
        random=chance.random,
        uniform=chance.uniform,
        randrange=chance.randrange,
        randint=chance.randint,
        choice=chance.choice,
        shuffle=chance.shuffle,
        sample=chance.sample,
        Random=lambda seed=None: real_random.Random(chance.random() if seed is None else seed),
        SystemRandom=lambda: chance,
    )


class Lock:
    """threading.Lock. It wakes the thread that has waited longest."""

    __slots__ = ("_kernel", "_locked", "_waiters")

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._locked = False
        self._waiters: Waiters = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock. Returns whether it was free in time."""
        kernel = self._kernel
        if kernel.preempt and blocking:
            kernel.pause_point()
        deadline = kernel.now + timeout if timeout >= 0 else _FOREVER
        while self._locked:
            if kernel.closed:
                return True
            if not blocking or not kernel.wait(self._waiters, deadline):
                return False
        self._locked = True
        return True

    def release(self) -> None:
        """Give the lock back."""
        if not self._locked and not self._kernel.closed:
            raise RuntimeError("release unlocked lock")
        self._locked = False
        if self._waiters:
            self._kernel.wake_one(self._waiters)

    def locked(self) -> bool:
        """Returns whether anybody holds the lock."""
        return self._locked

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()


class RLock:
    """threading.RLock."""

    __slots__ = ("_count", "_lock", "_owner")

    def __init__(self, kernel: Kernel) -> None:
        self._lock = Lock(kernel)
        self._owner: Thread | None = None
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock, also a second time."""
        current = self._lock._kernel.current
        if self._count and self._owner is current:
            self._count += 1
            return True
        if not self._lock.acquire(blocking, timeout):
            return False
        self._owner, self._count = current, 1
        return True

    def release(self) -> None:
        """Give the lock back as often as it was taken."""
        self._count -= 1
        if self._count <= 0:
            self._owner, self._count = None, 0
            self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()


class Condition:
    """threading.Condition."""

    __slots__ = ("_kernel", "_lock", "_waiters", "acquire", "release")

    def __init__(self, kernel: Kernel, lock: Lock | RLock | None = None) -> None:
        self._kernel = kernel
        self._lock = lock or RLock(kernel)
        self._waiters: Waiters = []
        self.acquire = self._lock.acquire
        self.release = self._lock.release

    def wait(self, timeout: float | None = None) -> bool:
        """Release the lock, wait for ``notify``, and take the lock again."""
        self._lock.release()
        try:
            deadline = _FOREVER if timeout is None else self._kernel.now + max(0.0, timeout)
            return self._kernel.wait(self._waiters, deadline)
        finally:
            self._lock.acquire()

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until the predicate holds. Returns its last value."""
        deadline = _FOREVER if timeout is None else self._kernel.now + timeout
        while not (result := predicate()) and self._kernel.now < deadline:
            self.wait(None if timeout is None else deadline - self._kernel.now)
        return result

    def notify(self, n: int = 1) -> None:
        """Wake so many waiting threads."""
        for _ in range(n):
            self._kernel.wake_one(self._waiters)

    def notify_all(self) -> None:
        """Wake every waiting thread."""
        self._kernel.wake(self._waiters)

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


class Event:
    """threading.Event."""

    __slots__ = ("_is_set", "_kernel", "_waiters")

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._is_set = False
        self._waiters: Waiters = []

    def is_set(self) -> bool:
        """Returns whether ``set`` was called."""
        return self._is_set

    def set(self) -> None:
        """Wake every waiting thread."""
        self._is_set = True
        self._kernel.wake(self._waiters)

    def clear(self) -> None:
        """Take ``set`` back."""
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until ``set``. Returns whether it came in time."""
        deadline = _FOREVER if timeout is None else self._kernel.now + max(0.0, timeout)
        while not self._is_set:
            if not self._kernel.wait(self._waiters, deadline):
                break
        return self._is_set


class Semaphore:
    """threading.Semaphore and BoundedSemaphore."""

    __slots__ = ("_condition", "_value")

    def __init__(self, kernel: Kernel, value: int = 1) -> None:
        self._condition = Condition(kernel, Lock(kernel))
        self._value = value

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Take one. Returns whether there was one in time."""
        with self._condition:
            wait_s = timeout if blocking else 0.0
            if not self._condition.wait_for(lambda: self._value > 0, wait_s):
                return False
            self._value -= 1
            return True

    def release(self, n: int = 1) -> None:
        """Give back."""
        with self._condition:
            self._value += n
            self._condition.notify(n)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()


class StandInThread:
    """threading.Thread, in the process of the thread that makes it."""

    def __init__(
        self,
        group: None = None,
        target: Callable[..., object] | None = None,
        name: str | None = None,
        args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        daemon: bool | None = None,
    ) -> None:
        kernel = self._kernel
        assert kernel.current is not None
        self._process: Process = kernel.current.process
        self._target, self._arguments, self._named = target, tuple(args), dict(kwargs or {})
        self.name = name or f"Thread-{kernel.next_number()}"
        self.daemon = bool(daemon)
        self._thread: Thread | None = None
        self._joiners: Waiters = []
        self._ended = False

    _kernel: Kernel

    def run(self) -> None:
        """Call the target."""
        if self._target is not None:
            self._target(*self._arguments, **self._named)

    def start(self) -> None:
        """Start the thread."""
        if refuse := self._process.globals.get(("threading", "refuse")):
            raise refuse
        self._thread = self._process.start(self._run_and_end, name=self.name)
        self._thread.daemon = self.daemon
        self._kernel.thread_objects[self._thread] = self
        self._kernel.pause_point()

    def _run_and_end(self) -> None:
        try:
            self.run()
        finally:
            self._ended = True
            self._kernel.wake(self._joiners)

    def join(self, timeout: float | None = None) -> None:
        """Wait until the thread has ended."""
        deadline = _FOREVER if timeout is None else self._kernel.now + timeout
        while not self._ended and self._thread is not None:
            if not self._kernel.wait(self._joiners, deadline):
                return

    def is_alive(self) -> bool:
        """Returns whether the thread runs."""
        return self._thread is not None and not self._ended

    @property
    def ident(self) -> int | None:
        """The thread's number."""
        return self._thread.number if self._thread else None

    native_id = ident


class _Current:
    """What ``current_thread`` returns for a process' first thread."""

    def __init__(self, thread: Thread) -> None:
        self._thread = thread
        self.daemon = False
        self.ident = thread.number

    @property
    def name(self) -> str:
        return self._thread.name

    @name.setter
    def name(self, text: str) -> None:
        self._thread.name = text


class Local:
    """threading.local."""

    def __init__(self, kernel: Kernel) -> None:
        object.__setattr__(self, "_kernel", kernel)
        object.__setattr__(self, "_by_thread", {})

    def _values(self) -> dict[str, Any]:
        of: dict[str, Any] = self._by_thread.setdefault(self._kernel.current, {})
        return of

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values()[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self._values()[name] = value

    def __delattr__(self, name: str) -> None:
        del self._values()[name]


def threading_module(kernel: Kernel) -> SimpleNamespace:
    """Returns a stand-in for ``threading``."""
    kernel.thread_objects = {}
    thread_class = type("Thread", (StandInThread,), {"_kernel": kernel})

    def current_thread() -> Any:
        current = kernel.current
        if current is None:
            return real_threading.current_thread()
        known = kernel.thread_objects.get(current)
        if known is None:
            known = kernel.thread_objects[current] = _Current(current)
        return known

    def main_thread() -> Any:
        current = kernel.current
        if current is None:
            return real_threading.main_thread()
        first = kernel.first_thread(current.process)
        return current_thread() if first is current else kernel.thread_objects.get(first, first)

    return SimpleNamespace(
        Lock=lambda: Lock(kernel),
        RLock=lambda: RLock(kernel),
        Condition=lambda lock=None: Condition(kernel, lock),
        Event=lambda: Event(kernel),
        Semaphore=lambda value=1: Semaphore(kernel, value),
        BoundedSemaphore=lambda value=1: Semaphore(kernel, value),
        Thread=thread_class,
        local=lambda: Local(kernel),
        current_thread=current_thread,
        main_thread=main_thread,
        get_ident=lambda: kernel.current.number if kernel.current else 0,
        TIMEOUT_MAX=real_threading.TIMEOUT_MAX,
        ExceptHookArgs=getattr(real_threading, "ExceptHookArgs", None),
    )


class SimpleQueue:
    """queue.SimpleQueue, and queue.Queue with a size."""

    __slots__ = ("_items", "_kernel", "_maxsize", "_readers", "_writers")

    def __init__(self, kernel: Kernel, maxsize: int = 0) -> None:
        self._kernel = kernel
        self._items: deque[Any] = deque()
        self._maxsize = maxsize
        self._readers: Waiters = []
        self._writers: Waiters = []

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Add an item. Raises queue.Full."""
        kernel = self._kernel
        deadline = _FOREVER if timeout is None else kernel.now + timeout
        while self._maxsize and len(self._items) >= self._maxsize:
            if not block or not kernel.wait(self._writers, deadline):
                raise real_queue.Full
        self._items.append(item)
        kernel.wake_one(self._readers)
        kernel.pause_point()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Take the oldest item. Raises queue.Empty."""
        kernel = self._kernel
        deadline = _FOREVER if timeout is None else kernel.now + max(0.0, timeout)
        while not self._items:
            if not block or not kernel.wait(self._readers, deadline):
                raise real_queue.Empty
        item = self._items.popleft()
        if self._writers:
            kernel.wake_one(self._writers)
        return item

    def get_nowait(self) -> Any:
        """Take the oldest item, or raise queue.Empty."""
        return self.get(block=False)

    def put_nowait(self, item: Any) -> None:
        """Add an item, or raise queue.Full."""
        self.put(item, block=False)

    def empty(self) -> bool:
        """Returns whether there is no item."""
        return not self._items

    def qsize(self) -> int:
        """Returns the number of items."""
        return len(self._items)


def queue_module(kernel: Kernel) -> SimpleNamespace:
    """Returns a stand-in for ``queue``."""
    return SimpleNamespace(
        SimpleQueue=lambda: SimpleQueue(kernel),
        Queue=lambda maxsize=0: SimpleQueue(kernel, maxsize),
        Empty=real_queue.Empty,
        Full=real_queue.Full,
    )


def all_modules(kernel: Kernel) -> dict[str, Any]:
    """Returns the stand-ins by the names of their modules."""
    return {
        "time": time_module(kernel),
        "threading": threading_module(kernel),
        "queue": queue_module(kernel),
        "random": random_module(kernel),
    }
