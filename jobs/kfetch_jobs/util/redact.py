"""Removes secrets from the output of a process and its children, before it is written.

The search works on whole lines: each line of a longer secret counts as a secret. A line that is too
long is left out, and a notice takes its place.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO, cast

from kfetch.errors import KfetchError
from kfetch_jobs.util.files import owner_only
from kfetch_jobs.util.rotating_log import LOG_BYTES_MAX, rotated

Redact = Callable[[str], str]
_LINE_MAX = 1 << 20
"""The longest line, in characters."""
_READ_BYTES = 64 << 10
_LAST_LINES_WITHIN_S = 5.0


class LineRedactor:
    """Redacts the lines of a text that arrives in pieces. Pure."""

    def __init__(self, redacted: Redact, line_max: int = _LINE_MAX) -> None:
        """``line_max``: longer lines, in characters, are left out unless they come in one piece."""
        self._redacted = redacted
        self._line_max = line_max
        self._part = ""
        self._too_long = False

    def add(self, text: str) -> str:
        """Add a piece. Returns the redacted lines that are whole now."""
        whole, newline, rest = text.rpartition("\n")
        lines = self._redact(whole + newline) if newline else ""
        if not self._too_long:
            self._part += rest
        if len(self._part) > self._line_max:
            self._part, self._too_long = "", True
        return lines

    def finish(self) -> str:
        """Returns the redacted rest, after the last piece."""
        return self._redact("")

    def _redact(self, text: str) -> str:
        # Clear the state first: a garbage collection may write here meanwhile, in this thread.
        part, too_long = self._part, self._too_long
        self._part, self._too_long = "", False
        if too_long:
            part = f"(a line of more than {self._line_max:,} characters is left out)\n"
            text = text.partition("\n")[2]
        return self._redacted(part + text)


class RedactedStream:
    """Wraps a text stream, which gets redacted lines. Everything else passes through."""

    def __init__(self, stream: TextIO, redacted: Redact) -> None:
        self._stream = stream
        self._lines = LineRedactor(redacted)
        self._lock = threading.RLock()  # a destructor may write in a thread that holds the lock

    def write(self, text: str) -> int:
        """Add text, and write the lines that are whole now."""
        with self._lock:
            if lines := self._lines.add(text):
                self._stream.write(lines)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Add texts, as ``write`` does."""
        for line in lines:
            self.write(line)

    def end(self) -> None:
        """Write the rest, which has no newline."""
        with self._lock:
            self._stream.write(self._lines.finish())
            self._stream.flush()

    def flush(self) -> None:
        """Flush whole lines. The part of a line stays here."""
        self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def redacted_output(redacted: Redact) -> Iterator[None]:
    """Redact the output of this process's Python during the block.

    This covers ``sys.stdout``, ``sys.stderr``, a KfetchError that leaves the block, and the
    traceback of a bug that does, which Python prints at the end.
    """
    before = sys.stdout, sys.stderr
    streams = RedactedStream(sys.stdout, redacted), RedactedStream(sys.stderr, redacted)
    sys.stdout, sys.stderr = cast("tuple[TextIO, TextIO]", streams)
    try:
        yield
    except KfetchError as error:
        # The caller prints it.
        error.what, error.action = redacted(error.what), redacted(error.action)
        raise
    except Exception:
        sys.excepthook = partial(_print_redacted, redacted)
        raise
    finally:
        sys.stdout, sys.stderr = before
        for stream in streams:
            stream.end()


def _print_redacted(
    redacted: Redact,
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
) -> None:
    sys.stderr.write(redacted("".join(traceback.format_exception(kind, error, trace))))


@contextmanager
def redacted_log(path: Path, redacted: Redact, bytes_max: int = LOG_BYTES_MAX) -> Iterator[int]:
    """Yields a file descriptor for this process and its children; a file gets its redacted lines.

    A file of more than ``bytes_max`` bytes is rotated, and one older file stays.
    A thread copies the lines until the last process has closed the descriptor. After the block,
    this process waits only a few seconds for it.
    """
    log = _RotatingFile(path, bytes_max)
    read, write = os.pipe()
    thread = threading.Thread(target=_pump, args=(read, log, redacted), name="log", daemon=True)
    thread.start()
    try:
        yield write
    finally:
        os.close(write)
        thread.join(_LAST_LINES_WITHIN_S)


class _RotatingFile:
    """A log to which whole lines are appended."""

    def __init__(self, path: Path, bytes_max: int) -> None:
        self._path = path
        self._bytes_max = bytes_max
        handle = owner_only(os.fspath(path), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._file = io.FileIO(handle, "ab")

    def append(self, text: str) -> None:
        """Append whole lines. Loses them if the disk is full: the writers must not wait."""
        with suppress(OSError):
            self._file.write(text.encode())
            if self._file.tell() > self._bytes_max:
                full, self._file = self._file, io.FileIO(rotated(self._path), "ab")
                full.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _pump(read: int, log: _RotatingFile, redacted: Redact) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    lines = LineRedactor(redacted)
    with closing(log), os.fdopen(read, "rb", 0) as pipe:
        while piece := pipe.read(_READ_BYTES):
            log.append(lines.add(decoder.decode(piece)))
        log.append(lines.add(decoder.decode(b"", final=True)) + lines.finish())
