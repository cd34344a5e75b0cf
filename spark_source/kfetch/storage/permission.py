"""Lets the holder of a lease allow each plan of a query that it runs: a Unix socket between them.

A query's source is in a process of its own, and has neither the lease nor the keys of its store. So
it asks the holder: it connects, and the holder sends a byte if it still holds the lease. Without
that byte, the source plans no micro-batch. Decision 116 says what that closes.
"""

from __future__ import annotations

import os
import socket
import stat
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kfetch.errors import KfetchError, LeaseLost
from kfetch.storage.lease import LENGTH_S

_YES = b"1"
_HOST = zlib.crc32(socket.gethostname().encode()) & 0xFFFF
_PREFIX, _NAME = f"kfetch-{_HOST:04x}-", "permission"
"""Hosts may share the directory, and no host can ask a socket of another one."""
_BEGINS_S = 60.0
"""A younger socket may be that of a process which does not listen yet."""
_PATH_BYTES_MAX = 70
"""A socket's path has 103 bytes at most on macOS, and four more on Linux."""
_ANSWER_S = LENGTH_S
"""How long an answer may take. A request to a store comes before it."""


@contextmanager
def granting(check: Callable[[], None]) -> Iterator[Path]:
    """Answer all who ask during the block, and yield the socket's path for ``ask``.

    ``check`` raises LeaseLost if this process must not write any more. Only processes of this user
    can ask: the socket is in a directory of its own. Removes those of killed processes.
    """
    parent = _short_directory()
    _remove_left_over(parent)
    with (
        tempfile.TemporaryDirectory(prefix=_PREFIX, dir=parent) as directory,
        socket.socket(socket.AF_UNIX) as server,
    ):
        path = Path(directory) / _NAME
        server.bind(str(path))
        server.listen()
        thread = threading.Thread(
            target=_answer, args=(server, check), name="kfetch-permission", daemon=True
        )
        thread.start()
        try:
            yield path
        finally:
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)  # ends the thread's accept()
            thread.join(1)


def _short_directory() -> Path:
    """Returns the directory for temporary files, or /tmp if its paths are too long for a socket.

    Raises KfetchError if no such directory is usable.
    """
    try:
        usual = tempfile.gettempdir()
    except FileNotFoundError as cause:
        raise KfetchError(f"{cause.strerror}", action="set TMPDIR to one") from None
    return Path(usual if len(os.fsencode(usual)) <= _PATH_BYTES_MAX else "/tmp")  # noqa: S108


def _remove_left_over(parent: Path) -> None:
    """Remove the sockets on which nobody listens any more, with their directories.

    A process of this user on this host has left them when it was killed.
    """
    for path in parent.glob(f"{_PREFIX}*/{_NAME}"):
        with suppress(OSError):
            if _is_old_socket(path) and not _has_listener(path):
                path.unlink()
                path.parent.rmdir()


def _is_old_socket(path: Path) -> bool:
    found = path.lstat()
    is_own = stat.S_ISSOCK(found.st_mode) and found.st_uid == os.getuid()
    return is_own and not path.parent.is_symlink() and time.time() - found.st_mtime > _BEGINS_S


def _has_listener(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1)
        try:
            connection.connect(str(path))
        except ConnectionRefusedError:
            return False
        return True


def _answer(server: socket.socket, check: Callable[[], None]) -> None:
    with suppress(OSError):  # the server's end
        while True:
            connection, _ = server.accept()
            with connection, suppress(LeaseLost, OSError):
                check()
                connection.sendall(_YES)


def ask(path: str) -> None:
    """Return if the process behind ``granting`` allows a plan. Raises LeaseLost otherwise."""
    reason = ""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_ANSWER_S)
            connection.connect(path)
            if connection.recv(1) == _YES:
                return
    except OSError as cause:
        reason = f": {cause.strerror or cause}"
    raise LeaseLost(
        f"the process that runs this query does not allow another micro-batch{reason}",
        action="its log says why; another process may go on with the checkpoint",
    )
