"""The life of a real agent process: many workers start it once, and it exits with its owner.

Each test has its own owner, a sleeping process in place of the executor's JVM.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import psutil
import pytest

from kfetch.agent import launch
from kfetch.agent.channel import ChannelTimeout, Status, StatusRequest
from kfetch.agent.home import AgentFiles, ProcessIdentity
from kfetch.errors import AgentError
from tests.kfetch.agent.agent_process import MEMORY, agents_of, connect, status
from tests.kfetch.agent.helpers import wait_until


def test_relative_paths_mean_the_same_to_an_agent(
    files: AgentFiles, owner: ProcessIdentity, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An agent has its worker's directory, for a truststore of spark-submit's --files.

    A module there does not hide a module of kfetch. The agent starts although sys.executable is a
    relative path, as in an unpacked archive.
    """
    (tmp_path / "kfetch.py").write_text("raise SystemExit('a module of the directory')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", os.path.relpath(sys.executable))
    pid = status(connect(files, owner)).pid

    assert tmp_path.resolve() == Path(f"/proc/{pid}/cwd").resolve()


def test_many_workers_start_one_agent(files: AgentFiles, owner: ProcessIdentity) -> None:
    """Sixteen workers that connect at once get the same agent. It serves workers while another
    connection is open and silent."""
    with ThreadPoolExecutor(16) as workers:
        pids = set(workers.map(lambda _: status(connect(files, owner)).pid, range(16)))
    assert 1 == len(pids)

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as silent:
        silent.connect(str(files.socket))
        assert MEMORY == status(connect(files, owner)).memory_limit


def test_an_agent_leaves_with_its_owner(
    files: AgentFiles, owner: ProcessIdentity, executor: subprocess.Popen[bytes]
) -> None:
    """When the executor is killed, its agent exits and removes its socket."""
    agent = psutil.Process(status(connect(files, owner)).pid)
    executor.kill()
    executor.wait()

    assert wait_until(lambda: not agent.is_running() or agent.status() == psutil.STATUS_ZOMBIE)
    assert not files.socket.exists()


def test_an_agent_of_a_dead_owner_does_not_stay(files: AgentFiles, owner: ProcessIdentity) -> None:
    """An agent exits at once if the start time shows that its owner has ended."""
    former = ProcessIdentity(pid=owner.pid, started=owner.started - 1)

    with pytest.raises(AgentError, match="leaving: the executor has ended"):
        connect(files, former)


def test_a_killed_worker_leaves_one_agent(files: AgentFiles, owner: ProcessIdentity) -> None:
    """If the worker that starts an agent is killed, the next worker waits for that agent."""
    script = (
        "import os, signal, sys\n"
        "from kfetch.agent import home, launch\n"
        "def spawn_and_die(*arguments, spawn=launch._spawn):\n"
        "    spawn(*arguments)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "launch._spawn = spawn_and_die\n"
        "owner = home.ProcessIdentity.parse(sys.argv[1])\n"
        "launch.connect(home.files_of(owner), owner, memory=64 << 20, timeout_s=30)\n"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(owner)], timeout=60)
    pid = status(connect(files, owner)).pid

    assert -signal.SIGKILL == killed.returncode
    assert [pid] == [agent.pid for agent in agents_of(owner)]


