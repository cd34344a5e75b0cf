"""What an agent's process does for its whole life: it holds its lock, and closes idle queries."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kfetch.agent import __main__ as agent
from kfetch.agent.budget import Budget
from kfetch.agent.home import AgentFiles, ProcessIdentity
from kfetch.agent.server import OpenQueries
from tests.kfetch.agent.agent_process import connect, status
from tests.kfetch.agent.helpers import wait_until

_CLOSE_ON_EXEC = 0o2000000  # O_CLOEXEC in /proc/PID/fdinfo (proc(5))


def test_no_program_inherits_the_lock(files: AgentFiles, owner: ProcessIdentity) -> None:
    """A program that an agent starts may outlive it. It must not keep the lock of the agent."""
    descriptors = Path(f"/proc/{status(connect(files, owner)).pid}/fd")
    (lock,) = (path for path in descriptors.iterdir() if os.readlink(path) == str(files.lock))
    info = (descriptors.parent / "fdinfo" / lock.name).read_text()
    flags = next(line.split()[1] for line in info.splitlines() if line.startswith("flags:"))

    assert int(flags, 8) & _CLOSE_ON_EXEC


def test_one_error_does_not_keep_queries_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that closes idle queries goes on after an error, as for want of memory.

    Otherwise an agent would keep its queries, and never end for want of work."""
    rounds = []

    class Failing(OpenQueries):
        def close_idle(self) -> None:
            rounds.append(1)
            raise MemoryError

    monkeypatch.setattr(agent, "_CHECK_INTERVAL_S", 0.01)
    stop = threading.Event()
    thread = threading.Thread(target=agent._close_idle, args=(Failing(Budget(1 << 20)), stop))
    thread.start()
    try:
        assert wait_until(lambda: len(rounds) > 2)
    finally:
        stop.set()
        thread.join()


def test_the_socket_of_another_agent_is_not_its_own(tmp_path: Path) -> None:
    """Somebody removes lock and socket while an agent starts, and another agent binds the path.

    The first one must not take that socket for its own. It would stay, and remove it in the end."""
    path = tmp_path / "agent.sock"
    bind = (
        "import socket, sys, time; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]);"
        "s.listen(); print(flush=True); sys.stdin.read()"
    )
    with agent._listening(path):
        own = agent._bound_inode(path) == path.stat().st_ino
        path.unlink()
        gone = agent._bound_inode(path)
        command = [sys.executable, "-c", bind, str(path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            assert other.stdout is not None
            other.stdout.readline()
            of_another = agent._bound_inode(path)

    assert (True, 0, 0) == (own, gone, of_another)
