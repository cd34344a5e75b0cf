"""Stand-ins for the modules through which the product reaches an operating system.

``os``, ``socket``, ``select``, ``signal``, ``fcntl``, ``subprocess``, ``mmap``, ``resource``,
``argparse``, ``sys`` and ``logging``, over one machine. They have what the agent uses, with the
semantics of Linux and Python. Whatever else is asked for raises ``Unknown``.
"""

from __future__ import annotations

import argparse as real_argparse
import errno
import fcntl as real_fcntl
import logging as real_logging
import mmap as real_mmap
import os as real_os
import resource as real_resource
import select as real_select
import signal as real_signal
import socket as real_socket
import stat
import subprocess as real_subprocess
import sys as real_sys
from collections.abc import Sequence
from typing import Any

from simulation.kernel.scheduler import Thread, Waiters
from simulation.machine.files import POLLERR, POLLHUP, Description, OpenFile, fail
from simulation.machine.machine import Machine, Null, OsProcess, PidDescription
from simulation.machine.paths import path_class
from simulation.machine.sockets import UnixSocket

_FOREVER = float("inf")


class Unknown(AttributeError):
    """The product uses something that the simulated machine does not have."""


class StandIn:
    """A module. It has its own names, and some of the real module's constants."""

    def __init__(self, machine: Machine, real: Any, names: str = "") -> None:
        self._machine = machine
        self._name = real.__name__
        for name in names.split():
            setattr(self, name, getattr(real, name))

    def __getattr__(self, name: str) -> Any:
        raise Unknown(f"the simulated machine has no {self._name}.{name}")


class Os(StandIn):
    """os."""

    def __init__(self, machine: Machine) -> None:
        names = (
            "path pathsep fsencode fspath devnull name O_RDONLY O_CLOEXEC SEEK_SET MFD_CLOEXEC "
            "W_OK X_OK R_OK PathLike strerror linesep sep"
        )
        super().__init__(machine, real_os, names)
        self.path = _OsPath(machine)

    @property
    def environ(self) -> dict[str, str]:
        """The process's environment."""
        return self._machine.current.environ

    def getpid(self) -> int:
        """Returns the process's pid."""
        return self._machine.current.pid

    def getppid(self) -> int:
        """Returns its parent's pid."""
        parent = self._machine.current.parent
        return parent.pid if parent else 0

    def getuid(self) -> int:
        """Returns the user."""
        return self._machine.uid

    def close(self, descriptor: int) -> None:
        """Close a descriptor."""
        if not self._machine.kernel.closed:
            self._machine.enter("close").close(descriptor)

    def open(self, path: Any, flags: int) -> int:
        """Open /dev/null, or something to read."""
        process = self._machine.enter("open")
        if path == self.devnull:
            return process.install(Null())
        assert flags == self.O_RDONLY
        return process.install(self._machine.tree.open(str(path), "r", self._machine.uid))

    def fsync(self, descriptor: int) -> None:
        """Wait for the disk."""
        self._machine.enter("fsync").description(descriptor)

    def stat(self, path: Any) -> Any:
        """Returns the status of a file."""
        self._machine.enter("stat")
        return self._machine.tree.find(str(path)).status()

    def fstat(self, descriptor: int) -> Any:
        """Returns the status of an open file."""
        return self._machine.enter("fstat").description(descriptor).status()

    def ftruncate(self, descriptor: int, size: int) -> None:
        """Cut or extend a file."""
        file = self._file(self._machine.enter("ftruncate"), descriptor)
        self._machine.tree.truncate(file.inode, size)

    def lseek(self, descriptor: int, position: int, whence: int) -> int:
        """Set the position of an open file."""
        assert whence == self.SEEK_SET
        self._file(self._machine.enter("lseek"), descriptor).position = position
        return position

    @staticmethod
    def _file(process: OsProcess, descriptor: int) -> OpenFile:
        file = process.description(descriptor)
        return file if isinstance(file, OpenFile) else fail(errno.EINVAL)

    def set_inheritable(self, descriptor: int, inheritable: bool) -> None:
        """Say whether a program that the process starts has a descriptor, too."""
        process = self._machine.enter("fcntl")
        process.description(descriptor)
        (process.inheritable.add if inheritable else process.inheritable.discard)(descriptor)

    def memfd_create(self, name: str, flags: int) -> int:
        """Returns a descriptor of new shared memory."""
        process = self._machine.enter("memfd_create")
        process.free_descriptor()
        return process.install(self._machine.tree.memfd(self._machine.uid))

    def pidfd_open(self, pid: int) -> int:
        """Returns a descriptor that is readable once a process has ended."""
        process = self._machine.enter("pidfd_open")
        target = self._machine.process_of(pid)
        if target is None:
            fail(errno.ESRCH)
        return process.install(PidDescription(target))

    def readlink(self, path: str) -> str:
        """Returns what a link of /proc names."""
        if path != "/proc/self/ns/pid":
            raise Unknown(f"the simulated machine has no link {path}")
        return "pid:[4026531836]"

    def access(self, path: str, mode: int) -> bool:
        """Returns whether a directory can be used."""
        return self._machine.tree.exists(path)

    def sched_getaffinity(self, pid: int) -> set[int]:
        """Returns the processors."""
        return {0, 1}


