"""The kernel of a simulation: greenlets, virtual time, processes, and stand-ins that wait."""

from __future__ import annotations

import gc
import queue as real_queue
import weakref
from collections.abc import Iterator

import pytest

from simulation.kernel import Kernel
from simulation.kernel.stand_ins import queue_module, random_module, threading_module, time_module


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    """A kernel that ends its threads."""
    made = Kernel(1)
    yield made
    made.close()


def test_time_moves_only_when_every_thread_waits(kernel: Kernel) -> None:
    """Two threads sleep for a day each, beside each other. That takes no time."""
    time, woken = time_module(kernel), []

    def sleeper(seconds: float) -> None:
        time.sleep(seconds)
        woken.append(time.monotonic())

    began = kernel.now
    for seconds in (86_400.0, 10.0):
        kernel.spawn("process").start(sleeper, seconds)
    kernel.run()
    assert [began + 10.0, began + 86_400.0] == woken


def test_the_wall_clock_steps_alone(kernel: Kernel) -> None:
    """Somebody sets the clock on the wall back. Steady time goes on."""
    time, before = time_module(kernel), kernel.now
    wall = time.time()
    kernel.wall_offset -= 3600
    assert wall - 3600 == time.time()
    assert before == time.monotonic()


def test_kill_runs_no_finally(kernel: Kernel) -> None:
    """A process that is killed does nothing more. What its system releases is released."""
    done: list[str] = []

    def work() -> None:
        try:
            kernel.sleep(10.0)
        finally:
            done.append("finally")

    process = kernel.spawn("process")
    process.start(work)
    process.on_end(lambda: done.append("released"))
    kernel.after(1.0, process.kill)
    kernel.run()
    assert not process.alive
    assert done == ["released"]


def test_a_frozen_process_wakes_later(kernel: Kernel) -> None:
    """While a process is stopped its timers go on, and it runs once it is continued."""
    seen: list[float] = []
    process = kernel.spawn("process")
    process.start(lambda: (kernel.sleep(1.0), seen.append(kernel.now)))
    began = kernel.now
    kernel.after(0.5, process.freeze)
    kernel.after(7.0, process.thaw)
    kernel.run()
    assert seen == [began + 7.0]


def test_stand_ins_wait_in_virtual_time(kernel: Kernel) -> None:
    """Locks, conditions, events, queues and joins wait until another thread acts, or too late."""
    threading, queue = threading_module(kernel), queue_module(kernel)
    results: list[object] = []

    def main() -> None:
        event, condition, mailbox = threading.Event(), threading.Condition(), queue.SimpleQueue()
        results.append(event.wait(2.0))

        def other() -> None:
            with condition:
                kernel.sleep(1.0)
                condition.notify_all()
            mailbox.put("a letter")
            event.set()

        thread = threading.Thread(target=other, name="other", daemon=True)
        with condition:
            thread.start()
            results.append(condition.wait(5.0))
        results.append(mailbox.get(timeout=1.0))
        results.append(event.wait(1.0))
        thread.join()
        results.append(thread.is_alive())
        with pytest.raises(real_queue.Empty):
            mailbox.get(timeout=1.0)

    kernel.spawn("process").start(main)
    kernel.run()
    assert not kernel.crashes
    assert results == [False, True, "a letter", True, False]


def test_a_seed_decides_the_order() -> None:
    """The same seed gives the same order of threads twice. Some other seed gives another one."""

    def order(seed: int) -> list[int]:
        kernel, seen = Kernel(seed), []
        chance = random_module(kernel)
        process = kernel.spawn("process")
        for number in range(6):

            def work(number: int = number) -> None:
                for _ in range(3):
                    kernel.sleep(chance.uniform(0.0, 1.0))
                    seen.append(number)

            process.start(work)
        kernel.run()
        kernel.close()
        return seen

    assert order(1) == order(1)
    assert any(order(1) != order(other) for other in range(2, 9))


def test_a_crash_is_kept(kernel: Kernel) -> None:
    """An exception that no code catches ends its thread, and the kernel notes it."""

    def fail() -> None:
        raise ValueError("a bug")

    kernel.spawn("process").start(fail)
    kernel.run()
    assert ["a bug"] == [str(crash.error) for crash in kernel.crashes]


def test_a_closed_kernel_leaves_nothing() -> None:
    """A run of many seeds needs no more memory than one: nothing holds a kernel that is closed."""
    kernel = Kernel(1)
    kernel.spawn("process").start(kernel.sleep, 1e9)
    kernel.run(until=kernel.now + 1.0)
    kernel.close()
    closed = weakref.ref(kernel)
    del kernel
    gc.collect()

    assert closed() is None
