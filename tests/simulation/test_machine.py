"""The simulated machine gives the same answers as the Linux kernel that runs these tests."""

from __future__ import annotations

import errno
import fcntl
import os
import select
import socket
import struct
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from simulation.kernel import Kernel
from simulation.machine import Machine
from simulation.machine.stand_ins import machine_modules

REAL = {
    "os": os,
    "socket": socket,
    "select": select,
    "fcntl": fcntl,
    "pathlib.Path": Path,
}


class System:
    """Modules, a directory, and what the steps gave."""

    def __init__(self, modules: dict[str, Any], directory: str, stack: ExitStack) -> None:
        self.os = modules["os"]
        self.socket = modules["socket"]
        self.select = modules["select"]
        self.fcntl = modules["fcntl"]
        self.directory = modules["pathlib.Path"](directory)
        self.stack = stack
        self.outcomes: list[object] = []

    def step(self, call: Callable[..., object], *arguments: object) -> None:
        """Note what a call returns or raises."""
        try:
            result = call(*arguments)
        except OSError as error:
            self.outcomes.append((type(error).__name__, errno.errorcode.get(error.errno or 0)))
        else:
            plain = isinstance(result, (int, bytes, str, bool, list, tuple))
            self.outcomes.append(result if plain else None)

    def stream(self) -> Any:
        """A new Unix socket."""
        return self.stack.enter_context(
            closing(self.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        )

    def listener(self, name: str, backlog: int = 5) -> Any:
        """A listening socket at a name."""
        listener = self.stream()
        listener.bind(str(self.directory / name))
        listener.listen(backlog)
        return listener

    def pair(self) -> tuple[Any, Any]:
        """Both ends of a connection."""
        name = f"pair{len(self.outcomes)}"
        listener = self.listener(name)
        client = self.stream()
        client.connect(str(self.directory / name))
        server = self.stack.enter_context(closing(listener.accept()[0]))
        return client, server

    def events(self, stream: Any) -> int:
        """What poll(2) reports now."""
        poll = self.select.poll()
        poll.register(stream, select.POLLIN | select.POLLRDHUP)
        return sum(events for _, events in poll.poll(0))


def real(script: Callable[[System], None], directory: str) -> list[object]:
    """What a script gives on this machine."""
    with ExitStack() as stack:
        system = System(REAL, directory, stack)
        script(system)
    return system.outcomes


def simulated(script: Callable[[System], None]) -> list[object]:
    """What a script gives on a simulated machine. It leaves no descriptor behind."""
    kernel = Kernel(1)
    machine = Machine(kernel)
    process = machine.adopt(kernel.spawn("script"), machine.init, "python3")
    machine.tree.mkdir("/tmp/t", 0o700, machine.uid)
    outcomes: list[object] = []

    def run() -> None:
        with ExitStack() as stack:
            system = System(machine_modules(machine), "/tmp/t", stack)
            script(system)
        outcomes.extend(system.outcomes)
        assert [0, 1, 2] == sorted(process.descriptors)

    process.process.start(run)
    kernel.run()
    assert not kernel.crashes, kernel.crashes[0].error
    return outcomes


def locks(system: System) -> None:
    """Two open files of one lock, a removed file, and its successor."""
    lock = system.fcntl.LOCK_EX | system.fcntl.LOCK_NB
    path = system.directory / "a.lock"
    with path.open("ab") as first, path.open("ab") as second:
        system.step(system.fcntl.flock, first, lock)
        system.step(system.fcntl.flock, first, lock)
        system.step(system.fcntl.flock, second, lock)
        path.unlink()
        system.step(lambda: system.os.fstat(second.fileno()).st_nlink)
        with path.open("ab") as third:
            system.step(system.fcntl.flock, third, lock)
            system.step(system.fcntl.flock, second, lock)
        first.close()
        system.step(system.fcntl.flock, second, lock)


def names(system: System) -> None:
    """Files that are missing, replaced, and in the way of a directory."""
    directory = system.directory
    system.step((directory / "none").unlink)
    system.step((directory / "none").unlink, True)
    system.step((directory / "none").stat)
    system.step((directory / "none" / "x").write_text, "x")
    system.step((directory / "draft").write_text, "new")
    system.step((directory / "target").write_text, "old")
    system.step(lambda: bool((directory / "draft").replace(directory / "target")))
    system.step((directory / "target").read_text)
    system.step((directory / "target").mkdir)
    system.step((directory / "target" / "x").mkdir)
    system.step((directory / "d").mkdir)
    system.step((directory / "d").unlink)
    system.step(lambda: sorted(path.name for path in directory.iterdir()))


def sizes(system: System) -> None:
    """A file that is written to its end although somebody empties it."""
    path = system.directory / "log"
    with path.open("wb") as file:
        os_ = system.os
        file.write(b"12345")
        getattr(file, "flush", lambda: None)()
        system.step(lambda: os_.fstat(file.fileno()).st_size)
        os_.ftruncate(file.fileno(), 0)
        file.write(b"67")
    system.step(path.read_bytes)
    with path.open("ab") as file:
        file.write(b"8")
    system.step(path.read_bytes)


def missing_listeners(system: System) -> None:
    """Connections to no file, to a file, to a socket that nobody listens at, and twice."""
    directory = system.directory
    (directory / "file").write_text("")
    system.step(system.stream().connect_ex, str(directory / "none"))
    system.step(system.stream().connect_ex, str(directory / "file"))
    bound = system.stream()
    bound.bind(str(directory / "bound"))
    system.step(system.stream().connect_ex, str(directory / "bound"))
    system.step(system.stream().bind, str(directory / "bound"))
    bound.listen()
    client = system.stream()
    system.step(client.connect_ex, str(directory / "bound"))
    system.step(client.connect_ex, str(directory / "bound"))
    bound.close()
    system.step(system.stream().connect_ex, str(directory / "bound"))


def removed_socket(system: System) -> None:
    """A path that is removed and bound again is another socket. The first one lives on."""
    path = system.directory / "s"
    first = system.listener("s")
    client = system.stream()
    client.connect(str(path))
    path.unlink()
    system.step(system.stream().connect_ex, str(path))
    second = system.listener("s")
    system.stream().connect(str(path))
    system.step(system.events, first)
    system.step(system.events, second)
    accepted = system.stack.enter_context(closing(first.accept()[0]))
    accepted.sendall(b"x")
    system.step(client.recv, 10)


def backlog(system: System) -> None:
    """A listener takes one connection more than its backlog; then connect fails at once."""
    path = str(system.directory / "s")
    listener = system.listener("s", 2)
    clients = [system.stream() for _ in range(5)]
    for client in clients:
        client.settimeout(1.0)
        system.step(client.connect_ex, path)
    clients[0].close()
    accepted = system.stack.enter_context(closing(listener.accept()[0]))
    system.step(accepted.recv, 1)
    late = system.stream()
    late.settimeout(1.0)
    system.step(late.connect_ex, path)
    system.step(system.events, clients[1])
    listener.close()
    system.step(system.events, clients[1])
    system.step(clients[1].recv, 1)
    system.step(clients[1].recv, 1)
    system.step(clients[2].sendall, b"x")


def ends(system: System) -> None:
    """What one end sees when the other one closes, with and without unread bytes."""
    client, server = system.pair()
    system.step(system.events, client)
    server.sendall(b"abc")
    system.step(system.events, client)
    server.close()
    system.step(system.events, client)
    system.step(client.recv, 2)
    system.step(client.recv, 2)
    system.step(client.recv, 2)
    system.step(client.sendall, b"x")
    client, server = system.pair()
    client.sendall(b"unread")
    server.sendall(b"last")
    server.close()
    system.step(system.events, client)
    system.step(client.recv, 10)
    system.step(client.recv, 10)
    system.step(client.recv, 10)
    client, server = system.pair()
    client.sendall(b"unread")
    server.close()
    system.step(client.sendall, b"x")
    system.step(client.sendall, b"x")
    system.step(system.events, system.stream())


def timeouts(system: System) -> None:
    """Waits with a limit, without waiting, and a receiver that takes nothing."""
    client, server = system.pair()
    client.settimeout(0.01)
    system.step(client.recv, 1)
    client.setblocking(False)
    system.step(client.recv, 1)
    server.settimeout(0.01)
    system.step(server.sendall, bytes(4 << 20))
    system.step(lambda: len(client.recv(10)))
    system.step(system.stream().recv, 1)


def descriptors(system: System) -> None:
    """An open file travels with the bytes that are sent with it, and ends the receiver's part."""
    client, server = system.pair()
    path = system.directory / "file"
    path.write_text("12345")
    server.sendall(b"before")
    with path.open("ab") as file:
        system.step(system.socket.send_fds, server, [b"with"], [file.fileno()])
    server.sendall(b"after")
    client.settimeout(0.05)
    received = [system.socket.recv_fds(client, 100, 4) for _ in range(2)]
    for data, numbers, flags, _ in received:
        system.step(lambda data=data, numbers=numbers, flags=flags: (data, len(numbers), flags))
        for number in numbers:
            system.step(lambda number=number: system.os.fstat(number).st_size)
            system.os.close(number)
            system.step(system.os.close, number)


def half_read(system: System) -> None:
    """Bytes with a descriptor may be read in parts. It comes with the first one."""
    client, server = system.pair()
    with (system.directory / "file").open("ab") as file:
        system.socket.send_fds(server, [b"abcdef"], [file.fileno()])
    server.sendall(b"ghi")
    for _ in range(3):
        data, numbers, _, _ = system.socket.recv_fds(client, 4, 4)
        system.step(lambda data=data, numbers=numbers: (data, len(numbers)))
        for number in numbers:
            system.os.close(number)


def shared_memory(system: System) -> None:
    """A memfd has no name, and the size that ftruncate gives."""
    number = system.os.memfd_create("m", system.os.MFD_CLOEXEC)
    system.os.ftruncate(number, 4096)
    system.step(lambda: system.os.fstat(number).st_size)
    system.step(lambda: system.os.fstat(number).st_nlink)
    system.os.close(number)
    system.step(system.os.fstat, number)


SCRIPTS = [
    locks,
    names,
    sizes,
    missing_listeners,
    removed_socket,
    backlog,
    ends,
    timeouts,
    descriptors,
    half_read,
    shared_memory,
]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_the_same_answers_as_linux(script: Callable[[System], None], tmp_path: Path) -> None:
    """A script of system calls gives the same results and errors on Linux and when simulated."""
    assert real(script, str(tmp_path)) == simulated(script)


def test_credentials_name_the_process_at_the_other_end(tmp_path: Path) -> None:
    """SO_PEERCRED gives each end the other one's pid: who listened, and who connected."""

    def peers(system: System) -> None:
        client, server = system.pair()
        for stream in (client, server):
            raw = stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            system.step(lambda raw=raw: struct.unpack("3i", raw)[0] == system.os.getpid())

    assert [True, True] == real(peers, str(tmp_path)) == simulated(peers)
