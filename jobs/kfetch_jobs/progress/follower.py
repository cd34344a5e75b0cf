"""New lines in the progress files of all jobs of a storage.

Each call reads the lines that were added since the call before. A full file is rotated
(``progress_file.py``) after some ten thousand micro-batches. The follower then reads the rest of
the rotated file once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kfetch_jobs.progress.progress_file import rotated_path

_FILES = "*/progress.jsonl"
_SOME_BYTES = 64 << 10
"""More than jobs add while the follower reads the rest."""


@dataclass(slots=True)
class _Cursor:
    """The position up to which a file was read."""

    inode: int
    position: int


class Follower:
    """Reads lines as jobs add them. Not for use by several threads."""

    def __init__(self, storage: Path, *, from_now_on: bool = False) -> None:
        """Begin with the rotated files, or skip all present content with ``from_now_on``."""
        self._storage = storage
        self._cursors: dict[str, _Cursor] = {}
        self.unfinished: set[str] = set()
        """Jobs with more new lines than the last call has read."""
        for path in storage.glob(_FILES):
            with suppress(OSError):
                status = (path if from_now_on else rotated_path(path)).stat()
                position = status.st_size if from_now_on else 0
                self._cursors[path.parent.name] = _Cursor(status.st_ino, position)

    def read_added(self, bytes_max: int) -> Iterator[tuple[str, list[str]]]:
        """Yields each job with its new whole lines, with their ends.

        Reads at most ``bytes_max`` bytes of a file; the next call goes on behind them.
        """
        for path in self._storage.glob(_FILES):
            job, lines = path.parent.name, self._new_lines(path, bytes_max)
            self.unfinished.discard(job)
            if lines and self._unread_bytes(path) >= min(bytes_max, _SOME_BYTES):
                self.unfinished.add(job)
            yield job, lines

    def _unread_bytes(self, path: Path) -> int:
        cursor = self._cursors[path.parent.name]
        inode, size = _identity(path)
        if inode != cursor.inode:
            size += _identity(rotated_path(path))[1]
        return size - cursor.position

    def _new_lines(self, path: Path, bytes_max: int) -> list[str]:
        inode, _ = _identity(path)
        if inode is None:
            return []  # the job is rotating it
        cursor = self._cursors.setdefault(path.parent.name, _Cursor(inode, 0))
        if cursor.inode == inode:
            return _lines(path, cursor, bytes_max)
        rotated = rotated_path(path)
        lines = _lines(rotated, cursor, bytes_max)
        if lines and _identity(rotated)[1] > cursor.position:
            return lines  # the next call goes on in the rotated file
        cursor.inode, cursor.position = inode, 0
        return lines + _lines(path, cursor, bytes_max)


def _lines(path: Path, cursor: _Cursor, bytes_max: int) -> list[str]:
    """Returns whole lines from the cursor on, and moves it behind them.

    Returns no lines if the path is now another file.
    """
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_ino != cursor.inode:
                return []
            file.seek(cursor.position if cursor.position <= status.st_size else 0)
            content = file.read(bytes_max)
            whole, newline, rest = content.rpartition(b"\n")
            # No line of a job is as long as ``bytes_max``: skip it.
            cursor.position = file.tell() - (len(rest) if len(rest) < bytes_max else 0)
    except OSError:
        return []
    return (whole + newline).decode(errors="replace").splitlines(keepends=True)


def _identity(path: Path) -> tuple[int | None, int]:
    """Returns inode and size of a file; None and 0 if there is none now."""
    try:
        status = path.stat()
    except OSError:
        return None, 0
    return status.st_ino, status.st_size