class _OsPath:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        for name in ("isabs", "basename", "abspath", "dirname", "join"):
            setattr(self, name, getattr(real_os.path, name))

    def isdir(self, path: str) -> bool:
        """Returns whether a directory is there."""
        tree = self._machine.tree
        return bool(path) and tree.exists(path) and tree.find(path).is_directory

    def exists(self, path: str) -> bool:
        """Returns whether anything is there."""
        return self._machine.tree.exists(str(path))


class SimulatedSocket:
    """socket.socket, for Unix streams."""

    _machine: Machine

    def __init__(self, family: int = -1, kind: int = -1, *, end: UnixSocket | None = None) -> None:
        self._descriptor = -1
        self._timeout: float | None = None
        if end is None and (family, kind) != (real_socket.AF_UNIX, real_socket.SOCK_STREAM):
            raise Unknown("the simulated machine has Unix stream sockets alone")
        process = self._machine.current if end is not None else self._machine.enter("socket")
        self._process = process
        self._descriptor = process.install(end or UnixSocket(self._machine.kernel))

    def __enter__(self) -> SimulatedSocket:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        if self._descriptor >= 0 and self._process.running and not self._machine.kernel.closed:
            self._process.close(self._descriptor)

    def _enter(self, call: str) -> UnixSocket:
        description = self._machine.enter(call).description(self._descriptor)
        return description if isinstance(description, UnixSocket) else fail(errno.ENOTSOCK)

    def fileno(self) -> int:
        """Returns the descriptor; -1 when it is closed."""
        return self._descriptor

    def settimeout(self, seconds: float | None) -> None:
        """Limit each wait."""
        self._timeout = seconds

    def setblocking(self, blocking: bool) -> None:
        """Wait, or never wait."""
        self._timeout = None if blocking else 0.0

    def close(self) -> None:
        """Close the descriptor."""
        if self._descriptor >= 0 and not self._machine.kernel.closed:
            process = self._machine.enter("close")
            descriptor, self._descriptor = self._descriptor, -1
            process.close(descriptor)

    def bind(self, path: str) -> None:
        """Bind to a new inode at a path."""
        socket = self._enter("bind")
        tree = self._machine.tree
        try:
            socket.bound = tree.create(path, stat.S_IFSOCK | 0o755, self._machine.uid)
        except FileExistsError:
            fail(errno.EADDRINUSE)

    def listen(self, backlog: int = 128) -> None:
        """Accept connections from now on."""
        socket = self._enter("listen")
        process = self._machine.current
        socket.listen(backlog, process.credentials)
        self._machine.tell(f"{process} listens")

    def accept(self) -> tuple[SimulatedSocket, str]:
        """Returns the next connection."""
        listener = self._enter("accept")
        deadline = self._deadline()
        while True:
            self._process.free_descriptor()
            if listener.pending:
                end = listener.pending.popleft()
                return type(self)(end=end), ""
            self._wait(listener, deadline)

    def connect(self, path: str) -> None:
        """Connect to the socket at a path."""
        socket = self._enter("connect")
        socket.connect(self._machine.tree.find(path), self._machine.current.credentials)

    def connect_ex(self, path: str) -> int:
        """Connect. Returns the error's number, or 0."""
        try:
            self.connect(path)
        except OSError as error:
            return error.errno or 0
        return 0

    def sendall(self, data: Any) -> None:
        """Send all bytes."""
        left = memoryview(data).cast("B")
        deadline = self._deadline()
        while len(left):
            left = left[self.send_some(left, [], deadline) :]

    def send_some(
        self, data: memoryview, carried: list[Description], deadline: float | None = None
    ) -> int:
        """Send what finds room, with descriptions. Returns its size."""
        socket = self._enter("send")
        until = self._deadline() if deadline is None else deadline
        while True:
            try:
                return socket.send(data, carried)
            except BlockingIOError:
                if socket.peer is None:
                    raise
                self._wait(socket, until, also=socket.peer)

    def receive(self, size: int) -> tuple[bytes, list[Description]]:
        """Receive up to ``size`` bytes, and descriptions."""
        socket = self._enter("recv")
        deadline = self._deadline()
        while True:
            try:
                return socket.receive(size)
            except BlockingIOError:
                self._wait(socket, deadline)

    def recv(self, size: int) -> bytes:
        """Receive up to ``size`` bytes."""
        data, carried = self.receive(size)
        for description in carried:
            description.release()
        return data

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        """Returns the credentials of the other end."""
        socket = self._enter("getsockopt")
        if (level, option) != (real_socket.SOL_SOCKET, real_socket.SO_PEERCRED):
            raise Unknown("the simulated machine has no other option than SO_PEERCRED")
        credentials = socket.credentials or (0, 0xFFFFFFFF, 0xFFFFFFFF)
        return b"".join(value.to_bytes(4, "little") for value in credentials)

    def _deadline(self) -> float:
        return _FOREVER if self._timeout is None else self._machine.kernel.now + self._timeout

    def _wait(self, socket: UnixSocket, deadline: float, also: UnixSocket | None = None) -> None:
        if self._timeout == 0.0:
            fail(errno.EAGAIN)
        kernel = self._machine.kernel
        if deadline <= kernel.now:
            raise TimeoutError("timed out")
        waiters = [socket.waiters] if also is None else [socket.waiters, also.waiters]
        wait_for_any(self._machine, waiters, deadline)


