"""The life of a real agent process: found by many, started once, gone with its owner.

Each test has an owner of its own, a sleeping process in place of the executor's JVM.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from kfetch.agent import home, launch
from kfetch.agent.channel import AskStatus, Channel, Hung, Status
from kfetch.agent.home import Home, Owner
from kfetch.errors import AgentError

MEMORY = 64 << 20


def wait_until(condition: Callable[[], bool], seconds: float = 20) -> bool:
    """Whether a condition came true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture
def executor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """A process that plays the executor, and a runtime directory of the test's own."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with subprocess.Popen(["sleep", "120"]) as process:
        yield process
        process.kill()
    for agent in launch._started:
        agent.wait(20)


@pytest.fixture
def owner(executor: subprocess.Popen[bytes]) -> Owner:
    """The executor as an agent knows it."""
    return Owner(pid=executor.pid, started=home._stat(executor.pid)[1])


@pytest.fixture
def place(owner: Owner) -> Home:
    """The files of the owner's agent."""
    return home.home_of(owner)


def connect(place: Home, owner: Owner) -> Channel:
    """A channel to the owner's agent."""
    return launch.connect(place, owner, memory=MEMORY, timeout_s=30)


def status(channel: Channel) -> Status:
    """What the agent at the other end holds."""
    channel.send(AskStatus())
    told, _ = channel.receive()
    channel.close()
    assert isinstance(told, Status)
    return told


