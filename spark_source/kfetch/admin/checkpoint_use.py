"""Whether a query may run on a checkpoint. Spark holds no lock on it, so this looks for signs.

There are three signs: the lock of a kfetch job, an agent of this machine that has read for the
query, and a file that was written within the last minute. No sign does not prove that no query
runs. An idle query writes nothing, and its executors may be on other machines.
"""

from __future__ import annotations

import fcntl
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

from kfetch.admin import agents
from kfetch.admin.checkpoint import Checkpoint
from kfetch.errors import AgentError, CheckpointError, CheckpointInUse

__all__ = ["QUIET_S", "check_at_rest", "hold_lock"]

QUIET_S = 60.0
"""A checkpoint that was written more recently may belong to a running query."""
_LOGS = ("offsets", "commits", "sources")


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold the lock beside a checkpoint during the block, if a job of kfetch-jobs has made one.

    So no job starts meanwhile. The lock of a link's target counts, too: a job follows links. Raises
    CheckpointInUse if a job runs, and CheckpointError if this user may not lock the file.
    """
    beside = [name.with_name(f"{name.name}.lock") for name in (path, path.resolve())]
    # Below a linked directory both are one file, and this process could not lock it twice.
    locks = {lock.resolve(): lock for lock in beside if lock.exists()}
    with ExitStack() as held:
        for lock in locks.values():
            file = held.enter_context(_opened(lock))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise CheckpointInUse(
                    f"a job of kfetch runs on {path} (process {file.read() or '?'})",
                    action="stop it first, with kfetch pause JOB if kfetch up runs it",
                    file=str(path),
                ) from None
        yield


def _opened(lock: Path) -> TextIO:
    try:
        return lock.open("r+")  # NFS gives an exclusive lock only to a writer
    except OSError as cause:
        raise CheckpointError(
            f"{lock} can't be opened to see whether a job runs: {cause.strerror}",
            action="run the command as the user of the job",
            file=str(lock),
        ) from None


def check_at_rest(checkpoint: Checkpoint, now_s: float | None = None) -> None:
    """Raises CheckpointInUse if a query may run. ``now_s``: seconds since 1970; None for now."""
    path = checkpoint.directory
    pid = _agent(checkpoint.query)
    if pid is not None:
        raise CheckpointInUse(
            f"the Spark application of the query still runs: agent {pid} of this machine has read "
            f"for the query {checkpoint.query} of {path}",
            action="Stop the query. Then add --force if the application has to stay",
            file=str(path),
        )
    age_s = (time.time() if now_s is None else now_s) - _written_s(path)
    if age_s < QUIET_S:
        raise CheckpointInUse(
            f"{path} was written {max(0.0, age_s):.0f} s ago, so its query may still run",
            action=f"Stop the query. Then add --force, or wait for {QUIET_S - age_s:.0f} s",
            file=str(path),
        )


def _agent(query: str) -> int | None:
    """Returns the pid of an agent on this machine that has read for a query."""
    if not query:
        return None
    try:
        statuses = agents.find()
    except AgentError:
        return None
    served = (status.pid for status in statuses for one in status.queries if one.stream == query)
    return next(served, None)


def _written_s(path: Path) -> float:
    """Returns when the checkpoint's logs were last written, in seconds since 1970."""
    times = [0.0]
    for log in _LOGS:
        for file in (path / log).glob("**/*"):
            try:
                status = file.stat()
            except OSError:  # Spark has just removed it
                continue
            if stat.S_ISREG(status.st_mode):
                times.append(status.st_mtime)
    return max(times)