def test_an_agent_without_its_socket_leaves(
    files: AgentFiles, owner: ProcessIdentity, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If somebody removes the socket of an agent, as by cleaning /tmp, workers get another agent.

    The first one holds the lock, so it must end before."""
    monkeypatch.setattr(launch, "_CONNECT_TIMEOUT_S", 10.0)
    with closing(connect(files, owner)) as busy:
        busy.send(StatusRequest())
        answer, _ = busy.receive()
        files.socket.unlink()
        second = status(connect(files, owner)).pid

    assert isinstance(answer, Status)
    assert answer.pid != second
    assert [second] == [agent.pid for agent in agents_of(owner)]


def test_an_agent_leaves_the_socket_of_another(files: AgentFiles, owner: ProcessIdentity) -> None:
    """An agent removes the socket that it has bound, and none that replaced it."""
    agent = psutil.Process(status(connect(files, owner)).pid)
    files.socket.unlink()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as another:
        another.bind(str(files.socket))
        agent.terminate()

        assert wait_until(lambda: not agent.is_running() or _dead(agent.pid))
    assert files.socket.exists()


def test_an_agent_that_ends_is_replaced(files: AgentFiles, owner: ProcessIdentity) -> None:
    """An agent exits on SIGTERM and removes its socket. The socket of a killed agent stays, and
    does not prevent the start of the next one."""
    first = status(connect(files, owner)).pid
    os.kill(first, signal.SIGTERM)
    assert wait_until(lambda: not files.socket.exists())

    second = status(connect(files, owner)).pid
    os.kill(second, signal.SIGKILL)
    assert wait_until(lambda: not psutil.pid_exists(second) or _dead(second))
    assert files.socket.exists()

    assert 3 == len({first, second, status(connect(files, owner)).pid})


def _dead(pid: int) -> bool:
    return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_an_agent_stands_apart_from_the_worker(
    files: AgentFiles, owner: ProcessIdentity, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has its own session and no terminal, no secret or archive of Spark, and no descriptor of
    ours. Both allocators return memory soon."""
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_SECRET", "hush")
    spark = [f"/spark/python/lib/{name}" for name in ("pyspark.zip", "py4j-0.10.9.9-src.zip")]
    spark.append("/spark/jars/spark-core_2.13-4.2.0.jar")
    monkeypatch.setattr(sys, "path", [*spark, *sys.path, "/shipped/by/py-files.zip"])
    (files.log.parent / "ours").touch()
    with (files.log.parent / "ours").open() as ours, socket.socket() as stream:
        os.set_inheritable(ours.fileno(), True)
        stream.set_inheritable(True)
        agent = psutil.Process(status(connect(files, owner)).pid)
        strange = open_files(agent.pid) & open_files(os.getpid()) - {"/dev/null"}
    environment = agent.environ()
    path = environment["PYTHONPATH"].split(os.pathsep)

    assert agent.pid == os.getsid(agent.pid)
    assert "PYTHON_WORKER_FACTORY_SECRET" not in environment
    assert "/shipped/by/py-files.zip" in path
    assert not {*spark} & {*path}
    assert "10" == environment["MIMALLOC_PURGE_DELAY"]
    assert "4194304" == environment["MALLOC_TRIM_THRESHOLD_"]
    assert "hush" not in " ".join(agent.cmdline())
    assert {str(files.log)} == {os.readlink(f"/proc/{agent.pid}/fd/{n}") for n in (1, 2)}
    assert "/dev/null" == os.readlink(f"/proc/{agent.pid}/fd/0")
    assert set() == strange


def open_files(pid: int) -> set[str]:
    """The targets of a process's descriptors, sockets and pipes by their inode.

    Anonymous inodes have no number. They look all the same, so this leaves them out."""
    targets = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            targets.add(os.readlink(descriptor))
    return {name for name in targets if not name.startswith("anon_inode:")}


def test_the_error_for_a_limited_address_space(files: AgentFiles, owner: ProcessIdentity) -> None:
    """If spark.executor.pyspark.memory is too small, the worker's error names that option."""
    script = (
        "import resource, sys\n"
        "from kfetch.agent import home, launch\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        "owner = home.ProcessIdentity(pid=int(sys.argv[1]), started=int(sys.argv[2]))\n"
        "launch.connect(home.files_of(owner), owner, memory=256 << 20, timeout_s=30)\n"
    )
    worker = subprocess.run(
        [sys.executable, "-c", script, str(owner.pid), str(owner.started)],
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert "raise spark.executor.pyspark.memory" in worker.stderr
    assert "kfetch.agent=inline" in worker.stderr


def test_a_hung_agent_is_replaced(
    files: AgentFiles, owner: ProcessIdentity, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next workers kill an agent that hangs, and get one new agent."""
    first = status(connect(files, owner)).pid
    (stopped,) = (process for process in launch._started if process.pid == first)
    os.kill(first, signal.SIGSTOP)
    monkeypatch.setattr(launch, "_GREETING_TIMEOUT_S", 1.0)
    try:
        with ThreadPoolExecutor(4) as workers:
            pids = set(workers.map(lambda _: status(connect(files, owner)).pid, range(4)))
        ended = wait_until(lambda: stopped.poll() is not None, 1)
    finally:
        stopped.kill()  # nobody else would, if the test fails

    assert 1 == len(pids)
    assert first not in pids
    assert ended


LISTENER = (
    "import socket, sys\n"
    "listener = socket.socket(socket.AF_UNIX)\n"
    "listener.bind(sys.argv[1])\n"
    "listener.listen()\n"
    "print('listens', flush=True)\n"
    "sys.stdin.readline()\n"
)
"""A program that listens at its argument until it gets a line."""


def test_only_a_process_that_listens_is_killed(files: AgentFiles) -> None:
    """kfetch kills the process that listens on the socket. Once it listens no more, its pid may be
    another process's, and kfetch kills none."""
    script = LISTENER + (
        "listener.close()\nprint('listens no more', flush=True)\nsys.stdin.readline()\n"
    )
    command = [sys.executable, "-c", script, str(files.socket)]
    for listens in (True, False):
        files.socket.unlink(missing_ok=True)
        with (
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process,
            socket.socket(socket.AF_UNIX) as stream,
        ):
            assert process.stdin
            assert process.stdout
            process.stdout.readline()
            launch._kill_peer(stream)  # not connected: none
            stream.connect(str(files.socket))
            if not listens:
                process.stdin.write(b"\n")
                process.stdin.flush()
                process.stdout.readline()
            launch._kill_peer(stream)
            killed = wait_until(lambda: process.poll() is not None, 5 if listens else 0)
            process.kill()

        assert killed == listens


def test_a_worker_with_many_files_kills_a_hung_agent(files: AgentFiles) -> None:
    """select(2) takes no descriptor above 1,023. kfetch does without it."""
    command = [sys.executable, "-c", LISTENER, str(files.socket)]
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process,
        socket.socket(socket.AF_UNIX) as stream,
        ExitStack() as at_end,
    ):
        assert process.stdout
        process.stdout.readline()
        at_end.callback(process.kill)
        at_end.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(limits[1], 4096), limits[1]))
        stream.connect(str(files.socket))
        for _ in range(1024):
            at_end.callback(os.close, os.dup(0))
        launch._kill_peer(stream)

        assert -signal.SIGKILL == process.wait(5)


