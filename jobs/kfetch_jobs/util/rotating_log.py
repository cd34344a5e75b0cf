"""Logs with a limit, which rotate while their writer lives: one older file stays beside each.

A supervised run writes to files that its supervisor has opened. So the run itself rotates its log:
it renames the file, and points its descriptors 1 and 2 to a new one. The rotation loses no line,
and a crash of the interpreter still leaves its trace in the log. If no new file can be opened, the
log goes on in the full one. Children that have the descriptors go on in the renamed file.
"""

from __future__ import annotations

import io
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO, cast

from kfetch_jobs.util.files import owner_only

LOG_BYTES_MAX = 16 << 20
"""A log is rotated beyond this size, in bytes."""
_CHECK_EVERY = 64 << 10
"""The file's size is looked up after so many characters."""


def older_log(path: Path) -> Path:
    """Returns the path to which a full log moves: ``run.1.log`` for ``run.log``."""
    return path.with_suffix(f".1{path.suffix}")


def rotated(path: Path) -> int:
    """Rename a full log, and return the descriptor of a new one.

    Raises OSError, and the full log keeps its name.
    """
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    new = owner_only(os.fspath(fresh), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.replace(path, older_log(path))
        os.replace(fresh, path)
    except OSError:
        os.close(new)
        raise
    return new


class RunLog:
    """The log to which this process's output goes. Any thread may write."""

    def __init__(
        self,
        path: Path,
        bytes_max: int = LOG_BYTES_MAX,
        now: Callable[[], float] = time.time,
        descriptors: tuple[int, ...] = (1, 2),
    ) -> None:
        self._path = path
        self._bytes_max = bytes_max
        self._now = now
        self._descriptors = descriptors
        self._unchecked = bytes_max  # runs before may have filled it
        self.lock = threading.RLock()  # a destructor may write in a thread that holds the lock

    def install(self) -> None:
        """Write times before the lines of ``sys.stdout`` and ``sys.stderr``, to the process's end.

        After that end nobody restores them: the last line, an error, needs its time most.
        """
        for name in ("stdout", "stderr"):
            stream = LogStream(getattr(sys, name), self)
            setattr(sys, name, cast("TextIO", stream))

    def stamp(self) -> str:
        """Returns the time before a line: UTC, ISO 8601."""
        return time.strftime("%Y-%m-%dT%H:%M:%SZ ", time.gmtime(self._now()))

    def note_written(self, characters: int) -> None:
        """Count characters, and rotate a full log between two lines."""
        self._unchecked += characters
        if self._unchecked < min(_CHECK_EVERY, self._bytes_max // 16):
            return
        self._unchecked = 0
        with suppress(OSError):  # a full disk: the log goes on
            self._rotate_if_full()

    def _rotate_if_full(self) -> None:
        log = self._path.stat()
        ours = [one for one in self._descriptors if os.path.samestat(os.fstat(one), log)]
        if not ours or log.st_size <= self._bytes_max:
            return
        new = rotated(self._path)
        for one in ours:
            os.dup2(new, one)
        os.close(new)


class LogStream:
    """Wraps a text stream: each line begins with its time. Everything else passes through.

    The log gets each text at once. So lines of stdout and stderr stand in order, and SIGKILL loses
    none.
    """

    def __init__(self, stream: TextIO, log: RunLog) -> None:
        self._stream = stream
        self._log = log
        self._inside_line = False

    def write(self, text: str) -> int:
        """Write text, with the time at the start of each line."""
        with self._log.lock:
            stamp = self._log.stamp()
            with suppress(OSError, ValueError):  # a full disk, or a closed stream: the log goes on
                for line in io.StringIO(text, newline="\n"):
                    self._stream.write(line if self._inside_line else stamp + line)
                    self._inside_line = not line.endswith("\n")
                self._stream.flush()
            if not self._inside_line:
                self._log.note_written(len(stamp) + len(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
