"""Files of a simulated machine: inodes in a tree, open file descriptions, flock, and a disk.

An inode lives as long as a name or an open description refers to it. A lock belongs to an open file
description, which descriptors of several processes may share. The last close releases it. Errors
are those of Linux.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, NoReturn

from simulation.kernel.scheduler import Waiters

if TYPE_CHECKING:
    from simulation.machine.sockets import UnixSocket

POLLIN, POLLOUT, POLLERR, POLLHUP, POLLRDHUP = 0x1, 0x4, 0x8, 0x10, 0x2000


def fail(number: int, path: object = None) -> NoReturn:
    """Raises the OSError of an error number, as the class that Python chooses."""
    if path is None:
        raise OSError(number, os.strerror(number))
    raise OSError(number, os.strerror(number), str(path))


class Inode:
    """A file, directory, socket or piece of shared memory."""

    __slots__ = (
        "children",
        "data",
        "links",
        "listener",
        "lock",
        "mode",
        "mtime",
        "number",
        "opens",
        "real",
        "size",
        "uid",
    )

    def __init__(self, number: int, mode: int, uid: int, mtime: float) -> None:
        self.number = number
        self.mode = mode
        self.uid = uid
        self.mtime = mtime
        self.links = 0
        self.opens = 0
        """Open descriptions and mappings."""
        self.data = bytearray()
        self.size = 0
        """Of shared memory. Its bytes are in a real memfd."""
        self.real: int | None = None
        """The real memfd behind shared memory."""
        self.children: dict[str, Inode] = {}
        self.lock: OpenFile | None = None
        self.listener: UnixSocket | None = None

    @property
    def is_directory(self) -> bool:
        """Whether it is a directory."""
        return stat.S_ISDIR(self.mode)

    def status(self) -> SimpleNamespace:
        """Returns what stat(2) reports, as far as the product looks at it."""
        return SimpleNamespace(
            st_ino=self.number,
            st_mode=self.mode,
            st_nlink=self.links,
            st_uid=self.uid,
            st_size=self.size if self.real is not None else len(self.data),
            st_mtime=self.mtime,
            st_mtime_ns=round(self.mtime * 1e9),
        )

    def release(self) -> None:
        """Give shared memory back once nothing refers to it."""
        if self.real is not None and not self.opens:
            os.close(self.real)
            self.real = None


class Description:
    """An open file description: descriptors of several processes may refer to it."""

    __slots__ = ("holders", "waiters")

    def __init__(self) -> None:
        self.holders = 0
        """Descriptors, and messages on their way that carry one."""
        self.waiters: Waiters = []
        """Threads that wait for a change of ``events``."""

    def events(self) -> int:
        """Returns what poll(2) reports now."""
        return POLLIN | POLLOUT

    def status(self) -> SimpleNamespace:
        """See Inode."""
        return SimpleNamespace(
            st_ino=0, st_mode=stat.S_IFCHR | 0o666, st_nlink=1, st_uid=0, st_size=0, st_mtime=0.0
        )

    def release(self) -> None:
        """Count one holder less."""
        self.holders -= 1
        if not self.holders:
            self.last_close()

    def last_close(self) -> None:
        """Nothing refers to it any more."""


class OpenFile(Description):
    """An open file or piece of shared memory."""

    __slots__ = ("append", "inode", "position")

    def __init__(self, inode: Inode, *, append: bool = False) -> None:
        super().__init__()
        self.inode = inode
        self.append = append
        self.position = 0
        inode.opens += 1

    def status(self) -> SimpleNamespace:
        """See Inode."""
        return self.inode.status()

    def lock(self) -> bool:
        """Take the exclusive lock. Returns False if another description has it."""
        if self.inode.lock not in (None, self):
            return False
        self.inode.lock = self
        return True

    def unlock(self) -> None:
        """Release the lock."""
        if self.inode.lock is self:
            self.inode.lock = None

    def last_close(self) -> None:
        """See Description."""
        self.unlock()
        self.inode.opens -= 1
        self.inode.release()


class Tree:
    """The directories and files of a machine, and the room on its disk."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock`` gives the time on the wall."""
        self._clock = clock
        self._numbers = 0
        self.on_unlink: Callable[[str, Inode], object] | None = None
        """Called before a name is removed."""
        self.full = False
        """Whether the disk takes no more bytes."""
        self.no_inodes = False
        """Whether the disk takes no new file either."""
        self.memory: dict[int, Inode] = {}
        """Shared memory that was ever made, until ``segments`` is asked."""
        self.root = self._inode(stat.S_IFDIR | 0o755, 0)

    def _inode(self, mode: int, uid: int) -> Inode:
        self._numbers += 1
        return Inode(self._numbers, mode, uid, self._clock())

    # -- names ------------------------------------------------------------------------------

    def find(self, path: str) -> Inode:
        """Returns the inode at a path. Raises FileNotFoundError or NotADirectoryError."""
        inode = self.root
        for part in path.split("/"):
            if part:
                if not inode.is_directory:
                    fail(errno.ENOTDIR, path)
                child = inode.children.get(part)
                if child is None:
                    fail(errno.ENOENT, path)
                inode = child
        return inode

    def exists(self, path: str) -> bool:
        """Returns whether anything is at a path."""
        try:
            self.find(path)
        except OSError:
            return False
        return True

    def _place(self, path: str) -> tuple[Inode, str]:
        parent, _, name = path.rpartition("/")
        directory = self.find(parent)
        if not directory.is_directory:
            fail(errno.ENOTDIR, path)
        return directory, name

    def create(self, path: str, mode: int, uid: int) -> Inode:
        """Make a new inode at a free path. Raises FileExistsError, or ENOSPC."""
        directory, name = self._place(path)
        if name in directory.children:
            fail(errno.EEXIST, path)
        if self.no_inodes:
            fail(errno.ENOSPC, path)
        inode = directory.children[name] = self._inode(mode, uid)
        inode.links = 1
        directory.mtime = self._clock()
        return inode

    def mkdir(self, path: str, mode: int, uid: int) -> None:
        """Make a directory."""
        self.create(path, stat.S_IFDIR | mode, uid)

    def unlink(self, path: str) -> None:
        """Remove a name. Who has the file open keeps it."""
        directory, name = self._place(path)
        inode = directory.children.get(name)
        if inode is None:
            fail(errno.ENOENT, path)
        if inode.is_directory:
            fail(errno.EISDIR, path)
        if self.on_unlink is not None:
            self.on_unlink(path, inode)
        del directory.children[name]
        inode.links -= 1
        directory.mtime = self._clock()

    def rename(self, source: str, target: str) -> None:
        """Give a file another name, in place of what had it."""
        inode = self.find(source)
        directory, name = self._place(source)
        aim, aim_name = self._place(target)
        former = aim.children.get(aim_name)
        if former is inode:
            return
        if former is not None and former.is_directory:
            fail(errno.EISDIR, target)
        if former is not None:
            former.links -= 1
        del directory.children[name]
        aim.children[aim_name] = inode

    def names(self, path: str) -> list[str]:
        """Returns the names in a directory."""
        inode = self.find(path)
        if not inode.is_directory:
            fail(errno.ENOTDIR, path)
        return list(inode.children)

    def walk(self, path: str = "") -> Iterator[tuple[str, Inode]]:
        """Yields every file below a directory, with its path."""
        for name, inode in self.find(path).children.items():
            if inode.is_directory:
                yield from self.walk(f"{path}/{name}")
            else:
                yield f"{path}/{name}", inode

    # -- contents ---------------------------------------------------------------------------

    def open(self, path: str, mode: str, uid: int) -> OpenFile:
        """Open a file: ``r``, ``w`` (emptied) or ``a``. The latter two make a missing one."""
        if mode == "r" or self.exists(path):
            inode = self.find(path)
        else:
            inode = self.create(path, stat.S_IFREG | 0o644, uid)
        if inode.is_directory and mode != "r":
            fail(errno.EISDIR, path)
        if stat.S_ISSOCK(inode.mode):
            fail(errno.ENXIO, path)
        if mode == "w" and inode.data:
            self.truncate(inode, 0)
        return OpenFile(inode, append=mode == "a")

    def write(self, file: OpenFile, data: bytes) -> int:
        """Write bytes. Returns how many: a disk that is full takes none and raises ENOSPC."""
        inode = file.inode
        at = len(inode.data) if file.append else file.position
        if self.full and at + len(data) > len(inode.data):
            fail(errno.ENOSPC)
        if at > len(inode.data):
            inode.data.extend(bytes(at - len(inode.data)))
        inode.data[at : at + len(data)] = data
        file.position = at + len(data)
        inode.mtime = self._clock()
        return len(data)

    def truncate(self, inode: Inode, size: int) -> None:
        """Cut a file, or fill it up with zeros."""
        if inode.real is not None:
            os.ftruncate(inode.real, size)
            inode.size = size
        elif size <= len(inode.data):
            del inode.data[size:]
        else:
            inode.data.extend(bytes(size - len(inode.data)))
        inode.mtime = self._clock()

    def memfd(self, uid: int) -> OpenFile:
        """Returns new shared memory, which has no name."""
        inode = self._inode(stat.S_IFREG | 0o600, uid)
        inode.real = os.memfd_create("simulated", os.MFD_CLOEXEC)
        self.memory[inode.number] = inode
        return OpenFile(inode)

    def segments(self) -> list[Inode]:
        """Returns the pieces of shared memory that anything still refers to."""
        self.memory = {n: inode for n, inode in self.memory.items() if inode.real is not None}
        return list(self.memory.values())

    def close(self) -> None:
        """Give all real memory back, at the end of a simulation."""
        for inode in self.segments():
            inode.opens = 0
            inode.release()