def wait_for_any(machine: Machine, lists: Sequence[Waiters], deadline: float) -> None:
    """Wait until any of the lists is woken, or until the deadline."""
    kernel = machine.kernel
    thread: Thread | None = kernel.current
    assert thread is not None
    for waiters in lists[1:]:
        waiters.append(thread)
    try:
        kernel.wait(lists[0] if lists else None, deadline)
    finally:
        for waiters in lists:
            if thread in waiters:
                waiters.remove(thread)


class Socket(StandIn):
    """socket."""

    def __init__(self, machine: Machine) -> None:
        names = "AF_UNIX SOCK_STREAM SOL_SOCKET SO_PEERCRED MSG_CTRUNC timeout"
        super().__init__(machine, real_socket, names)
        self.socket = type("socket", (SimulatedSocket,), {"_machine": machine})

    def send_fds(self, stream: SimulatedSocket, buffers: Any, descriptors: Any) -> int:
        """Send bytes with descriptors."""
        process = self._machine.current
        carried = [process.description(number) for number in descriptors]
        return stream.send_some(memoryview(b"".join(bytes(b) for b in buffers)), carried)

    def recv_fds(
        self, stream: SimulatedSocket, size: int, maximum: int
    ) -> tuple[bytes, list[int], int, None]:
        """Receive bytes with descriptors. Those that find no room are lost (MSG_CTRUNC)."""
        data, carried = stream.receive(size)
        process, flags = self._machine.current, 0
        numbers: list[int] = []
        for description in carried:
            try:
                if len(numbers) == maximum:
                    fail(errno.EMFILE)
                numbers.append(process.install(description))
            except OSError:
                flags = real_socket.MSG_CTRUNC
            description.release()
        return data, numbers, flags, None


