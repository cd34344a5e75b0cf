"""Finds the executor's agent or starts it. Many workers may ask at once; they get one agent.

Spark's worker daemon sends SIGHUP to its process group and waits for inherited pipes. So the agent
gets its own session and log file, and of the worker's descriptors the lock alone. It gets
``sys.path`` as PYTHONPATH, with the paths of ``--py-files``, and does not get Spark's secret.

The lock belongs to the worker that starts an agent, and then to the agent until it ends. So a
worker that is killed meanwhile causes no second agent. A worker kills an agent that hangs, and
starts another one. Every wait here has a limit.
"""

from __future__ import annotations

import errno
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
from kfetch.agent.channel import Channel, ChannelClosed, ChannelTimeout, Greeting, peer_pid
from kfetch.agent.home import AgentFiles, ProcessIdentity
from kfetch.errors import AgentError

log = logging.getLogger(__name__)

_START_TIMEOUT_S = 60.0  # Python's start on a machine under full load; usually it takes 0.3 s
_GREETING_TIMEOUT_S = 10.0  # an agent answers in 1 ms; under full load in 100 ms
_KILL_TIMEOUT_S = 5.0
# Another worker may start an agent that hangs, and the next one must start another agent.
_CONNECT_TIMEOUT_S = _GREETING_TIMEOUT_S + _KILL_TIMEOUT_S + _START_TIMEOUT_S
_POLL_INTERVAL_S = 0.02
_ALLOCATORS = {
    # How many ms Arrow's allocator keeps returned pages. With its default, a second, pages outlast
    # whole tasks: 30 MiB more than are in use. With 0 the decoder is half as fast (page faults).
    "MIMALLOC_PURGE_DELAY": "10",
    # The C library serves the codecs, whose windows have up to 2 MiB. By itself it raises both
    # limits, and each thread keeps tens of freed MiB. Below 4 MiB zstd is half as fast.
    "MALLOC_MMAP_THRESHOLD_": str(4 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(4 << 20),
    "MALLOC_ARENA_MAX": "1",
}
# With a budget of so many bytes there is room for 30 MiB more. Then Arrow's allocator keeps the
# pages of replies and batches for a second, unless ``freed_memory`` returns them earlier.
_LARGE_BUDGET = 256 << 20
_KEEP_PAGES = {"MIMALLOC_ARENA_PURGE_MULT": "100"}
# Spark's archives come first in a worker's path. Python would read the directory of each before it
# finds any module behind them: 150 ms of an agent's start. The agent needs none of them.
_SPARK_ARCHIVES = ("pyspark.zip", "py4j-", "spark-core_")
_SECRETS = ("PYTHON_WORKER_FACTORY_SECRET", "PYSPARK_GATEWAY_SECRET")
_LOG_TAIL_BYTES = 2000
_FILE_RETENTION_S = 7 * 24 * 3600
_LEFTOVERS = (".sock", ".lock", ".pid")  # earlier releases have files of pids

_started: list[subprocess.Popen[bytes]] = []


def connect(files: AgentFiles, owner: ProcessIdentity, *, memory: int, timeout_s: float) -> Channel:
    """Returns a channel to the owner's agent, and starts the agent if none answers.

    ``memory`` is a new agent's budget in bytes. No wait on the channel is longer than
    ``timeout_s``. Raises AgentError.
    """
    deadline = time.monotonic() + _CONNECT_TIMEOUT_S
    while (channel := _greet(files) or _start_unless_locked(files, owner, memory)) is None:
        if time.monotonic() > deadline:
            raise AgentError(
                f"no agent has answered for {_CONNECT_TIMEOUT_S:g} s: {_last_line(files.log)} "
                "(option kfetch.agent=inline works without it)"
            )
        time.sleep(_POLL_INTERVAL_S)
    channel.set_timeout(timeout_s)
    return channel


def _greet(files: AgentFiles) -> Channel | None:
    """Returns a channel to an agent that has answered; None if there is none.

    Kills an agent that does not answer. Raises AgentError if the agent has another version.
    """
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    channel = Channel(stream, _GREETING_TIMEOUT_S)
    try:
        _open_connection(stream, files.socket)
        channel.send(Greeting(version=__version__, pid=os.getpid()))
        greeting, _ = channel.receive()
    except ChannelTimeout as cause:
        log.warning("the agent at %s hangs (%s): replacing it", files.socket, cause)
        _kill_peer(stream)
        channel.close()
        return None
    except (OSError, ChannelClosed):
        channel.close()
        return None
    if not isinstance(greeting, Greeting) or greeting.version != __version__:
        channel.close()
        raise AgentError(
            f"the agent at {files.socket} is not of kfetch {__version__}",
            action="restart the executor",
            file=str(files.socket),
        )
    return channel


def _kill_peer(stream: socket.socket) -> None:
    """Kill the process that listens at the other end, but never one that has its pid now.

    A connection that is still open after pidfd_open proves that the descriptor is the listener's.
    """
    with suppress(OSError):  # there is no connection, or the process has ended
        descriptor = os.pidfd_open(peer_pid(stream))
        try:
            if not _poll(stream.fileno(), select.POLLRDHUP, 0):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                _poll(descriptor, select.POLLIN, _KILL_TIMEOUT_S)
        finally:
            os.close(descriptor)


def _poll(descriptor: int, events: int, timeout_s: float) -> bool:
    """Wait for events with poll(2). Returns whether one came in time."""
    poll = select.poll()
    poll.register(descriptor, events)
    return bool(poll.poll(timeout_s * 1000))


def _open_connection(stream: socket.socket, path: Path) -> None:
    """Connect a socket. Raises OSError if no process listens, ChannelTimeout if none accepts.

    While the listener's backlog is full, connect(2) fails at once, so this tries again.
    """
    deadline = time.monotonic() + _GREETING_TIMEOUT_S
    while True:
        try:
            stream.connect(str(path))
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise ChannelTimeout("the agent accepts no connection") from None
            time.sleep(_POLL_INTERVAL_S)


def _start_unless_locked(files: AgentFiles, owner: ProcessIdentity, memory: int) -> Channel | None:
    """Returns a channel to a new agent; None if another worker starts one, or if one lives."""
    try:
        with _locked(files.lock) as lock:
            return None if lock is None else _start(files, owner, memory, lock)
    except OSError as cause:  # a full disk, or a limit on files or processes
        raise AgentError(
            f"the agent can't be started: {cause} (option kfetch.agent=inline works without it)"
        ) from None


def _start(files: AgentFiles, owner: ProcessIdentity, memory: int, lock: int) -> Channel:
    _remove_old_files(files.socket.parent)
    process = _spawn(files, owner, memory, lock)
    _started[:] = [process, *(other for other in _started if other.poll() is None)]
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline:
        channel = _greet(files)
        if channel is not None:
            return channel
        if process.poll() is not None:
            raise AgentError(
                f"the agent ended at once with status {process.returncode}: "
                f"{_last_line(files.log)} (option kfetch.agent=inline works without it)"
            )
        time.sleep(_POLL_INTERVAL_S)
    process.kill()
    raise AgentError(
        f"the agent did not answer within {_START_TIMEOUT_S:g} s: {_last_line(files.log)}"
    )


def _spawn(
    files: AgentFiles, owner: ProcessIdentity, memory: int, lock: int
) -> subprocess.Popen[bytes]:
    with files.log.open("wb") as output:
        return subprocess.Popen(
            [
                # In an unpacked archive the path may be relative. Path.resolve would follow links
                # out of the virtual environment.
                # -P: Python would look for modules in the directory first.
                *(os.path.abspath(sys.executable), "-P", "-m", "kfetch.agent"),
                *("--socket", str(files.socket)),
                *("--lock", str(lock)),
                *("--owner", str(owner)),
                *("--memory", str(memory)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            # It stays in the worker's directory. There, spark-submit --files puts truststores, and
            # options name them by relative paths, as for Spark's connector.
            env=_environment(memory),
            start_new_session=True,
            pass_fds=[lock],
        )


def _remove_old_files(directory: Path) -> None:
    """Remove what agents have left that were killed, and the logs of those that ended a week ago.

    It holds an agent's lock meanwhile, so no worker starts the agent.
    """
    for name in {path.stem for path in directory.iterdir() if _is_leftover(path)}:
        with suppress(OSError):  # the disk is full
            _remove_if_dead(directory / name)


def _is_leftover(path: Path) -> bool:
    """Whether an agent that has ended leaves no such file, or none so old."""
    return path.suffix in _LEFTOVERS or (path.suffix == ".log" and _is_old(path))


def _is_old(path: Path) -> bool:
    with suppress(FileNotFoundError):  # another worker removes it, too
        return time.time() - path.stat().st_mtime > _FILE_RETENTION_S
    return False


def _remove_if_dead(name: Path) -> None:
    with _locked(name.with_suffix(".lock")) as lock:
        if lock is None or _listens(name.with_suffix(".sock")):
            return
        for suffix in _LEFTOVERS:
            name.with_suffix(suffix).unlink(missing_ok=True)
        if _is_old(name.with_suffix(".log")):
            name.with_suffix(".log").unlink(missing_ok=True)


def _listens(path: Path) -> bool:
    """Whether a process listens on a socket. Agents of earlier releases hold no lock."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        stream.setblocking(False)
        return stream.connect_ex(str(path)) not in (errno.ECONNREFUSED, errno.ENOENT)


def _environment(memory: int) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name not in _SECRETS}
    keep_pages = _KEEP_PAGES if memory >= _LARGE_BUDGET else {}
    return _ALLOCATORS | keep_pages | inherited | {"PYTHONPATH": _python_path(sys.path)}


def _python_path(paths: list[str]) -> str:
    needed = (path for path in paths if not os.path.basename(path).startswith(_SPARK_ARCHIVES))
    return os.pathsep.join(path for path in needed if path)


def _last_line(log: Path) -> str:
    text = log.read_bytes() if log.exists() else b""
    lines = text[-_LOG_TAIL_BYTES:].decode(errors="replace").strip().splitlines()
    return f"{lines[-1]} (see {log})" if lines else f"its log is empty (see {log})"


@contextmanager
def _locked(path: Path) -> Iterator[int | None]:
    """A context with the descriptor of a lock (flock(2)); None if another process holds it.

    A process that inherits the descriptor holds the lock, too, until both have closed it. The
    holder may remove the file. Who has opened a removed one gets None, and tries again.
    """
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield file.fileno() if os.fstat(file.fileno()).st_nlink else None
