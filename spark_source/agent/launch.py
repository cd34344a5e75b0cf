"""Finding the executor's agent, or starting it: many workers at once, one agent.

Spark's worker daemon sends SIGHUP to its process group and waits for inherited pipes, so the agent
gets a session, a log file and no descriptor of the worker's. What ``--py-files`` put on
``sys.path`` goes on as PYTHONPATH; Spark's secret does not.
"""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from spark_source import __version__
from spark_source.agent.channel import Channel, Gone, Hello
from spark_source.agent.home import Home, Owner
from spark_source.errors import AgentError

_START_S = 60.0  # starting Python on a machine under full load; a warm one takes 0.3 s
_POLL_S = 0.02
_SECRETS = ("PYTHON_WORKER_FACTORY_SECRET", "PYSPARK_GATEWAY_SECRET")
_LOG_TAIL_BYTES = 2000
_KEPT_S = 7 * 24 * 3600  # logs of agents that have left

_started: list[subprocess.Popen[bytes]] = []


def connect(home: Home, owner: Owner, *, memory: int, timeout_s: float) -> Channel:
    """A channel to the owner's agent, which is started if none answers. Raises AgentError."""
    channel = _greet(home, timeout_s)
    if channel is not None:
        return channel
    with _locked(home.lock):
        # Another worker may have started it while this one waited for the lock.
        channel = _greet(home, timeout_s)
        return channel or _start(home, owner, memory, timeout_s)


def _greet(home: Home, timeout_s: float) -> Channel | None:
    """A channel to an agent that answers with our version; None if there is no agent."""
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    channel = Channel(stream, timeout_s)
    try:
        stream.connect(str(home.socket))
        channel.send(Hello(version=__version__, pid=os.getpid()))
        hello, _ = channel.receive()
    except (OSError, Gone):
        channel.close()
        return None
    if not isinstance(hello, Hello) or hello.version != __version__:
        channel.close()
        raise AgentError(
            f"the agent at {home.socket} is not of kfetch {__version__}: restart the executor"
        )
    return channel


def _start(home: Home, owner: Owner, memory: int, timeout_s: float) -> Channel:
    _clear(home.socket.parent)
    with home.log.open("wb") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "spark_source.agent"),
                *("--socket", str(home.socket)),
                *("--owner", f"{owner.pid}:{owner.started}"),
                *("--memory", str(memory)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=_environment(),
            start_new_session=True,
        )
    _started[:] = [process, *(other for other in _started if other.poll() is None)]
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        channel = _greet(home, timeout_s)
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


def _clear(directory: Path) -> None:
    """Remove what agents left behind a week ago and more."""
    for path in (*directory.glob("*.log"), *directory.glob("*.lock")):
        with suppress(FileNotFoundError):
            old = time.time() - path.stat().st_mtime > _KEPT_S
            if old and not path.with_suffix(".sock").exists():
                path.unlink()


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _SECRETS}
    return kept | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def _tail(log: Path) -> str:
    lines = log.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace").strip().splitlines()
    return f"{lines[-1]} (see {log})" if lines else f"it said nothing (see {log})"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
