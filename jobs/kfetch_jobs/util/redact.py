"""What a process and its children say, without secrets, before it is anywhere.

Secrets are looked for in whole lines: each line of a secret that has several is one by itself. A
line too long for that is left out, and said to be.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO, cast

from kfetch_jobs.errors import JobsError
from kfetch_jobs.util.files import owner_only

__all__ = ["LineRedactor", "RedactedStream", "redacted_log", "redacted_output"]

Redacted = Callable[[str], str]
_LINE_MAX = 1 << 20
"""Characters; what is longer is left out."""
_READ_BYTES = 64 << 10
_LAST_WORDS_WITHIN_S = 5.0


class LineRedactor:
    """Redacted lines of text that comes in pieces. Pure."""

    def __init__(self, redacted: Redacted, line_max: int = _LINE_MAX) -> None:
        """A line of more than ``line_max`` characters is left out unless it comes in one piece."""
        self._redacted = redacted
        self._line_max = line_max
        self._part = ""
        self._too_long = False

    def add(self, text: str) -> str:
        """What can be shown by now: whole lines."""
        whole, newline, rest = text.rpartition("\n")
        shown = self._ended(whole + newline) if newline else ""
        if not self._too_long:
            self._part += rest
        if len(self._part) > self._line_max:
            self._part, self._too_long = "", True
        return shown

    def finish(self) -> str:
        """What is left when nothing comes any more."""
        return self._ended("")

    def _ended(self, text: str) -> str:
        # Taken out first: a collection of garbage meanwhile may write here, in this thread.
        part, too_long = self._part, self._too_long
        self._part, self._too_long = "", False
        if too_long:
            part = f"(a line of more than {self._line_max:,} characters is left out)\n"
            text = text.partition("\n")[2]
        return self._redacted(part + text)


class RedactedStream:
    """A text stream over another, which gets redacted lines; else it is as that one."""

    def __init__(self, stream: TextIO, redacted: Redacted) -> None:
        self._stream = stream
        self._lines = LineRedactor(redacted)
        self._lock = threading.RLock()  # a destructor that complains is in a thread that has it

    def write(self, text: str) -> int:
        """Take text; its whole lines are written."""
        with self._lock:
            shown = self._lines.add(text)
            if shown:
                self._stream.write(shown)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Take texts, as ``write`` does."""
        for line in lines:
            self.write(line)

    def end(self) -> None:
        """Write what has no line's end."""
        with self._lock:
            self._stream.write(self._lines.finish())
            self._stream.flush()

    def flush(self) -> None:
        """Whole lines; the part of one stays."""
        self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def redacted_output(redacted: Redacted) -> Iterator[None]:
    """What this process's Python says goes through ``redacted``: ``sys.stdout``, ``sys.stderr``,
    a JobsError that leaves the block, and the traceback of a bug that does, which is told when
    nothing else has."""
    before = sys.stdout, sys.stderr
    said = RedactedStream(sys.stdout, redacted), RedactedStream(sys.stderr, redacted)
    sys.stdout, sys.stderr = cast("tuple[TextIO, TextIO]", said)
    try:
        yield
    except JobsError as error:
        error.args = (redacted(str(error)),)  # it is told outside
        raise
    except Exception:
        sys.excepthook = partial(_told, redacted)
        raise
    finally:
        sys.stdout, sys.stderr = before
        for stream in said:
            stream.end()


def _told(
    redacted: Redacted,
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
) -> None:
    sys.stderr.write(redacted("".join(traceback.format_exception(kind, error, trace))))


@contextmanager
def redacted_log(path: Path, redacted: Redacted) -> Iterator[int]:
    """A file descriptor to write to, for processes too; redacted lines of it are added to a file.

    A thread does it until the last who has the descriptor is gone, or, a moment after the block,
    with this process.
    """
    log = owner_only(os.fspath(path), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    read, write = os.pipe()
    thread = threading.Thread(target=_pump, args=(read, log, redacted), name="log", daemon=True)
    thread.start()
    try:
        yield write
    finally:
        os.close(write)
        thread.join(_LAST_WORDS_WITHIN_S)


def _pump(read: int, log: int, redacted: Redacted) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    lines = LineRedactor(redacted)
    with os.fdopen(log, "ab", 0) as file, os.fdopen(read, "rb", 0) as pipe:
        while piece := pipe.read(_READ_BYTES):
            _append(file, lines.add(decoder.decode(piece)))
        _append(file, lines.add(decoder.decode(b"", final=True)) + lines.finish())


def _append(file: io.FileIO, text: str) -> None:
    with suppress(OSError):  # a full disk costs the log; who writes must not be held up
        file.write(text.encode())
