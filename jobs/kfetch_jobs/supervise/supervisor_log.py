"""The supervisor's log: on the terminal, and in files of limited size."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

from kfetch_jobs.supervise.store import supervisor_directory
from kfetch_jobs.util.files import owner_only

_BYTES_MAX = 1 << 20
_OLD_MAX = 3


def log_file(storage: Path) -> Path:
    """Returns the path of the log of a storage's supervisor."""
    return supervisor_directory(storage) / "supervisor.log"


class _TextFormatter(logging.Formatter):
    """One line of text, and an exception's traceback below it, without secrets."""

    def __init__(self, redacted: Callable[[str], str]) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%SZ")
        self.converter = time.gmtime
        self.redacted = redacted

    def format(self, record: logging.LogRecord) -> str:
        return self.redacted(super().format(record))


class _JsonFormatter(_TextFormatter):
    """One JSON object per line, without secrets."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": self.formatTime(record, self.datefmt),
            "level": record.levelname,
            "logger": record.name,
            "message": self.redacted(record.getMessage()),
        }
        if record.exc_info:
            fields["trace"] = self.redacted(self.formatException(record.exc_info))
        return json.dumps(fields)


class _PrivateFileHandler(RotatingFileHandler):
    """Writes files that only their owner may read."""

    def _open(self) -> TextIOWrapper:
        handle = owner_only(self.baseFilename, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        return open(handle, "a", encoding="utf-8")


def log_handlers(
    storage: Path, redacted: Callable[[str], str], *, as_json: bool, quiet: bool
) -> list[logging.Handler]:
    """Returns the handlers for the file and, unless ``quiet``, for the terminal.

    Times are UTC, ISO 8601. ``redacted`` removes secrets.
    """
    path = log_file(storage)
    path.parent.mkdir(parents=True, exist_ok=True)
    formatter = (_JsonFormatter if as_json else _TextFormatter)(redacted)
    handlers: list[logging.Handler] = [
        _PrivateFileHandler(path, maxBytes=_BYTES_MAX, backupCount=_OLD_MAX)
    ]
    if not quiet:
        handlers.append(logging.StreamHandler(sys.stderr))
    for handler in handlers:
        handler.setFormatter(formatter)
    return handlers
