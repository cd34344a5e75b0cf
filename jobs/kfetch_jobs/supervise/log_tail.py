"""Reads the last lines of a log, and follows it."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from kfetch_jobs.errors import JobsError
from kfetch_jobs.util.rotating_log import older_log

_BYTES_MAX = 1 << 20
"""``last_lines`` reads at most this much of the end."""
_POLL_S = 0.25


def last_lines(
    path: Path, lines: int, redacted: Callable[[str], str] = str, writer: str = ""
) -> list[str]:
    """Returns the last lines of a log; ``redacted`` removes secrets from the text.

    A log that was rotated a moment ago is short, and the older file has the lines before it.
    Raises JobsError if there is no log. ``writer`` tells the reader what writes it.
    """
    text = _end_of(path, writer)
    older = older_log(path)
    if text.count("\n") < lines and older.exists():
        text = _end_of(older, writer) + text
    # Redact before splitting: a secret may have several lines.
    return list(deque(redacted(text).splitlines(), maxlen=lines))


def _end_of(path: Path, writer: str) -> str:
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            if file.seek(max(0, size - _BYTES_MAX)):
                file.readline()  # the redaction does not recognize half of a secret
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        sentence = f"there is no log {path} yet{': ' if writer else ''}{writer}"
        raise JobsError(sentence) from None
    if size and not text:
        text = f"(its last line is longer than {_BYTES_MAX >> 20} MiB)"
    return text


def follow_lines(path: Path) -> Iterator[str]:
    """Yields each line that is added from now on. A log that begins anew is read from its start."""
    file = path.open(errors="replace")
    try:
        file.seek(0, os.SEEK_END)
        part = ""
        while True:
            text = file.read()
            if not text:
                time.sleep(_POLL_S)
                if path.exists() and path.stat().st_ino != os.fstat(file.fileno()).st_ino:
                    text = file.read()  # its writer has added lines before the new log began
                    file.close()
                    file = path.open(errors="replace")
            if not text:
                continue
            *whole, part = (part + text).split("\n")
            yield from whole
    finally:
        file.close()