def test_a_python_of_a_relative_path(
    place: Home, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where executors find Python in an unpacked archive by a relative PATH, that is its name."""
    monkeypatch.setattr(sys, "executable", os.path.relpath(sys.executable))

    connect(place, owner).close()


def test_many_workers_start_one_agent(place: Home, owner: Owner) -> None:
    """Sixteen workers that ask at once get the same agent."""
    with ThreadPoolExecutor(16) as workers:
        pids = set(workers.map(lambda _: status(connect(place, owner)).pid, range(16)))

    assert 1 == len(pids)


def test_an_agent_leaves_with_its_owner(
    place: Home, owner: Owner, executor: subprocess.Popen[bytes]
) -> None:
    """When the executor is killed its agent ends and takes its socket along."""
    agent = psutil.Process(status(connect(place, owner)).pid)
    executor.kill()
    executor.wait()

    assert wait_until(lambda: not agent.is_running() or agent.status() == psutil.STATUS_ZOMBIE, 5)
    assert not place.socket.exists()


def test_an_agent_of_a_dead_owner_does_not_stay(place: Home, owner: Owner) -> None:
    """An owner whose start time does not fit has ended: the agent leaves at once, and says so."""
    former = Owner(pid=owner.pid, started=owner.started - 1)

    with pytest.raises(AgentError, match="leaving: the executor has ended"):
        connect(place, former)


def test_sigterm_ends_an_agent(place: Home, owner: Owner) -> None:
    """SIGTERM is enough; the next worker starts another agent."""
    first = status(connect(place, owner)).pid
    os.kill(first, signal.SIGTERM)

    assert wait_until(lambda: not place.socket.exists())
    assert first != status(connect(place, owner)).pid


def test_a_killed_agent_is_replaced(place: Home, owner: Owner) -> None:
    """A socket that a killed agent left behind does not keep the next one from starting."""
    first = status(connect(place, owner)).pid
    os.kill(first, signal.SIGKILL)

    assert place.socket.exists()
    assert wait_until(lambda: not psutil.pid_exists(first) or _dead(first))
    assert first != status(connect(place, owner)).pid


def _dead(pid: int) -> bool:
    return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_an_agent_stands_apart_from_the_worker(
    place: Home, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has its own session, no terminal, none of Spark's secrets and archives, and none of our
    descriptors; Arrow's allocator gives pages back soon."""
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_SECRET", "hush")
    spark = [f"/spark/python/lib/{name}" for name in ("pyspark.zip", "py4j-0.10.9.9-src.zip")]
    spark.append("/spark/jars/spark-core_2.13-4.2.0.jar")
    monkeypatch.setattr(sys, "path", [*spark, *sys.path, "/shipped/by/py-files.zip"])
    (place.log.parent / "ours").touch()
    with (place.log.parent / "ours").open() as ours, socket.socket() as stream:
        os.set_inheritable(ours.fileno(), True)
        stream.set_inheritable(True)
        agent = psutil.Process(status(connect(place, owner)).pid)
        strange = open_files(agent.pid) & open_files(os.getpid()) - {"/dev/null"}
    environment = agent.environ()
    path = environment["PYTHONPATH"].split(os.pathsep)

    assert agent.pid == os.getsid(agent.pid)
    assert "PYTHON_WORKER_FACTORY_SECRET" not in environment
    assert "/shipped/by/py-files.zip" in path
    assert not {*spark} & {*path}
    assert "10" == environment["MIMALLOC_PURGE_DELAY"]
    assert "hush" not in " ".join(agent.cmdline())
    assert {str(place.log)} == {os.readlink(f"/proc/{agent.pid}/fd/{n}") for n in (1, 2)}
    assert "/dev/null" == os.readlink(f"/proc/{agent.pid}/fd/0")
    assert set() == strange


def open_files(pid: int) -> set[str]:
    """What all descriptors of a process stand for; sockets and pipes by their inode. Anonymous
    inodes have no number, so they can't be told apart and are left out."""
    found = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            found.add(os.readlink(descriptor))
    return {name for name in found if not name.startswith("anon_inode:")}


def test_a_limited_address_space_is_told(place: Home, owner: Owner) -> None:
    """Under spark.executor.pyspark.memory the worker's error names the option to mend."""
    script = (
        "import resource, sys\n"
        "from kfetch.agent import home, launch\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        "owner = home.Owner(pid=int(sys.argv[1]), started=int(sys.argv[2]))\n"
        "launch.connect(home.home_of(owner), owner, memory=256 << 20, timeout_s=30)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", script, str(owner.pid), str(owner.started)],
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert "raise spark.executor.pyspark.memory" in told.stderr
    assert "kfetch.agent=inline" in told.stderr


def test_a_stranger_that_says_nothing_blocks_nobody(place: Home, owner: Owner) -> None:
    """A connection that is opened and left silent does not keep others from being served."""
    connect(place, owner).close()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as silent:
        silent.connect(str(place.socket))

        assert MEMORY == status(connect(place, owner)).memory_limit


def test_a_hung_agent_is_replaced(
    place: Home, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that is stopped and answers nobody is killed by the next workers: they get one
    other agent."""
    first = status(connect(place, owner)).pid
    (stopped,) = (process for process in launch._started if process.pid == first)
    os.kill(first, signal.SIGSTOP)
    monkeypatch.setattr(launch, "_GREETING_S", 1.0)
    try:
        with ThreadPoolExecutor(4) as workers:
            pids = set(workers.map(lambda _: status(connect(place, owner)).pid, range(4)))
        ended = wait_until(lambda: stopped.poll() is not None, 1)
    finally:
        stopped.kill()  # nobody else would, if the test fails

    assert 1 == len(pids)
    assert first not in pids
    assert ended


def test_no_other_process_is_killed(place: Home, executor: subprocess.Popen[bytes]) -> None:
    """A recorded pid that belongs to another process by now is left alone, as is nonsense."""
    former = Owner.of(executor.pid)
    for text in (str(Owner(pid=former.pid, started=former.started - 1)), "", "x", "4194305:1"):
        place.process.write_text(text)
        launch._kill(place)
    place.process.unlink()
    launch._kill(place)

    assert executor.poll() is None


def test_a_full_backlog_is_a_hung_agent(place: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener that accepts nobody is not taken for a socket that was left behind."""
    monkeypatch.setattr(launch, "_GREETING_S", 0.2)
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other,
    ):
        listener.bind(str(place.socket))
        listener.listen(0)
        other.connect(str(place.socket))

        with pytest.raises(Hung, match="accepts no connection"):
            launch._greet(place)


def test_the_wait_for_the_lock_ends(
    place: Home, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that hangs while it holds the lock does not hang the others."""
    monkeypatch.setattr(launch, "_LOCK_S", 0.1)

    with launch._locked(place.lock), pytest.raises(AgentError, match="another worker has held"):
        connect(place, owner)


def test_what_is_old_is_removed_but_for_locks(place: Home) -> None:
    """Logs and records of agents that have left go after a week; a lock never does."""
    old = [place.log, place.lock, place.process, place.log.with_name("living.log")]
    place.log.with_name("living.sock").touch()
    for path in old:
        path.touch()
        os.utime(path, (0, 0))
    place.log.with_name("young.log").touch()
    launch._clear(place.log.parent)
    left = {path.name for path in place.log.parent.iterdir()}

    assert {place.lock.name, "living.log", "living.sock", "young.log"} == left
