"""The file system of a table: its calls take time and fail, and processes die in them.

``OSFile`` and ``ParquetWriter`` stand in for those of pyarrow: they write real Parquet, in two
halves each time. So a file may end in the middle.
"""

from __future__ import annotations

import errno
import io
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from kfetch.delta import files, places
from simulation.kernel import Process
from simulation.machine.files import Tree, fail
from simulation.machine.machine import Machine, OsProcess
from simulation.machine.paths import SimulatedPath, path_class
from simulation.machine.stand_ins import Os

Patches = dict[tuple[str, str], Any]


class Disk:
    """A file system beside that of a machine's other files. It is a machine for its callers."""

    def __init__(self, machine: Machine, pace_s: float) -> None:
        """``pace_s``: the longest time of a call."""
        self.kernel = machine.kernel
        self.tree = Tree(lambda: machine.kernel.wall)
        self.calls_left: dict[Process, int] = {}
        """How many calls a process has left until it is killed."""
        self.writes_left = -1
        """How many writes are left until one fails; -1: none fails."""
        self.blind_until = 0.0
        """Until then, the driver does not see what tasks have written, as on a slow NFS."""
        self.uid = machine.uid
        self._machine = machine
        self._pace_s = pace_s
        self.path: type[SimulatedPath] = path_class(cast("Machine", self))

    @property
    def current(self) -> OsProcess:
        """The process that runs."""
        return self._machine.current

    def enter(self, call: str) -> OsProcess:
        """Begin a call: the process may be killed here, others may run first, or it fails."""
        process = self._machine.enter(call)
        if process.process in self.calls_left:
            self.calls_left[process.process] -= 1
            if self.calls_left[process.process] < 0:
                process.process.kill()
        draw = self.kernel.random.random
        if draw() < 0.3:
            self.kernel.sleep(draw() * self._pace_s)
        if call == "write" and self.writes_left >= 0:
            self.writes_left -= 1
            if self.writes_left < 0:
                fail(errno.EIO)
        if call == "stat" and self.kernel.now < self.blind_until:
            fail(errno.ENOENT)
        return process

    def calm(self) -> None:
        """Let all go well, and fast."""
        self.calls_left.clear()
        self.writes_left, self.blind_until, self._pace_s = -1, 0.0, 0.001

    def put(self, path: str, text: str) -> None:
        """Make a file, whole."""
        parent = ""
        for name in path.split("/")[1:-1]:
            parent += f"/{name}"
            if not self.tree.exists(parent):
                self.tree.mkdir(parent, 0o755, self.uid)
        file = self.tree.open(path, "w", self.uid)
        self.tree.truncate(file.inode, len(text))
        file.last_close()

    def content(self, path: str) -> bytes:
        """Returns a file's bytes, whatever befalls the calls of processes. Raises OSError."""
        return bytes(self.tree.find(path).data)

    def patches(self) -> Patches:
        """Returns what variables of the product's modules are on this disk."""
        os, disk = Os(cast("Machine", self)), self

        class OSFile(_OSFile):
            _disk = disk

        return {
            (places.__name__, "Path"): self.path,
            (places.__name__, "os"): os,
            (places.__name__, "pa"): _with(pa, OSFile=OSFile),
            (files.__name__, "pq"): _with(pq, ParquetWriter=ParquetWriter),
        }


def _with(module: Any, **names: Any) -> Any:
    """Returns a copy of a module with other names."""
    copy = type(module)(module.__name__)
    vars(copy).update({**vars(module), **names})
    return copy


class _OSFile:
    """pyarrow.OSFile, for writing."""

    _disk: Disk

    def __init__(self, path: str, mode: str) -> None:
        self._file = self._disk.path(path).open(mode)
        self.buffer = io.BytesIO()
        """What Parquet has written. C++ calls it, so no thread must change there."""
        self._written = 0

    def tell(self) -> int:
        """Returns the position."""
        return self.buffer.tell()

    def flush(self) -> None:
        """Let the disk have what Parquet has written, in two halves."""
        data = self.buffer.getvalue()[self._written :]
        self._written += len(data)
        for part in (data[: len(data) // 2], data[len(data) // 2 :]):
            self._file.write(part)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class ParquetWriter(pq.ParquetWriter):
    """pyarrow.parquet.ParquetWriter, into an ``_OSFile``."""

    def __init__(self, sink: Any, schema: pa.Schema, **settings: Any) -> None:
        super().__init__(sink.buffer, schema, **settings)
        self._simulated = sink

    def write_table(self, table: pa.Table, row_group_size: int | None = None) -> None:
        """Write a row group."""
        super().write_table(table, row_group_size)
        self._simulated.flush()

    def close(self) -> None:
        """Write the footer."""
        is_open = self.is_open
        super().close()
        if is_open:
            self._simulated.flush()

    def __del__(self) -> None:
        """Write nothing: a killed process has left it."""