class Poll:
    """select.poll()."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._masks: dict[int, int] = {}

    def register(self, file: Any, mask: int) -> None:
        """Watch a descriptor."""
        number = file if isinstance(file, int) else file.fileno()
        if number < 0:
            raise ValueError(f"file descriptor cannot be a negative integer ({number})")
        self._masks[number] = mask

    def poll(self, timeout_ms: float | None = None) -> list[tuple[int, int]]:
        """Wait for events. Returns the descriptors that have some."""
        machine = self._machine
        process = machine.enter("poll")
        forever = timeout_ms is None or timeout_ms < 0
        deadline = _FOREVER if forever else machine.kernel.now + (timeout_ms or 0) / 1000
        while True:
            ready, lists = [], []
            for number, mask in self._masks.items():
                description = process.descriptors.get(number)
                if description is None:
                    ready.append((number, real_select.POLLNVAL))
                    continue
                events = description.events() & (mask | POLLERR | POLLHUP)
                if events:
                    ready.append((number, events))
                lists.append(description.waiters)
            if ready or machine.kernel.now >= deadline:
                return ready
            wait_for_any(machine, lists, deadline)


class Select(StandIn):
    """select."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, real_select, "POLLIN POLLOUT POLLRDHUP POLLHUP POLLERR")

    def poll(self) -> Poll:
        """Returns a new poll object."""
        return Poll(self._machine)


class Signal(StandIn):
    """signal."""

    def __init__(self, machine: Machine) -> None:
        names = "SIGTERM SIGINT SIGKILL SIGHUP SIGALRM SIGSTOP SIGCONT SIG_IGN SIG_DFL"
        super().__init__(machine, real_signal, names)

    def signal(self, number: int, handler: Any) -> None:
        """Set the handler of a signal."""
        self._machine.enter("sigaction").handlers[number] = handler

    def alarm(self, seconds: int) -> None:
        """Send SIGALRM later."""
        self._machine.enter("alarm").alarm(seconds)

    def pidfd_send_signal(self, descriptor: int, number: int) -> None:
        """Send a signal to the process of a pidfd."""
        target = self._machine.enter("pidfd_send_signal").description(descriptor)
        if not isinstance(target, PidDescription):
            fail(errno.EBADF)
        if not target.process.exists:
            fail(errno.ESRCH)
        current = self._machine.current
        self._machine.tell(f"{current} sends signal {int(number)} to {target.process}")
        if self._machine.on_kill is not None:
            self._machine.on_kill(current, target.process)
        target.process.send_signal(number)


class Fcntl(StandIn):
    """fcntl."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, real_fcntl, "LOCK_EX LOCK_NB LOCK_UN")

    def flock(self, file: Any, operation: int) -> None:
        """Take a lock without waiting, or release it."""
        number = file if isinstance(file, int) else file.fileno()
        opened = self._machine.enter("flock").description(number)
        if not isinstance(opened, OpenFile):
            fail(errno.EINVAL)
        if operation == self.LOCK_UN:
            opened.unlock()
        elif operation != self.LOCK_EX | self.LOCK_NB:
            raise Unknown("the simulated machine locks exclusively, without waiting")
        elif not opened.lock():
            fail(errno.EAGAIN)


class SimulatedPopen:
    """subprocess.Popen, for programs that the machine has."""

    _machine: Machine

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        stdin: Any,
        stdout: Any,
        stderr: Any,
        env: dict[str, str],
        start_new_session: bool,
        pass_fds: Sequence[int],
    ) -> None:
        machine = self._machine
        parent = machine.enter("popen")
        assert stdin == real_subprocess.DEVNULL
        # Python opens /dev/null, and a pipe through which the child tells that exec failed.
        opened: list[int] = []
        try:
            for _ in range(3):
                opened.append(parent.install(Null()))  # noqa: PERF401 - up to the one that fails
            machine.enter("fork")
            child = machine.fork(parent, "agent")
            standard = [Null(), *(parent.description(f.fileno()) for f in (stdout, stderr))]
            machine.execute(child, arguments, standard=standard, passed=pass_fds, environ=env)
        finally:
            if not machine.kernel.closed and parent.running:
                for number in opened:
                    parent.close(number)
        self._child = child
        self.pid = child.pid
        self.returncode: int | None = None
        while not child.executed and child.running:
            machine.kernel.wait(child.exec_waiters)

    def poll(self) -> int | None:
        """Returns the status if the program has ended."""
        self._machine.enter("waitpid")
        if self.returncode is None and not self._child.running:
            self.returncode = self._child.status
            self._child.reap()
        return self.returncode

    def kill(self) -> None:
        """Kill the program."""
        if self.poll() is None:
            self._machine.tell(f"{self._machine.current} kills {self._child}")
            self._child.send_signal(real_signal.SIGKILL)


class Subprocess(StandIn):
    """subprocess."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, real_subprocess, "DEVNULL")
        self.Popen = type("Popen", (SimulatedPopen,), {"_machine": machine})


