"""Files that several processes share: written whole or not at all, and under a lock."""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

__all__ = ["owner_only", "try_lock", "wait_for_lock", "write_json"]


@contextmanager
def wait_for_lock(path: Path) -> Iterator[None]:
    """Hold the lock file ``path``; wait for whoever has it.

    The kernel drops the lock when its holder dies, so there is no stale lock. The file stays:
    deleting it would let two processes hold locks on two files of the same name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def try_lock(path: Path) -> Iterator[bool]:
    """Hold the lock file ``path`` unless somebody has it; whether it is ours.

    Its text is the holder's pid, for a message to whoever comes second.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield True


def owner_only(path: str, flags: int) -> int:
    """An ``opener`` for files that only their owner may read, those that were there before too."""
    handle = os.open(path, flags, 0o600)
    with suppress(OSError):  # another user's, who lets us write; or a file system without modes
        os.fchmod(handle, 0o600)
    return handle


def write_json(path: Path, value: Any, indent: int | None = 2) -> None:
    """Write then rename: a reader sees the old file or the new one, never half of one."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w") as file:
            json.dump(value, file, indent=indent)
            file.write("\n")
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
