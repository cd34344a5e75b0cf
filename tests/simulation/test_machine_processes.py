"""Processes of a simulated machine: what they inherit, what they leave, and their signals."""

from __future__ import annotations

import errno
import select
import signal
import subprocess
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from simulation.kernel import Kernel
from simulation.machine import Machine, OsProcess
from simulation.machine.stand_ins import Unknown, machine_modules

DEVNULL = subprocess.DEVNULL


class Host:
    """A machine whose programs a test writes."""

    def __init__(self, **programs: Callable[[], int | None]) -> None:
        self.kernel = Kernel(1)
        self.machine = Machine(self.kernel, programs=programs)
        self.machine.tree.mkdir("/t", 0o700, self.machine.uid)
        modules = machine_modules(self.machine)
        self.m = SimpleNamespace(**{name.rpartition(".")[2]: m for name, m in modules.items()})

    def process(self, call: Callable[[], object], name: str = "worker") -> OsProcess:
        """A process that runs a function."""
        process = self.machine.adopt(self.kernel.spawn(name), self.machine.init, "python3")
        process.reaps_children = False
        process.process.start(call)
        return process

    def run(self, seconds: float = 100.0) -> None:
        """Step for so many seconds. No thread may fail."""
        self.kernel.run(until=self.kernel.now + seconds)
        assert not self.kernel.crashes, self.kernel.crashes[0].error

    def popen(self, program: str, *passed: int) -> Any:
        """Start a program."""
        with self.m.Path("/t/log").open("wb") as log:
            return self.m.subprocess.Popen(
                ["python3", "-m", program],
                stdin=DEVNULL,
                stdout=log,
                stderr=log,
                env={"A": "b"},
                start_new_session=True,
                pass_fds=passed,
            )

    def lock(self, file: Any) -> bool:
        """Whether a file could be locked."""
        try:
            self.m.fcntl.flock(file, self.m.fcntl.LOCK_EX | self.m.fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def test_an_inherited_lock_is_held_until_both_processes_have_ended() -> None:
    """A lock outlives the worker that took it, and ends with the program that inherited it."""
    taken: list[bool] = []

    def start_and_die() -> None:
        lock = host.m.Path("/t/lock").open("ab")
        assert host.lock(lock)
        host.popen("sleep", lock.fileno())
        host.machine.current.send_signal(signal.SIGKILL)

    def look() -> None:
        for _ in range(2):
            host.kernel.sleep(5)
            with host.m.Path("/t/lock").open("ab") as lock:
                taken.append(host.lock(lock))

    host = Host(sleep=lambda: host.kernel.sleep(7))
    host.process(start_and_die)
    host.process(look)
    host.run()

    assert [False, True] == taken


def test_a_program_has_only_the_descriptors_that_are_passed() -> None:
    """Descriptors of the worker that are not passed are closed in its child."""
    seen: list[list[int]] = []

    def start() -> None:
        first = host.m.Path("/t/a").open("ab")
        second = host.m.Path("/t/b").open("ab")
        host.popen("look", second.fileno())
        first.close()

    host = Host(look=lambda: seen.append(sorted(host.machine.current.descriptors)))
    host.process(start)
    host.run()

    assert [[0, 1, 2, 4]] == seen


def test_a_killed_process_runs_no_finally_and_leaves_no_descriptor() -> None:
    """After kill -9 no code runs. The machine closes the listener, and the lock is free."""
    ran: list[str] = []

    def serve() -> None:
        lock = host.m.Path("/t/lock").open("ab")
        listener = host.m.socket.socket(host.m.socket.AF_UNIX, host.m.socket.SOCK_STREAM)
        try:
            assert host.lock(lock)
            listener.bind("/t/s")
            listener.listen(5)
            host.kernel.sleep(50)
        finally:
            ran.append("finally")

    host = Host()
    server = host.process(serve)
    host.run(1)
    assert 1 == len(host.machine.listeners())
    server.send_signal(signal.SIGKILL)
    host.run()

    assert [] == ran == host.machine.listeners()
    assert host.machine.tree.find("/t/lock").lock is None
    assert host.machine.tree.exists("/t/s")


def test_a_stopped_process_handles_a_signal_when_it_goes_on() -> None:
    """SIGTERM waits for SIGCONT. Then its handler runs; without one, the process ends."""
    handled: list[float] = []

    def wait() -> None:
        host.m.signal.signal(signal.SIGTERM, lambda *_: handled.append(host.kernel.now))
        host.kernel.sleep(50)

    host = Host()
    with_handler, without = host.process(wait), host.process(lambda: host.kernel.sleep(50))
    host.run(1)
    for process in (with_handler, without):
        process.send_signal(signal.SIGSTOP)
        process.send_signal(signal.SIGTERM)
    host.run(5)
    assert not handled
    assert without.running
    for process in (with_handler, without):
        process.send_signal(signal.SIGCONT)
    host.run(1)

    assert [1006.0] == handled
    assert (True, False, -signal.SIGTERM) == (with_handler.running, without.running, without.status)


def test_an_alarm_ends_a_process_unless_it_is_taken_back() -> None:
    """alarm(2) kills after its seconds, and alarm(0) takes it back."""

    def wait(*alarms: int) -> None:
        for seconds in alarms:
            host.m.signal.alarm(seconds)
        host.kernel.sleep(20)

    host = Host()
    late, saved = host.process(lambda: wait(5)), host.process(lambda: wait(5, 0))
    host.run(50)

    assert (-signal.SIGALRM, 0) == (late.status, saved.status)


def test_a_child_keeps_its_pid_until_its_parent_waits() -> None:
    """A pidfd tells of the end at once; /proc names the child until poll() was called."""
    seen: list[object] = []

    def start() -> None:
        child = host.popen("nothing")
        descriptor = host.m.os.pidfd_open(child.pid)
        poll = host.m.select.poll()
        poll.register(descriptor, select.POLLIN)
        stat = host.m.Path(f"/proc/{child.pid}/stat")
        seen.extend((poll.poll(0), poll.poll(5000) == [(descriptor, select.POLLIN)]))
        seen.extend((" Z " in stat.read_text(), child.poll(), stat.exists()))
        with pytest.raises(ProcessLookupError):
            host.m.os.pidfd_open(child.pid)

    host = Host(nothing=lambda: 3)
    host.process(start)
    host.run()

    assert [[], True, True, 3, False] == seen


def test_limits_of_descriptors_and_of_the_disk() -> None:
    """Without a free descriptor a message loses the one that it carries. A full disk says so."""
    seen: list[object] = []

    def fill() -> None:
        os, socket = host.m.os, host.m.socket
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind("/t/s")
        listener.listen(1)
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        client.connect("/t/s")
        server, _ = listener.accept()
        socket.send_fds(server, [b"x"], [os.memfd_create("m", 0)])
        process.limits[host.machine.nofile] = (7, 7)
        seen.append(socket.recv_fds(client, 1, 4)[:3])
        with pytest.raises(OSError, match="Too many open files"):
            os.memfd_create("m", 0)
        listener.close()
        host.machine.tree.full = True
        with pytest.raises(OSError, match="No space left") as full:
            host.m.Path("/t/file").write_text("text")
        seen.extend((full.value.errno == errno.ENOSPC, host.m.Path("/t/file").read_text()))

    host = Host()
    process = host.process(fill)
    host.run()

    assert [(b"x", [], host.m.socket.MSG_CTRUNC), True, ""] == seen


def test_shared_memory_lives_as_long_as_anything_refers_to_it() -> None:
    """A segment counts until its descriptors are closed and its mappings are gone."""
    counts: list[int] = []

    def use() -> None:
        number = host.m.os.memfd_create("m", 0)
        host.m.os.ftruncate(number, 4096)
        memory = host.m.mmap.mmap(number, 4096)
        memory[:2] = b"ab"
        host.m.os.close(number)
        counts.append(len(host.machine.tree.segments()))
        memory.close()
        counts.append(len(host.machine.tree.segments()))

    host = Host()
    host.process(use)
    host.run()

    assert [1, 0] == counts


def test_a_call_that_the_machine_does_not_have() -> None:
    """A call that is not simulated is an error that names it, and never the real one."""
    host = Host()
    with pytest.raises(Unknown, match=r"no os\.fork"):
        host.m.os.fork()
