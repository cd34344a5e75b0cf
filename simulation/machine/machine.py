"""A simulated machine: processes with descriptors, signals and limits, over one tree of files.

A simulated process of the kernel becomes one of the machine by ``adopt``. ``fork`` makes a child
with all descriptors; ``execute`` closes those that it must not inherit, and runs a program. What a
real kernel releases when a process ends, in whatever way, is released here.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from greenlet import GreenletExit

from simulation.kernel import Kernel, Process
from simulation.kernel.scheduler import Waiters
from simulation.machine.files import POLLIN, Description, Inode, OpenFile, Tree, fail
from simulation.machine.sockets import Credentials, UnixSocket

Handler = Callable[[int, None], object] | int
_TICKS_S = 100
_FIRST_PID = 100
_STANDARD = 3
"""Descriptors of input, output and errors."""


class Null(Description):
    """/dev/null."""


class PidDescription(Description):
    """What pidfd_open(2) returns."""

    def __init__(self, process: OsProcess) -> None:
        super().__init__()
        self.process = process
        self.waiters = process.end_waiters

    def events(self) -> int:
        """See Description."""
        return 0 if self.process.running else POLLIN


class OsProcess:
    """A process of a machine."""

    def __init__(self, machine: Machine, process: Process, parent: OsProcess | None) -> None:
        self.machine = machine
        self.process = process
        self.pid = process.pid = machine.new_pid()
        self.parent = parent
        self.program: str = parent.program if parent else "init"
        """Its name in /proc."""
        self.started = int(machine.kernel.now * _TICKS_S)
        """In ticks since the machine started."""
        self.environ: dict[str, str] = dict(parent.environ) if parent else {}
        self.arguments: list[str] = []
        self.descriptors: dict[int, Description] = {}
        self.inheritable: set[int] = set()
        self.limits: dict[int, tuple[int, int]] = dict(parent.limits) if parent else {}
        self.mappings: dict[int, Inode] = {}
        self.handlers: dict[int, Handler] = {}
        self.status: int | None = None
        """How it ended; negative: the signal."""
        self.reaped = False
        self.reaps_children = True
        """Whether it waits for its children at once. A Python program with a Popen does not."""
        self.children: list[OsProcess] = []
        self.exec_waiters: Waiters = []
        self.executed = True
        self.end_waiters: Waiters = []
        self.log_handler: Any = None
        self.log_level = 0
        self.listening: list[UnixSocket] = []
        self.calls = 0
        """How many system calls it has made."""
        self._alarm = 0
        self._pending: list[int] = []
        if parent is not None:
            parent.children.append(self)
        process.on_end(self._ended)

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.process.alive

    @property
    def exists(self) -> bool:
        """Whether its pid is taken: it runs, or its parent has not waited for it."""
        return self.process.alive or not self.reaped

    @property
    def credentials(self) -> Credentials:
        """What the other end of its sockets sees."""
        return Credentials(self.pid, self.machine.uid, self.machine.uid)

    # -- descriptors ------------------------------------------------------------------------

    def limit(self, resource: int) -> tuple[int, int]:
        """Returns the soft and the hard limit of a resource."""
        return self.limits.get(resource, (-1, -1))

    def free_descriptor(self) -> int:
        """Returns the lowest free number. Raises EMFILE."""
        number = 0
        while number in self.descriptors:
            number += 1
        limit = self.limit(self.machine.nofile)[0]
        if limit >= 0 and number >= limit:
            fail(errno.EMFILE)
        return number

    def install(self, description: Description, *, inheritable: bool = False) -> int:
        """Returns a new descriptor of a description. Raises EMFILE."""
        number = self.free_descriptor()
        self.put(number, description, inheritable=inheritable)
        return number

    def put(self, number: int, description: Description, *, inheritable: bool = False) -> None:
        """Let a number be a descriptor of a description."""
        description.holders += 1
        if number in self.descriptors:
            self.close(number)
        self.descriptors[number] = description
        if inheritable:
            self.inheritable.add(number)

    def description(self, number: int) -> Description:
        """Returns what a descriptor refers to. Raises EBADF."""
        found = self.descriptors.get(number)
        if found is None:
            fail(errno.EBADF)
        return found

    def close(self, number: int) -> None:
        """Close a descriptor. Raises EBADF."""
        description = self.descriptors.pop(number, None)
        if description is None:
            fail(errno.EBADF)
        self.inheritable.discard(number)
        description.release()

    # -- signals ----------------------------------------------------------------------------

    def send_signal(self, number: int) -> None:
        """Do what a signal does."""
        if not self.running:
            return
        if number == signal.SIGKILL:
            self.end(-number)
        elif number == signal.SIGSTOP:
            self.process.freeze()
        elif number == signal.SIGCONT:
            self._continue()
        elif self.process.frozen:
            self._pending.append(number)
        else:
            self._deliver(number)

    def _continue(self) -> None:
        self.process.thaw()
        pending, self._pending = self._pending, []
        for number in pending:
            if self.running:
                self._deliver(number)

    def _deliver(self, number: int) -> None:
        handler = self.handlers.get(number, signal.SIG_DFL)
        if callable(handler) and not isinstance(handler, int):
            thread = self.process.start(handler, number, None, name=f"signal {number}")
            thread.daemon = True
        elif handler == signal.SIG_DFL:
            self.end(-number)

    def alarm(self, seconds: int) -> None:
        """Send SIGALRM after so many seconds, in place of the last alarm; with 0, not at all."""
        self._alarm += 1
        if seconds:
            self.machine.kernel.after(seconds, self._ring, self._alarm)

    def _ring(self, alarm: int) -> None:
        if alarm == self._alarm:
            self.send_signal(signal.SIGALRM)

    def end(self, status: int) -> None:
        """End with a status. The caller's thread does not return if it is of this process."""
        if self.status is None:
            self.status = status
        self.process.kill()

    def _ended(self) -> None:
        if self.status is None:
            self.status = 0
        kernel = self.machine.kernel
        for number in sorted(self.descriptors):
            if number in self.descriptors:
                self.close(number)
        for key in list(self.mappings):
            self.unmap(key)
        kernel.wake(self.exec_waiters)
        kernel.wake(self.end_waiters)
        for child in self.children:
            child.parent = self.machine.init
            self.machine.init_children.append(child)
            if not child.running:
                child.reap()
        self.children = []
        if self.parent is None or self.parent.reaps_children or not self.parent.running:
            self.reap()

    def reap(self) -> None:
        """Its parent has waited for it: the pid is free."""
        self.reaped = True
        self.machine.forget(self)
        if self.parent is not None and self in self.parent.children:
            self.parent.children.remove(self)

    # -- memory -----------------------------------------------------------------------------

    def map(self, inode: Inode) -> int:
        """Map shared memory. Returns the mapping's number."""
        inode.opens += 1
        key = self.machine.kernel.next_number()
        self.mappings[key] = inode
        return key

    def unmap(self, key: int) -> None:
        """End a mapping, if it is there still."""
        inode = self.mappings.pop(key, None)
        if inode is not None:
            inode.opens -= 1
            inode.release()

    def __repr__(self) -> str:
        return f"{self.process.name} (pid {self.pid})"


