"""Files that several processes share: locks, private files, and files that appear whole."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kfetch_jobs.util.disk_space import DiskSpace


@contextmanager
def wait_for_lock(path: Path) -> Iterator[None]:
    """Hold the lock file ``path`` for the block. Waits for its present holder.

    The kernel releases the lock when its holder dies, so no lock is stale. The file stays: after a
    deletion, two processes could hold locks on two files of the same name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def try_lock(path: Path) -> Iterator[bool]:
    """Hold the lock file ``path`` for the block if it is free. Yields whether it was.

    The file's text is the holder's pid, for the message of the second process. On a full disk it
    may be empty.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        with suppress(OSError):
            os.ftruncate(file.fileno(), 0)
            os.write(file.fileno(), str(os.getpid()).encode())
        yield True


def owner_only(path: str, flags: int) -> int:
    """Open a file that only its owner may read; an ``opener`` for ``open``.

    It changes the mode of an existing file too.
    """
    handle = os.open(path, flags, 0o600)
    with suppress(OSError):  # another user's file, or a file system without modes
        os.fchmod(handle, 0o600)
    return handle


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, from its first byte on."""
    with open(path, "w", opener=owner_only) as file:
        file.write(text)


def write_json(
    path: Path,
    value: Any,
    indent: int | None = 2,
    *,
    everybody_reads: bool = False,
    lasting: bool = False,
) -> None:
    """Write a file, then rename it: a reader sees the old file or the new one, never half of it.

    Only its owner may read the file, unless ``everybody_reads``. A ``lasting`` file is on the disk
    when the call returns. Any other one may be empty after a power cut.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w") as file:
            if everybody_reads:
                with suppress(OSError):  # a file system without modes
                    os.fchmod(handle, 0o644)
            json.dump(value, file, indent=indent)
            file.write("\n")
        if lasting:
            sync(Path(name))
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
    if lasting:
        sync(path.parent)


def sync(*paths: Path) -> None:
    """Wait until the disk has these files, and the names in these directories, for a power cut.

    Some file systems refuse that for directories, with EINVAL or ENOTSUP, and are passed over.
    """
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        except OSError as cause:
            if cause.errno not in (errno.EINVAL, errno.ENOTSUP):
                raise
        finally:
            os.close(handle)


def read_json(path: Path) -> dict[str, Any]:
    """Returns the JSON object in a file; an empty one if the file is missing or damaged."""
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def read_disk_space(directory: Path) -> DiskSpace | None:
    """Returns the space where a directory lies, or will lie; None if the system does not tell."""
    for existing in (directory, *directory.parents):
        try:
            usage = shutil.disk_usage(existing)
        except FileNotFoundError:
            continue
        except OSError:
            return None
        return DiskSpace(free_bytes=usage.free, size_bytes=usage.total)
    return None