def test_a_full_backlog_is_a_hung_agent(files: AgentFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener that accepts no connection counts as a hung agent, not as a dead socket."""
    monkeypatch.setattr(launch, "_GREETING_TIMEOUT_S", 0.2)
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream,
    ):
        listener.bind(str(files.socket))
        listener.listen(0)
        other.connect(str(files.socket))
        stream.settimeout(1)

        with pytest.raises(ChannelTimeout, match="accepts no connection"):
            launch._open_connection(stream, files.socket)


def test_the_wait_for_the_lock_ends(
    files: AgentFiles, owner: ProcessIdentity, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a worker hangs while it holds the lock, the others fail after a timeout."""
    monkeypatch.setattr(launch, "_CONNECT_TIMEOUT_S", 0.1)

    with launch._locked(files.lock), pytest.raises(AgentError, match="no agent has answered for 0"):
        connect(files, owner)


@pytest.mark.parametrize(("mebibytes", "kept"), [(64, None), (255, None), (256, "100")])
def test_only_a_large_budget_keeps_freed_pages(mebibytes: int, kept: str | None) -> None:
    """An agent with little memory returns pages at once: what it keeps counts for more there."""
    assert kept == launch._environment(mebibytes << 20).get("MIMALLOC_ARENA_PURGE_MULT")