Program = Callable[[], int | None]
Hook = Callable[[OsProcess, str], object]


class Machine:
    """Files, processes and limits of one host, with one user."""

    def __init__(self, kernel: Kernel, *, programs: Mapping[str, Program] | None = None) -> None:
        """``programs``: by module name, what ``python -m`` runs."""
        self.kernel = kernel
        self.programs = dict(programs or {})
        self.uid = 1000
        self.boot = "5a1dcafe-0000-4000-8000-000000000001"
        self.nofile = 7  # RLIMIT_NOFILE
        self.tree = Tree(lambda: kernel.wall)
        self.tree.mkdir("/tmp", 0o777, 0)
        self.tree.mkdir("/proc", 0o555, 0)
        self.processes: dict[int, OsProcess] = {}
        """By pid: those that run, and those that nobody has waited for."""
        self.of: dict[Process, OsProcess] = {}
        self.ended: list[OsProcess] = []
        """Programs that have ended, in order."""
        self.init_children: list[OsProcess] = []
        self.no_processes = False
        """Whether fork fails (EAGAIN)."""
        self.reuses_pids = False
        """Whether a new process gets the lowest free pid, so that pids come back soon."""
        self._last_pid = 0
        self.on_kill: Callable[[OsProcess, OsProcess], object] | None = None
        """Called when a process sends a signal to another one by its pidfd."""
        self.start_s: Callable[[], float] = lambda: 0.2
        """Returns how long a Python program takes before it runs."""
        self.slow_chance = 0.0
        """The chance that a system call takes a while."""
        self.slow_s = 0.0
        """How long it takes then, at most."""
        self.on_call: Hook | None = None
        """Called before each system call."""
        self.on_exec: Callable[[OsProcess], object] | None = None
        """Called when a new program begins."""
        self.on_exit: Callable[[OsProcess], object] | None = None
        self.tell: Callable[[str], object] = lambda text: None
        """Takes a line for the story."""
        self.init = self.adopt(kernel.spawn("init"), None, "init")
        self._last_pid = _FIRST_PID - 1

    def adopt(self, process: Process, parent: OsProcess | None, program: str) -> OsProcess:
        """Returns the machine's side of a process."""
        adopted = OsProcess(self, process, parent)
        adopted.program = program
        self.of[process] = adopted
        self.processes[adopted.pid] = adopted
        for number in range(_STANDARD):
            adopted.put(number, Null(), inheritable=True)
        return adopted

    def new_pid(self) -> int:
        """Returns the pid of a new process."""
        if self.reuses_pids:
            pid = _FIRST_PID
            while pid in self.processes:
                pid += 1
            return pid
        self._last_pid += 1
        return self._last_pid

    def forget(self, process: OsProcess) -> None:
        """A pid is free again."""
        self.processes.pop(process.pid, None)
        self.of.pop(process.process, None)
        if process.arguments:
            self.ended.append(process)
        if self.on_exit is not None:
            self.on_exit(process)

    @property
    def current(self) -> OsProcess:
        """The process of the thread that runs."""
        kernel = self.kernel
        if kernel.closed:
            raise GreenletExit
        assert kernel.current is not None
        return self.of[kernel.current.process]

    def enter(self, call: str) -> OsProcess:
        """Begin a system call: others may run first, and the process may be killed here."""
        process = self.current
        process.calls += 1
        if self.on_call is not None:
            self.on_call(process, call)
        kernel = self.kernel
        if self.slow_chance:
            if kernel.random.random() < self.slow_chance:
                kernel.sleep(kernel.random.random() ** 3 * self.slow_s)
        elif kernel.preempt:
            kernel.pause_point()
        return process

    def process_of(self, pid: int) -> OsProcess | None:
        """Returns the process that has a pid."""
        return self.processes.get(pid)

    # -- programs ---------------------------------------------------------------------------

    def fork(self, parent: OsProcess, name: str) -> OsProcess:
        """Returns a child that has copies of all descriptors. It runs nothing yet."""
        if self.no_processes:
            fail(errno.EAGAIN)
        child = OsProcess(self, self.kernel.spawn(name), parent)
        self.of[child.process] = child
        self.processes[child.pid] = child
        for number, description in parent.descriptors.items():
            child.put(number, description, inheritable=number in parent.inheritable)
        child.executed = False
        return child

    def execute(
        self,
        child: OsProcess,
        arguments: Sequence[str],
        *,
        standard: Sequence[Description],
        passed: Sequence[int],
        environ: Mapping[str, str],
    ) -> None:
        """Let a child run ``… -m MODULE ARGUMENTS`` with these descriptors alone."""
        module = arguments[arguments.index("-m") + 1]
        program = self.programs[module]

        def begin() -> None:
            self.enter("exec")
            for number, description in enumerate(standard):
                child.put(number, description, inheritable=True)
            for number in sorted(child.descriptors):
                if number >= _STANDARD and number not in passed:
                    child.close(number)
            child.inheritable |= {number for number in passed if number in child.descriptors}
            child.environ = dict(environ)
            child.arguments = list(arguments[arguments.index("-m") + 2 :])
            child.program = os.path.basename(arguments[0])
            child.reaps_children = False
            child.executed = True
            self.kernel.wake(child.exec_waiters)
            if self.on_exec is not None:
                self.on_exec(child)
            self._run(child, program)

        child.process.start(begin)

    def _run(self, process: OsProcess, program: Program) -> None:
        seconds = self.start_s()
        self.kernel.sleep(seconds / 2)
        process.alarm(60)  # as the first lines of the agent do when Python runs them
        self.kernel.sleep(seconds / 2)
        try:
            status = program() or 0
        except SystemExit as leaving:
            status = self._exit_status(process, leaving.code)
        except Exception as error:
            status = self._exit_status(process, f"{type(error).__name__}: {error}")
            self.tell(f"{process} fails: {error!r}")
        process.end(status)

    def _exit_status(self, process: OsProcess, code: Any) -> int:
        if code is None or isinstance(code, int):
            return code or 0
        output = process.descriptors.get(2)
        if isinstance(output, OpenFile):
            with contextlib.suppress(OSError):  # as Python: it can tell nobody
                self.tree.write(output, f"{code}\n".encode())
        return 1

    # -- what is left -----------------------------------------------------------------------

    def listeners(self) -> list[tuple[OsProcess, UnixSocket]]:
        """Returns every listening socket, and the first process that has it."""
        return [
            (process, description)
            for process in self.processes.values()
            for description in process.descriptors.values()
            if isinstance(description, UnixSocket) and description.listening
        ]

    def close(self) -> None:
        """Give real memory back, at the end of a simulation."""
        self.tree.close()
