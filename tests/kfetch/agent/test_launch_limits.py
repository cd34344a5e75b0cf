"""Agents at the limits of a machine: no descriptor, thread or disk is free; files of the dead."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest

from kfetch.agent import launch
from kfetch.agent.home import AgentFiles, ProcessIdentity
from kfetch.errors import AgentError
from tests.kfetch.agent.agent_process import agents_of, connect, status
from tests.kfetch.agent.helpers import wait_until


def test_files_of_dead_agents_are_removed(files: AgentFiles) -> None:
    """A starting agent removes the socket and the lock of a dead one, and after a week its log.

    Files of living agents stay, whether they hold a lock or, as in earlier releases, only listen.
    """
    directory = files.log.parent
    names = {
        name: {directory / f"{name}.{kind}" for kind in ("log", "lock", "pid", "sock")}
        for name in ("dead", "young", "locked", "listening")
    }
    with ExitStack() as stack:
        for name, paths in names.items():
            listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            listener.bind(str(directory / f"{name}.sock"))
            if name == "listening":
                listener.listen()
            for path in paths:
                path.touch()
                if name != "young":
                    os.utime(path, (0, 0))
        (directory / "strange.txt").touch()
        os.utime(directory / "strange.txt", (0, 0))
        assert stack.enter_context(launch._locked(directory / "locked.lock"))
        launch._remove_old_files(directory)
        left = {*directory.iterdir()}

    others = {directory / "young.log", directory / "strange.txt"}
    assert names["locked"] | names["listening"] | others == left


def test_a_lock_that_is_removed_has_one_holder(tmp_path: Path) -> None:
    """Although each holder removes the lock, two processes never hold it at the same time."""
    inside = threading.Lock()
    holders = Counter[bool]()

    def hold_often() -> None:
        for _ in range(2000):
            with launch._locked(tmp_path / "lock") as lock:
                if lock is None:
                    continue
                alone = inside.acquire(blocking=False)
                holders[alone] += 1
                time.sleep(0)  # let the others run
                if alone:
                    inside.release()
                (tmp_path / "lock").unlink(missing_ok=True)

    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(hold_often) for _ in range(8)]:
            done.result()

    assert 0 < holders[True]
    assert 0 == holders[False]


@pytest.fixture
def little_disk(tmp_path: Path, owner: ProcessIdentity) -> Iterator[Path]:
    """A disk of 64 KiB and 16 files, on which the agent has its files. Needs root."""
    directory = tmp_path / f"kfetch-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    options = "size=64k,nr_inodes=16,mode=0700"
    mount = ["mount", "-t", "tmpfs", "-o", options, "none", str(directory)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("this user may not mount a disk")
    yield directory
    subprocess.run(["umount", "--lazy", str(directory)], check=True)


@pytest.mark.parametrize("full_of", ["bytes", "files"])
def test_a_full_disk(
    files: AgentFiles, owner: ProcessIdentity, little_disk: Path, full_of: str
) -> None:
    """On a full disk, either the agent starts without a log, or the error says that the disk is
    full. No attempt leaves an agent behind."""
    if full_of == "bytes":
        with suppress(OSError):
            (little_disk / "ballast").write_bytes(bytes(1 << 20))
        pids = [status(connect(files, owner)).pid for _ in range(4)]

        assert pids == [agent.pid for agent in agents_of(owner)] * 4
    else:
        with suppress(OSError):
            for number in range(16):
                (little_disk / f"{number}.ballast").touch()
        for _ in range(2):
            with pytest.raises(AgentError, match=r"No space left on device.*kfetch.agent=inline"):
                connect(files, owner)

        assert [] == agents_of(owner)
        for ballast in little_disk.glob("*.ballast"):
            ballast.unlink()
        assert [status(connect(files, owner)).pid] == [agent.pid for agent in agents_of(owner)]


@pytest.mark.parametrize(
    ("limit", "cause"), [("RLIMIT_NOFILE", "Too many open files"), ("RLIMIT_AS", "new thread")]
)
def test_an_agent_without_room_goes_on(
    files: AgentFiles, owner: ProcessIdentity, limit: str, cause: str
) -> None:
    """An agent that can open no file, or start no thread, refuses workers and serves them later.

    Nobody kills it, and nobody starts a second one.
    """
    agent = psutil.Process(status(connect(files, owner)).pid)
    allowed = agent.rlimit(getattr(psutil, limit))
    used = {
        "RLIMIT_NOFILE": 1
        + max(int(path.name) for path in Path(f"/proc/{agent.pid}/fd").iterdir()),
        "RLIMIT_AS": agent.memory_info().vms + (4 << 20),  # a thread takes 8 MiB
    }
    with ExitStack() as silent, ThreadPoolExecutor(4) as workers:
        agent.rlimit(getattr(psutil, limit), (used[limit], allowed[1]))

        # More than once: the thread that has answered above may end only now.
        assert wait_until(lambda: all(is_refused(files, silent) for _ in range(20)))
        waiting = [workers.submit(lambda: status(connect(files, owner)).pid) for _ in range(4)]
        assert not wait_until(lambda: any(worker.done() for worker in waiting), 0.5)
        agent.rlimit(getattr(psutil, limit), allowed)
        assert {agent.pid} == {worker.result() for worker in waiting}
    assert 1 == files.log.read_text().count("it refuses workers")
    assert cause in files.log.read_text()


def test_an_agent_may_open_as_many_files_as_allowed(
    files: AgentFiles, owner: ProcessIdentity
) -> None:
    """The agent raises its limit of descriptors: each task of each query needs some."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1000), hard))
    try:
        agent = psutil.Process(status(connect(files, owner)).pid)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert (hard, hard) == agent.rlimit(psutil.RLIMIT_NOFILE)


def is_refused(files: AgentFiles, silent: ExitStack) -> bool:
    """Whether the agent closes one more silent connection at once."""
    stream = silent.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    stream.settimeout(0.2)
    stream.connect(str(files.socket))
    with suppress(TimeoutError):
        return stream.recv(1) == b""
    return False
