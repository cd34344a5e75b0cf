"""Stands in for ``pathlib.Path``: the methods that the agent uses, on a machine's tree of files."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from simulation.machine.files import OpenFile, fail

if TYPE_CHECKING:
    from simulation.machine.machine import Machine, OsProcess


class SimulatedFile:
    """What ``open`` returns. It keeps nothing back: each write reaches the disk."""

    def __init__(self, machine: Machine, process: OsProcess, opened: OpenFile) -> None:
        self._machine = machine
        self._process = process
        self._descriptor = -1
        self._descriptor = process.install(opened)

    def fileno(self) -> int:
        """Returns the descriptor."""
        return self._descriptor

    def write(self, data: bytes) -> int:
        """Write bytes."""
        opened = self._machine.enter("write").description(self._descriptor)
        assert isinstance(opened, OpenFile)
        return self._machine.tree.write(opened, data)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0 and not self._machine.kernel.closed:
            process = self._machine.enter("close")
            descriptor, self._descriptor = self._descriptor, -1
            process.close(descriptor)

    def __enter__(self) -> SimulatedFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        if self._descriptor >= 0 and self._process.running and not self._machine.kernel.closed:
            self._process.close(self._descriptor)


class SimulatedPath(PurePosixPath):
    """pathlib.Path."""

    __slots__ = ()
    _machine: Machine

    def _enter(self, call: str) -> str:
        self._machine.enter(call)
        return str(self)

    def stat(self) -> Any:
        """See Path."""
        path = self._enter("stat")
        return self._machine.tree.find(path).status()

    lstat = stat

    def exists(self) -> bool:
        """See Path."""
        path = self._enter("stat")
        return self._machine.tree.exists(path)

    def unlink(self, missing_ok: bool = False) -> None:
        """See Path."""
        path = self._enter("unlink")
        try:
            self._machine.tree.unlink(path)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """See Path."""
        path = self._enter("mkdir")
        tree = self._machine.tree
        if parents and not tree.exists(str(self.parent)):
            self.parent.mkdir(parents=True, exist_ok=True)
        try:
            tree.mkdir(path, mode, self._machine.uid)
        except FileExistsError:
            if not exist_ok or not tree.find(path).is_directory:
                raise

    def chmod(self, mode: int) -> None:
        """See Path."""
        inode = self._machine.tree.find(self._enter("chmod"))
        inode.mode = (inode.mode & ~0o7777) | mode

    def iterdir(self) -> Iterator[SimulatedPath]:
        """See Path. The names are read at once."""
        names = self._machine.tree.names(self._enter("readdir"))
        return iter([self / name for name in names])

    def glob(self, pattern: str) -> Iterator[SimulatedPath]:
        """See Path, without directories in the pattern."""
        return (path for path in self.iterdir() if path.match(pattern))

    def replace(self, target: Any) -> SimulatedPath:
        """See Path."""
        self._machine.tree.rename(self._enter("rename"), str(target))
        return type(self)(target)

    def open(self, mode: str = "r") -> SimulatedFile:
        """See Path."""
        path = self._enter("open")
        machine = self._machine
        process = machine.current
        process.free_descriptor()
        opened = machine.tree.open(path, mode[0], machine.uid)
        return SimulatedFile(machine, process, opened)

    def read_bytes(self) -> bytes:
        """See Path."""
        path = self._enter("read")
        self._machine.current.free_descriptor()
        if path.startswith("/proc/"):
            return self._of_proc(path).encode()
        inode = self._machine.tree.find(path)
        if inode.is_directory:
            fail(errno.EISDIR, path)
        return bytes(inode.data)

    def read_text(self, encoding: str | None = None, errors: str = "strict") -> str:
        """See Path."""
        return self.read_bytes().decode(errors=errors)

    def write_text(self, text: str) -> int:
        """See Path. A full disk leaves an empty file."""
        with self.open("w") as file:
            return file.write(text.encode())

    def _of_proc(self, path: str) -> str:
        machine = self._machine
        parts = path.split("/")
        if path == "/proc/sys/kernel/random/boot_id":
            return f"{machine.boot}\n"
        if len(parts) == 4 and parts[3] == "stat" and parts[2].isdigit():
            process = machine.process_of(int(parts[2]))
            if process is None:
                fail(errno.ENOENT, path)
            parent = process.parent.pid if process.parent else 0
            state = "S" if process.running else "Z"
            name = f"{process.pid} ({process.program}) {state} {parent}"
            return f"{name} {' '.join('0' * 17)} {process.started} 0\n"
        fail(errno.ENOENT, path)


def path_class(machine: Machine) -> type[SimulatedPath]:
    """Returns the class ``Path`` of a machine."""
    return type("Path", (SimulatedPath,), {"_machine": machine, "__slots__": ()})
