"""``python -m kfetch.agent``: one executor's agent. A worker's first read starts it.

The agent exits when its owner exits (a pidfd shows that), when it has been idle for a minute, on
SIGTERM, and when its socket was removed, because no worker can reach it. It closes its sessions
each time. The first read loads the decoder, not the start, so that the worker finds an agent at
once.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import resource
import select
import signal
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TextIO

from kfetch.agent.budget import Budget
from kfetch.agent.home import ProcessIdentity
from kfetch.wire import lean

# An agent holds its lock while it starts. If it hangs, the worker that would end it may be gone.
_START_S_MAX = 60
if __name__ == "__main__":
    signal.alarm(_START_S_MAX)
lean.defer_clients()

from kfetch.agent.channel import peer_pid  # noqa: E402
from kfetch.agent.server import OpenQueries, Server, check_address_space  # noqa: E402
from kfetch.errors import AgentError  # noqa: E402

log = logging.getLogger("kfetch.agent")

_IDLE_S_MAX = 60.0  # without worker or session; a new agent starts within 0.5 s
_CHECK_INTERVAL_S = 1.0
_LOG_BYTES_MAX = 64 << 20  # about 500,000 lines


def main() -> int:
    """Serve until the owner exits. Returns the exit code."""
    arguments = _arguments()
    os.set_inheritable(arguments.lock, False)  # a program that the agent starts may outlive it
    _configure_logging()
    try:
        check_address_space(arguments.memory)
    except AgentError as cause:
        sys.exit(cause.message)
    _raise_descriptor_limit()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in the driver's terminal
    queries = OpenQueries(Budget(arguments.memory))
    with _listening(arguments.socket) as listener:
        bound = _bound_inode(arguments.socket)
        signal.alarm(0)
        threading.Thread(target=_close_idle, args=(queries, stop), daemon=True).start()
        try:
            is_bound = partial(_is_bound, arguments.socket, bound)
            reason = _serve(listener, Server(queries), is_bound, arguments.owner, stop)
        finally:
            _unlink(arguments.socket, bound)
            queries.close()
    log.info("leaving: %s", reason)
    return 0


class _LimitedLog(logging.StreamHandler[TextIO]):
    """Writes to the log, and empties its file when it is full: an agent may live for months."""

    def emit(self, record: logging.LogRecord) -> None:
        """See logging.Handler."""
        super().emit(record)
        with contextlib.suppress(OSError):
            log = self.stream.fileno()
            status = os.fstat(log)
            if stat.S_ISREG(status.st_mode) and status.st_size > _LOG_BYTES_MAX:
                os.ftruncate(log, 0)
                os.lseek(log, 0, os.SEEK_SET)
                self.stream.write("The log was full. Its earlier lines are gone.\n")
                self.flush()


def _configure_logging() -> None:
    """Log to stderr. ``KFETCH_LOG`` is the level of kfetch's own loggers.

    Other libraries log warnings alone. botocore logs secrets at DEBUG.
    """
    logging.basicConfig(
        format="%(asctime)s %(levelname)s [%(threadName)s] %(name)s: %(message)s",
        handlers=[_LimitedLog(sys.stderr)],
    )
    level = (os.environ.get("KFETCH_LOG") or "INFO").strip().upper()
    known = logging.getLevelNamesMapping().get(level)
    logging.getLogger("kfetch").setLevel(known or logging.INFO)
    if not known:
        log.warning("KFETCH_LOG=%s is no level: the agent logs at INFO", level)


def _serve(
    listener: socket.socket,
    server: Server,
    is_bound: Callable[[], bool],
    owner: ProcessIdentity,
    stop: threading.Event,
) -> str:
    """Accept workers until there is a reason to leave. Returns the reason."""
    pidfd = _open_pidfd(owner)
    if pidfd is None:
        return "the executor has ended"
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    poll.register(pidfd, select.POLLIN)
    idle_since = time.monotonic()
    while not stop.is_set():
        ready = {descriptor for descriptor, _ in poll.poll(_CHECK_INTERVAL_S * 1000)}
        if pidfd in ready:
            return "the executor has ended"
        if listener.fileno() in ready:
            server.accept(listener)
        if not is_bound():
            return "its socket was removed"
        if server.busy:
            idle_since = time.monotonic()
        elif time.monotonic() - idle_since > _IDLE_S_MAX:
            return f"idle for {_IDLE_S_MAX:g} s"
    return "asked to (SIGTERM)"


def _close_idle(queries: OpenQueries, stop: threading.Event) -> None:
    """Close idle queries, in a thread of its own, because closing waits for brokers.

    Otherwise workers would get their greeting too late and treat the agent as hung.
    """
    while not stop.wait(_CHECK_INTERVAL_S):
        try:
            queries.close_idle()
        except Exception:  # the next round tries again
            log.exception("closing idle queries")


def _open_pidfd(owner: ProcessIdentity) -> int | None:
    """Returns a descriptor that is readable once the owner exits; None if it has already."""
    try:
        descriptor = os.pidfd_open(owner.pid)  # pidfd_open(2)
    except ProcessLookupError:
        return None
    # Another process may have got the pid before pidfd_open.
    return descriptor if owner.alive else None


def _listening(path: Path) -> socket.socket:
    # This agent has inherited the lock, and any other would hold it: the socket is dead.
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen(128)
    return listener


def _bound_inode(path: Path) -> int:
    """Returns the inode of the socket at a path; 0 if it is not this agent's own.

    Somebody may have removed lock and socket, and another agent has bound its own there.
    """
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        inode = path.stat().st_ino
        stream.connect(str(path))
        return inode if peer_pid(stream) == os.getpid() else 0
    return 0


def _is_bound(path: Path, inode: int) -> bool:
    """Whether the socket that this agent has bound is still at its path."""
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_ino == inode
    return False


def _unlink(path: Path, inode: int) -> None:
    """Remove the socket that this agent has bound, but not another one at its path."""
    if _is_bound(path, inode):
        path.unlink(missing_ok=True)


def _raise_descriptor_limit() -> None:
    """Allow as many descriptors as the system does. Each task takes several of them."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="kfetch.agent", description=__doc__)
    parser.add_argument("--socket", type=Path, required=True, help="path of the socket")
    parser.add_argument("--lock", type=int, required=True, help="descriptor of the lock")
    parser.add_argument(
        "--owner", type=ProcessIdentity.parse, required=True, help="PID:START of the executor"
    )
    parser.add_argument("--memory", type=int, required=True, help="budget in bytes")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
