"""Removes the files that a run before has begun to write into a checkpoint, and not finished.

Spark writes ``offsets/7`` as ``offsets/.7.UUID.tmp``, looks whether ``offsets/7`` exists, and
renames the file. On S3 and on local disks the look and the rename are two steps. A run that sleeps
between them would overwrite the plan of the run that has taken over. Without its file, its rename
fails. See RenameBasedFSDataOutputStream of Spark 4.2.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from pathlib import Path

from kfetch.storage.open import StoredPath
from kfetch_jobs.checkpoints.location import checkpoint_path
from kfetch_jobs.config import Job
from kfetch_jobs.errors import JobsError

log = logging.getLogger("kfetch_jobs.run")

_LOGS = ("offsets", "commits")
_HALF_WRITTEN = re.compile(r"\.\d+\.[0-9a-f-]{36}\.tmp")


def remove_half_written(job: Job) -> None:
    """Remove such files. Only the holder of the checkpoint's lease may call it, before it runs.

    Raises JobsError if one can't be removed.
    """
    path = checkpoint_path(job)
    if path is None:
        return
    for name in _LOGS:
        try:
            for file in _hidden(path / name):
                if _HALF_WRITTEN.fullmatch(file.name):
                    file.unlink(missing_ok=True)
                    log.warning("removed %s, which a run before has not finished", file)
        except FileNotFoundError:
            continue
        except OSError as cause:
            raise JobsError(
                f"job {job.name}: {cause.filename or path / name} can't be removed: "
                f"{cause.strerror}; a run before has left it, and may still wake"
            ) from None


def _hidden(log: StoredPath) -> Iterable[StoredPath]:
    """Returns the files of a log whose names begin with a dot, and perhaps others.

    A dot stands before all digits. So one request to a store is enough, if there are few of them.
    """
    if isinstance(log, Path):
        return log.iterdir()
    page = log.page_behind("")
    if page.is_last or not page.names[-1].startswith("."):
        return [log / name for name in page.names]
    return log.iterdir()