class Mapping(real_mmap.mmap):
    """mmap.mmap of simulated shared memory. The bytes are real."""

    process: OsProcess
    key: int

    def close(self) -> None:
        """Unmap. Raises BufferError while anything refers to the bytes."""
        super().close()
        self.process.unmap(self.key)

    def __del__(self) -> None:
        self.process.unmap(self.key)


class Mmap(StandIn):
    """mmap."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, real_mmap, "PROT_READ PROT_WRITE MAP_SHARED MADV_REMOVE")

    def mmap(self, descriptor: int, size: int, **how: int) -> Mapping:
        """Map shared memory."""
        process = self._machine.enter("mmap")
        file = process.description(descriptor)
        if not isinstance(file, OpenFile) or file.inode.real is None:
            fail(errno.ENODEV)
        mapping = Mapping(file.inode.real, size, **how)
        mapping.process, mapping.key = process, process.map(file.inode)
        return mapping


class Resource(StandIn):
    """resource."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, real_resource, "RLIMIT_AS RLIMIT_NOFILE RLIM_INFINITY")

    def getrlimit(self, number: int) -> tuple[int, int]:
        """Returns the soft and the hard limit."""
        return self._machine.current.limit(number)

    def setrlimit(self, number: int, limits: tuple[int, int]) -> None:
        """Set both limits."""
        self._machine.enter("setrlimit").limits[number] = limits


class Argparse(StandIn):
    """argparse."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, real_argparse, "Namespace ArgumentTypeError")

        class ArgumentParser(real_argparse.ArgumentParser):
            def parse_args(self, *_: Any) -> Any:  # type: ignore[override]
                return super().parse_args(machine.current.arguments)

        self.ArgumentParser = ArgumentParser


class _Stderr:
    """sys.stderr of a simulated process."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def fileno(self) -> int:
        """Returns 2."""
        return 2

    def write(self, text: str) -> int:
        """Write to the file that the process has as its stderr."""
        output = self._machine.current.descriptors.get(2)
        if isinstance(output, OpenFile):
            return self._machine.tree.write(output, text.encode())
        return len(text)

    def flush(self) -> None:
        """Nothing is kept back."""


class Sys(StandIn):
    """sys."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, real_sys, "exit maxsize modules")
        self.stderr = _Stderr(machine)
        self.executable = "/usr/bin/python3"
        self.path = ["", "/usr/lib/python3"]


class _AgentsLogger:
    """The logger whose level a process sets for itself."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def setLevel(self, level: int) -> None:
        """Set the level of this process."""
        self._machine.current.log_level = level


class Logging(StandIn):
    """logging: each process has handlers of its own."""

    def __init__(self, machine: Machine) -> None:
        names = "StreamHandler getLevelNamesMapping INFO WARNING DEBUG Logger"
        super().__init__(machine, real_logging, names)

    def basicConfig(self, *, handlers: Sequence[Any], **_: Any) -> None:
        """Let the process log through a handler."""
        self._machine.current.log_handler = handlers[0]
        handlers[0].handleError = lambda record: None

    def getLogger(self, name: str) -> Any:
        """Returns a logger."""
        return _AgentsLogger(self._machine) if name == "kfetch" else real_logging.getLogger(name)


class LogRouter(real_logging.Handler):
    """Gives the product's log lines to the process that wrote them."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self._machine = machine

    def emit(self, record: real_logging.LogRecord) -> None:
        """See logging.Handler."""
        kernel = self._machine.kernel
        if kernel.current is None or kernel.closed:
            return
        process = self._machine.of.get(kernel.current.process)
        if process is not None and record.levelno >= process.log_level:
            self._machine.tell(f"{process} logs: {record.getMessage()}")
            if process.log_handler is not None:
                process.log_handler.emit(record)


def machine_modules(machine: Machine) -> dict[str, Any]:
    """Returns the stand-ins by the names of the modules, and ``pathlib.Path``."""
    return {
        "os": Os(machine),
        "socket": Socket(machine),
        "select": Select(machine),
        "signal": Signal(machine),
        "fcntl": Fcntl(machine),
        "subprocess": Subprocess(machine),
        "mmap": Mmap(machine),
        "resource": Resource(machine),
        "argparse": Argparse(machine),
        "sys": Sys(machine),
        "logging": Logging(machine),
        "pathlib.Path": path_class(machine),
    }
