"""What is added to the progress files of all jobs of a storage.

Each look reads what was added since the one before. A file that is full is put aside
(``progress.history``), and a look follows it there once; it is full after some ten thousand
micro-batches.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from kfetch_jobs.progress import history as progress

__all__ = ["Follower"]

_FILES = "*/progress.jsonl"
_SOME_BYTES = 64 << 10
"""Less than this has come while the rest was read."""


@dataclass(slots=True)
class _Place:
    """How far a file was read."""

    inode: int
    position: int


class Follower:
    """Reads lines as they are added. Not for use by several threads."""

    def __init__(self, storage: Path) -> None:
        self._storage = storage
        self._places: dict[str, _Place] = {}
        self.unfinished: set[str] = set()
        """Jobs of which the last look has left something for the next."""

    @classmethod
    def from_now_on(cls, storage: Path) -> Self:
        """What the files hold by now counts as read."""
        made = cls(storage)
        for path in storage.glob(_FILES):
            with suppress(OSError):
                told = path.stat()
                made._places[path.parent.name] = _Place(told.st_ino, told.st_size)
        return made

    @classmethod
    def from_the_start(cls, storage: Path) -> Self:
        """All that is kept comes first, with what was put aside."""
        made = cls(storage)
        for path in storage.glob(_FILES):
            with suppress(OSError):
                aside = progress.put_aside(path).stat().st_ino
                made._places[path.parent.name] = _Place(aside, 0)
        return made

    def added(self, bytes_max: int) -> Iterator[tuple[str, list[str]]]:
        """Each job's whole lines since the last look, with their ends; of much, the rest later."""
        for path in self._storage.glob(_FILES):
            job, lines = path.parent.name, self._of(path, bytes_max)
            self.unfinished.discard(job)
            if lines and self._left(path) >= min(bytes_max, _SOME_BYTES):
                self.unfinished.add(job)
            yield job, lines

    def _left(self, path: Path) -> int:
        place = self._places[path.parent.name]
        main = _size(path)
        if _inode(path) == place.inode:
            return main - place.position
        return main + _size(progress.put_aside(path)) - place.position

    def _of(self, path: Path, bytes_max: int) -> list[str]:
        inode = _inode(path)
        if inode is None:
            return []  # just being put aside
        place = self._places.setdefault(path.parent.name, _Place(inode, 0))
        if place.inode == inode:
            return _lines(path, place, bytes_max)
        aside = progress.put_aside(path)
        lines = _lines(aside, place, bytes_max)
        if lines and _size(aside) > place.position:
            return lines  # the rest of them comes first
        place.inode, place.position = inode, 0
        return lines + _lines(path, place, bytes_max)


def _lines(path: Path, place: _Place, bytes_max: int) -> list[str]:
    """Whole lines from a place on; it moves behind them. No lines if another file stands there."""
    try:
        with path.open("rb") as file:
            told = os.fstat(file.fileno())
            if told.st_ino != place.inode:
                return []
            file.seek(place.position if place.position <= told.st_size else 0)
            read = file.read(bytes_max)
            whole, newline, rest = read.rpartition(b"\n")
            # What has no end within so much is no line of ours: go on behind it.
            place.position = file.tell() - (len(rest) if len(rest) < bytes_max else 0)
    except OSError:
        return []
    return (whole + newline).decode(errors="replace").splitlines(keepends=True)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None
