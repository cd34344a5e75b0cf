"""Removes the files that a run before has begun to write into a checkpoint, and not finished.

Spark writes ``offsets/7`` as ``offsets/.7.UUID.tmp``, looks whether ``offsets/7`` exists, and
renames the file. On S3 and on local disks the look and the rename are two steps. A run that sleeps
between them would overwrite the plan of the run that has taken over. Without its file, its rename
fails. See RenameBasedFSDataOutputStream of Spark 4.2.
"""

from __future__ import annotations

import logging
import re

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
            for file in (path / name).iterdir():
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
