"""The lock that allows one supervisor per storage. It ends with its process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kfetch_jobs.errors import SupervisorError
from kfetch_jobs.supervise.store import supervisor_directory
from kfetch_jobs.util.files import try_lock


def lock_file(storage: Path) -> Path:
    """Returns the path of the lock. Its text is the holder's pid."""
    return supervisor_directory(storage) / "lock"


@contextmanager
def hold_supervisor_lock(storage: Path) -> Iterator[None]:
    """Hold the lock for the block. Raises SupervisorError with the pid of another holder."""
    lock = lock_file(storage)
    with ExitStack() as held:
        try:
            locked = held.enter_context(try_lock(lock))
        except OSError as cause:
            raise SupervisorError(
                f"{lock} cannot be locked: {cause.strerror}: name a storage on a local disk, where "
                "this user may write"
            ) from cause
        if not locked:
            raise SupervisorError(
                f"{storage} has a supervisor (process {lock.read_text() or '?'}): "
                "end that one first, with kfetch down"
            )
        yield
