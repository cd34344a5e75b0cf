"""Whether a query may run on a checkpoint. Spark holds no lock on it, so this looks for signs.

There are three signs: the lease of a kfetch job, an agent of this machine that has read for the
query, and a file that was written within the last minute. No sign does not prove that no query
runs. An idle query writes nothing, and its executors may be on other machines.
"""

from __future__ import annotations

import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kfetch.admin import agents
from kfetch.admin.checkpoint import Checkpoint, lease_version
from kfetch.errors import AgentError, CheckpointInUse
from kfetch.storage.lease_holder import take
from kfetch.storage.open import lease_beside
from kfetch.storage.processes import this_process

QUIET_S = 60.0
"""A checkpoint that was written more recently may belong to a running query."""
_LOGS = ("offsets", "commits", "sources")


@contextmanager
def hold_lease(path: Path) -> Iterator[Callable[[], None]]:
    """Hold the lease beside a checkpoint during the block, if a job of kfetch-jobs has made one.

    So no job starts meanwhile, on any host. Yields what to call before each write: it raises
    LeaseLost if this process was too slow. Raises CheckpointInUse if a job runs, and
    CheckpointError if this user may not write the lease.
    """
    if lease_version(path) is None:
        yield lambda: None
        return
    with take(lease_beside(path), this_process("kfetch checkpoint to-kafka")) as lease:
        yield lease.check


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
