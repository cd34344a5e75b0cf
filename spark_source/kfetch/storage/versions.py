"""Small files of which only one writer can make the next version: on this machine, or in a store.

A version has a token. ``write`` names the token that it replaces, and does nothing if the file has
another one by then. So of several writers, on any number of hosts, one succeeds.

In an object store the token is the object's ETag (in GCS its generation), and the store compares.
On this machine each version is a file of its own in a directory, and its number is the token. A new
version is a new name, which link(2) gives to one process only, on NFS as well. So it is in HDFS,
where the namenode gives names.
Decision 116 says on what that relies.
"""

from __future__ import annotations

import errno
import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

from kfetch.storage.objects import ObjectPath

_KEPT = 8
"""How many versions stay in a directory, so that a slow writer finds the next name taken."""
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
"""What link(2) says on file systems without hard links."""
_FULL = {errno.ENOSPC, errno.EDQUOT}
"""What a full disk says. The holder of a lease goes on there, as its idle query does."""


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a file."""

    token: str
    content: bytes
    written_s: float = field(default=0.0, compare=False)
    """When it was written, in seconds since 1970, by the clock of the disk or of the store."""


class VersionedFile(Protocol):
    """A file that is replaced only if it is unchanged. Its contents must all differ."""

    def read(self) -> Version | None:
        """Returns the present version; None without one. Raises OSError, which names the file."""

    def write(self, content: bytes, before: str | None) -> str | None:
        """Write the version behind ``before``, and return its token; None if another one is there.

        ``before``: a token, or None for the first version. If the answer of a write is lost, the
        content tells whether it succeeded. Raises OSError if nobody knows.
        """

    def is_conditional(self) -> bool:
        """Returns whether a write that must be refused is refused. The file stays as it is."""


@dataclass(frozen=True, slots=True)
class VersionedObject:
    """An object in a store."""

    path: ObjectPath

    def __str__(self) -> str:
        return str(self.path)

    def read(self) -> Version | None:
        """Returns the present version; None without one. One request."""
        try:
            return Version(*self.path.read_tagged())
        except FileNotFoundError:
            return None

    def write(self, content: bytes, before: str | None) -> str | None:
        """Write a version. One request, or two if the store refuses it. See ``VersionedFile``."""
        return self.path.write_if(content, before) or _token_of(content, self.read())

    def is_conditional(self) -> bool:
        """Returns whether the store knows conditional writes. Some ignore them without a word."""
        present = self.path.read_bytes()
        other = '"0"' if self.path.tag == "e_tag" else "1"
        return all(self.path.write_if(present, tag) is None for tag in (None, other))


_READABLE = 0o644
"""Commands of other users show who holds a checkpoint."""


@dataclass(frozen=True, slots=True)
class VersionedDirectory:
    """A directory of this machine or in HDFS, with a file for each of the last versions."""

    path: Path | ObjectPath
    mode: int = _READABLE
    """That of the files on a disk."""
    _own: list[int] = field(default_factory=list, repr=False, compare=False)
    """The numbers of the versions that this object has written and not removed."""
    _hidden: dict[str, int] = field(default_factory=dict, repr=False, compare=False)
    """Files of unfinished writes, and the version at which this object first saw each."""

    def __str__(self) -> str:
        return str(self.path)

    def read(self) -> Version | None:
        """Returns the present version; None without one."""
        while numbers := _numbers(self._names()):
            with suppress(FileNotFoundError):  # newer versions came, and this one was removed
                return Version(str(numbers[-1]), *_read(self._file(numbers[-1])))
        return None

    def write(self, content: bytes, before: str | None) -> str | None:
        """Write a version. See ``VersionedFile``."""
        number = int(before or "0") + 1
        if not self._create(number, content):
            return _token_of(content, self.read())
        names = self._names()
        numbers = _numbers(names)
        # The name was free again: it belonged to a version of long ago. Or the directory is gone.
        if not numbers or numbers[-1] != number:
            self._remove([number])
            return None
        self._own.append(number)
        self._remove(numbers[:-_KEPT])
        self._sweep([name for name in names if name.startswith(".")], number)
        return str(number)

    def _create(self, number: int, content: bytes) -> bool:
        """Write a version if there is none of this number. Returns whether it did."""
        file = self._file(number)
        if isinstance(file, ObjectPath):
            return file.write_if(content, None) is not None
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            return _write_new(file, content, self.mode)
        except OSError as cause:
            if cause.errno not in _FULL or len(self._own) < 2:
                raise
        # Nobody else writes into this object's earlier versions, and they have their blocks.
        spare = self._own[0]
        older = file.parent / self._name(spare)
        with older.open("r+b") as opened:
            _put(opened, content)
        created = _link(older, file)
        self._remove([spare])
        return created

    def _remove(self, numbers: list[int]) -> None:
        for number in numbers:
            self._file(number).unlink(missing_ok=True)
            if number in self._own:
                self._own.remove(number)

    def _sweep(self, hidden: list[str], number: int) -> None:
        """Remove what killed writers have left. A write that is so late finds its name taken."""
        self._hidden.update({name: self._hidden.get(name, number) for name in hidden})
        for name in hidden:
            if self._hidden[name] <= number - _KEPT:
                with suppress(OSError):
                    (self.path / name).unlink()

    def is_conditional(self) -> bool:
        """Returns True: file systems refuse a second file of one name."""
        return True

    def _file(self, number: int) -> Path | ObjectPath:
        return self.path / self._name(number)

    @staticmethod
    def _name(number: int) -> str:
        return f"{number:012}"

    def _names(self) -> list[str]:
        try:
            return [file.name for file in self.path.iterdir()]
        except FileNotFoundError:
            return []


def create(file: Path | ObjectPath, content: bytes) -> bool:
    """Write a file if there is none of its name. Returns whether this process has written it."""
    if isinstance(file, ObjectPath):
        return VersionedObject(file).write(content, None) is not None
    file.parent.mkdir(parents=True, exist_ok=True)
    return _write_new(file, content, _READABLE)


def _numbers(names: list[str]) -> list[int]:
    return sorted(int(name) for name in names if name.isdigit())


def _read(file: Path | ObjectPath) -> tuple[bytes, float]:
    """Returns the content, and when it was written."""
    if isinstance(file, ObjectPath):
        return file.read_tagged()[1:]
    return file.read_bytes(), file.stat().st_mtime


def _token_of(content: bytes, present: Version | None) -> str | None:
    """Returns the token of a refused write that has succeeded: NFS and clients of stores repeat it.

    A request without an answer is sent again, and the second one finds what the first one wrote.
    """
    return present.token if present and present.content == content else None


def _write_new(file: Path, content: bytes, mode: int) -> bool:
    """Write a file if there is none of its name. Returns whether this process has written it."""
    handle, hidden = tempfile.mkstemp(dir=file.parent, prefix=".")
    try:
        with os.fdopen(handle, "wb") as opened:
            with suppress(OSError):  # a file system without modes
                os.fchmod(handle, mode)
            _put(opened, content)
        try:
            return _link(Path(hidden), file)
        except OSError as cause:
            if cause.errno not in _NO_LINKS:
                raise
            return _create_exclusively(file, content, mode)
    finally:
        Path(hidden).unlink(missing_ok=True)


def _put(opened: BinaryIO, content: bytes) -> None:
    """Make this the content, also behind a power cut: a version without content is damaged."""
    opened.write(content)
    opened.truncate()
    opened.flush()
    os.fsync(opened.fileno())


def _link(source: Path, file: Path) -> bool:
    """Give a file another name, if no file has it. Returns whether it did."""
    try:
        os.link(source, file)
    except FileExistsError:
        return False
    return True


def _create_exclusively(file: Path, content: bytes, mode: int) -> bool:
    """Create a file by O_EXCL. A reader may see it empty for a moment."""
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        return False
    try:
        with os.fdopen(handle, "wb") as opened:
            _put(opened, content)
    except OSError:  # a full disk: an empty version would count as that of another process
        file.unlink(missing_ok=True)
        raise
    return True
