"""Finding the executor's agent, or starting it: many workers at once, one agent.

Spark's worker daemon sends SIGHUP to its process group and waits for inherited pipes, so the agent
gets a session, a log file and no descriptor of the worker's. What ``--py-files`` put on
``sys.path`` goes on as PYTHONPATH; Spark's secret does not. An agent that hangs is killed and
replaced; nothing here waits for ever.
"""

from __future__ import annotations

import fcntl
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kfetch._version import __version__
from kfetch.agent.channel import Channel, Gone, Hello, Hung
from kfetch.agent.home import Home, Owner
from kfetch.errors import AgentError

log = logging.getLogger(__name__)

_START_S = 60.0  # starting Python on a machine under full load; a warm one takes 0.3 s
_GREETING_S = 5.0  # an agent answers in a millisecond; under full load in a tenth of a second
_KILL_S = 5.0
# One other worker may be killing a hung agent and starting a new one.
_LOCK_S = _GREETING_S + _KILL_S + _START_S
_POLL_S = 0.02
# For how long, in ms, Arrow's allocator keeps pages that were given back. Its second outlasts whole
# tasks: 30 MiB more than are in use. None at all halves the decoder's speed (page faults).
_ALLOCATOR = {"MIMALLOC_PURGE_DELAY": "10"}
# Spark's own archives come first in a worker's path, and Python reads the directory of each before
# it finds anything behind them: 150 ms of an agent's start, which needs none of them.
_OF_SPARK = ("pyspark.zip", "py4j-", "spark-core_")
_SECRETS = ("PYTHON_WORKER_FACTORY_SECRET", "PYSPARK_GATEWAY_SECRET")
_LOG_TAIL_BYTES = 2000
_KEPT_S = 7 * 24 * 3600  # logs of agents that have left

_started: list[subprocess.Popen[bytes]] = []


def connect(home: Home, owner: Owner, *, memory: int, timeout_s: float) -> Channel:
    """A channel to the owner's agent, which is started if none answers. Raises AgentError."""
    channel = _found(home)
    if channel is None:
        with _locked(home.lock):
            channel = _replaced(home) or _start(home, owner, memory)
    channel.set_timeout(timeout_s)
    return channel


def _found(home: Home) -> Channel | None:
    """A channel to an agent that answers; None if there is none, or it hangs."""
    try:
        return _greet(home)
    except Hung:
        return None


def _replaced(home: Home) -> Channel | None:
    """As ``_found``, under the lock: another worker may have started one while this one waited.
    An agent that hangs is killed."""
    try:
        return _greet(home)
    except Hung as cause:
        log.warning("the agent at %s hangs (%s): replacing it", home.socket, cause)
        _kill(home)
        return None


def _kill(home: Home) -> None:
    """Kill the agent that was started last, and never another process that has its pid now."""
    with suppress(FileNotFoundError, ValueError, ProcessLookupError):
        agent = Owner.parse(home.process.read_text())
        descriptor = os.pidfd_open(agent.pid)
        try:
            if agent.alive:  # asked behind pidfd_open: from here on the descriptor means it
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                select.select([descriptor], [], [], _KILL_S)
        finally:
            os.close(descriptor)


def _greet(home: Home) -> Channel | None:
    """A channel to an agent that answers with our version; None if there is no agent. Raises Hung
    if it does not answer."""
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    channel = Channel(stream, _GREETING_S)
    try:
        _dial(stream, home.socket)
        channel.send(Hello(version=__version__, pid=os.getpid()))
        hello, _ = channel.receive()
    except Hung:
        channel.close()
        raise
    except (OSError, Gone):
        channel.close()
        return None
    if not isinstance(hello, Hello) or hello.version != __version__:
        channel.close()
        raise AgentError(
            f"the agent at {home.socket} is not of kfetch {__version__}",
            action="restart the executor",
            file=str(home.socket),
        )
    return channel


def _dial(stream: socket.socket, path: Path) -> None:
    """Connect. Raises OSError if nobody listens, Hung if nobody accepts: then the listener's
    backlog is full, and connect(2) does not wait for it."""
    deadline = time.monotonic() + _GREETING_S
    while True:
        try:
            stream.connect(str(path))
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise Hung("the agent accepts no connection") from None
            time.sleep(_POLL_S)


def _start(home: Home, owner: Owner, memory: int) -> Channel:
    _clear(home.socket.parent)
    process = _spawn(home, owner, memory)
    home.process.write_text(str(Owner.of(process.pid)))
    _started[:] = [process, *(other for other in _started if other.poll() is None)]
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        channel = _found(home)
        if channel is not None:
            return channel
        if process.poll() is not None:
            raise AgentError(
                f"the agent ended at once with status {process.returncode}: {_tail(home.log)} "
                "(option kfetch.agent=inline works without it)"
            )
        time.sleep(_POLL_S)
    process.kill()
    raise AgentError(f"the agent did not answer within {_START_S:g} s: {_tail(home.log)}")


def _spawn(home: Home, owner: Owner, memory: int) -> subprocess.Popen[bytes]:
    with home.log.open("wb") as output:
        return subprocess.Popen(
            [
                # From an archive it may be relative; resolved it would leave its environment.
                *(os.path.abspath(sys.executable), "-m", "kfetch.agent"),
                *("--socket", str(home.socket)),
                *("--owner", str(owner)),
                *("--memory", str(memory)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            env=_environment(),
            start_new_session=True,
        )


def _clear(directory: Path) -> None:
    """Remove what agents left behind a week ago and more; never a lock, which the caller holds and
    another worker may wait for: a new file of that name would be a second lock."""
    for path in (*directory.glob("*.log"), *directory.glob("*.pid")):
        with suppress(FileNotFoundError):
            old = time.time() - path.stat().st_mtime > _KEPT_S
            if old and not path.with_suffix(".sock").exists():
                path.unlink()


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _SECRETS}
    return _ALLOCATOR | kept | {"PYTHONPATH": _python_path(sys.path)}


def _python_path(paths: list[str]) -> str:
    needed = (path for path in paths if not os.path.basename(path).startswith(_OF_SPARK))
    return os.pathsep.join(path for path in needed if path)


def _tail(log: Path) -> str:
    lines = log.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace").strip().splitlines()
    return f"{lines[-1]} (see {log})" if lines else f"it said nothing (see {log})"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("ab") as file:
        deadline = time.monotonic() + _LOCK_S
        while not _lock(file.fileno()):
            if time.monotonic() > deadline:
                raise AgentError(
                    f"another worker has held {path} for {_LOCK_S:g} s: it hangs while it starts "
                    "an agent (option kfetch.agent=inline works without one)"
                )
            time.sleep(_POLL_S)
        yield


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
