"""Where a supervisor's words go: to the terminal, and to a file of bounded size."""

from __future__ import annotations

import json
import logging
import sys
import time
from logging.handlers import RotatingFileHandler
from pathlib import Path

from jobs.supervise.store import directory

__all__ = ["handlers", "log_file"]

_BYTES_MAX = 1 << 20
_OLD_MAX = 3


def log_file(storage: Path) -> Path:
    """The file of a storage's supervisor."""
    return directory(storage) / "supervisor.log"


class _Json(logging.Formatter):
    """One object a line."""

    def format(self, record: logging.LogRecord) -> str:
        told = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        return json.dumps(told)


def handlers(storage: Path, *, as_json: bool, quiet: bool) -> list[logging.Handler]:
    """For the file and, unless ``quiet``, the terminal; times are UTC, ISO 8601."""
    path = log_file(storage)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "%(asctime)s %(levelname)s %(message)s"
    formatter = (_Json if as_json else logging.Formatter)(text, "%Y-%m-%dT%H:%M:%SZ")
    formatter.converter = time.gmtime
    made: list[logging.Handler] = [
        RotatingFileHandler(path, maxBytes=_BYTES_MAX, backupCount=_OLD_MAX)
    ]
    if not quiet:
        made.append(logging.StreamHandler(sys.stderr))
    for handler in made:
        handler.setFormatter(formatter)
    return made
