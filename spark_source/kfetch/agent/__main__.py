"""``python -m kfetch.agent``: one executor's agent. Started by the first read of a worker.

It leaves with the process that it serves (a pidfd tells), when nobody has needed it for a while,
and on SIGTERM; its sessions are closed each time. The decoder is loaded by the first read, so that
its worker finds an agent at once.
"""

from __future__ import annotations

import argparse
import logging
import os
import resource
import select
import signal
import socket
import sys
import threading
import time
from pathlib import Path

from kfetch.agent.budget import Budget
from kfetch.agent.home import Owner
from kfetch.wire import lean

lean.defer_clients()

from kfetch.agent.server import Queries, Server  # noqa: E402

log = logging.getLogger("kfetch.agent")

_IDLE_S = 60.0  # without worker or session; a start costs 0.5 s, so there is no use in staying
_LOOK_S = 1.0
_CODE_BYTES = 1 << 30  # address space of Python, numba, pyarrow and thread stacks, measured


def main() -> int:
    """Serve until the owner ends."""
    arguments = _arguments()
    logging.basicConfig(
        level=os.environ.get("KFETCH_LOG", "INFO"),
        format="%(asctime)s %(levelname)s [%(threadName)s] %(name)s: %(message)s",
        stream=sys.stderr,
    )
    _check_address_space(arguments.memory)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C in the driver's terminal is not ours
    queries = Queries(Budget(arguments.memory))
    with _listening(arguments.socket) as listener:
        threading.Thread(target=_close_idle, args=(queries, stop), daemon=True).start()
        try:
            why = _serve(listener, Server(queries), queries, arguments.owner, stop)
        finally:
            arguments.socket.unlink(missing_ok=True)
            queries.close()
    log.info("leaving: %s", why)
    return 0


def _serve(
    listener: socket.socket,
    server: Server,
    queries: Queries,
    owner: Owner,
    stop: threading.Event,
) -> str:
    """Accept workers until there is a reason to leave; the reason."""
    pidfd = _watch(owner)
    if pidfd is None:
        return "the executor has ended"
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    poll.register(pidfd, select.POLLIN)
    idle_since = time.monotonic()
    while not stop.is_set():
        ready = {descriptor for descriptor, _ in poll.poll(_LOOK_S * 1000)}
        if pidfd in ready:
            return "the executor has ended"
        if listener.fileno() in ready:
            server.accept(listener)
        if server.busy:
            idle_since = time.monotonic()
        elif time.monotonic() - idle_since > _IDLE_S:
            return f"idle for {_IDLE_S:g} s"
    return "asked to (SIGTERM)"


def _close_idle(queries: Queries, stop: threading.Event) -> None:
    """Closing waits for brokers; a worker that is greeted late takes the agent for a hung one."""
    while not stop.wait(_LOOK_S):
        queries.close_idle()


def _watch(owner: Owner) -> int | None:
    """A descriptor that becomes readable when the owner ends; None if it has (pidfd_open(2))."""
    try:
        descriptor = os.pidfd_open(owner.pid)
    except ProcessLookupError:
        return None
    # The pid may have gone to another process before it was opened.
    return descriptor if owner.alive else None


def _listening(path: Path) -> socket.socket:
    # Whoever starts an agent holds the lock and found nobody answering: what is there is dead.
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen(128)
    return listener


def _check_address_space(memory: int) -> None:
    """``spark.executor.pyspark.memory`` sets RLIMIT_AS, which the agent inherits."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    needed = memory + _CODE_BYTES
    if limit not in (resource.RLIM_INFINITY, -1) and limit < needed:
        sys.exit(
            f"the address space is limited to {limit >> 20} MiB and the agent needs "
            f"{needed >> 20} MiB: raise spark.executor.pyspark.memory, lower kfetch.agent.memory, "
            "or set kfetch.agent=inline"
        )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="kfetch.agent", description=__doc__)
    parser.add_argument("--socket", type=Path, required=True, help="where to listen")
    parser.add_argument(
        "--owner", type=Owner.parse, required=True, help="PID:START of the executor"
    )
    parser.add_argument("--memory", type=int, required=True, help="budget in bytes")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
