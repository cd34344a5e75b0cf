"""The lock that makes a supervisor the only one of its storage. It dies with its process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kfetch_jobs.errors import SupervisorError
from kfetch_jobs.supervise.store import supervisor_directory
from kfetch_jobs.util.files import try_lock

__all__ = ["hold_supervisor_lock", "lock_file"]


def lock_file(storage: Path) -> Path:
    """Its text is the pid of whoever has it."""
    return supervisor_directory(storage) / "lock"


@contextmanager
def hold_supervisor_lock(storage: Path) -> Iterator[None]:
    """Hold it for the block. Raises SupervisorError, which says who has it."""
    lock = lock_file(storage)
    with try_lock(lock) as ours:
        if not ours:
            raise SupervisorError(
                f"{storage} has a supervisor (process {lock.read_text()}): "
                "end that one first, with kfetch down"
            )
        yield
