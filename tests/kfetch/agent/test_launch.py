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
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest

from kfetch.agent import home, launch
from kfetch.agent.channel import Channel, ChannelTimeout, Status, StatusRequest
from kfetch.agent.home import AgentFiles, ProcessIdentity
from kfetch.errors import AgentError

MEMORY = 64 << 20


def wait_until(condition: Callable[[], bool], seconds: float = 20) -> bool:
    """Wait until a condition is true. Returns whether it was in time."""
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
def owner(executor: subprocess.Popen[bytes]) -> ProcessIdentity:
    """The executor as its agent knows it."""
    return ProcessIdentity(pid=executor.pid, started=home._stat(executor.pid)[1])


@pytest.fixture
def files(owner: ProcessIdentity) -> AgentFiles:
    """The files of the owner's agent."""
    return home.files_of(owner)


def connect(files: AgentFiles, owner: ProcessIdentity) -> Channel:
    """A channel to the owner's agent."""
    return launch.connect(files, owner, memory=MEMORY, timeout_s=30)


def status(channel: Channel) -> Status:
    """The status of the agent at the other end. Closes the channel."""
    channel.send(StatusRequest())
    answer, _ = channel.receive()
    channel.close()
    assert isinstance(answer, Status)
    return answer


def test_a_python_of_a_relative_path(
    files: AgentFiles, owner: ProcessIdentity, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent starts although sys.executable is a relative path, as in an unpacked archive."""
    monkeypatch.setattr(sys, "executable", os.path.relpath(sys.executable))

    connect(files, owner).close()


def test_relative_paths_mean_the_same_to_an_agent(
    files: AgentFiles, owner: ProcessIdentity, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An agent has its worker's directory, for a truststore of spark-submit's --files.

    A module there does not hide a module of kfetch.
    """
    (tmp_path / "kfetch.py").write_text("raise SystemExit('a module of the directory')")
    monkeypatch.chdir(tmp_path)
    pid = status(connect(files, owner)).pid

    assert tmp_path.resolve() == Path(f"/proc/{pid}/cwd").resolve()


def test_many_workers_start_one_agent(files: AgentFiles, owner: ProcessIdentity) -> None:
    """Sixteen workers that connect at once get the same agent."""
    with ThreadPoolExecutor(16) as workers:
        pids = set(workers.map(lambda _: status(connect(files, owner)).pid, range(16)))

    assert 1 == len(pids)


def test_an_agent_leaves_with_its_owner(
    files: AgentFiles, owner: ProcessIdentity, executor: subprocess.Popen[bytes]
) -> None:
    """When the executor is killed, its agent exits and removes its socket."""
    agent = psutil.Process(status(connect(files, owner)).pid)
    executor.kill()
    executor.wait()

    assert wait_until(lambda: not agent.is_running() or agent.status() == psutil.STATUS_ZOMBIE, 5)
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


def agents_of(owner: ProcessIdentity) -> list[psutil.Process]:
    """The agents that serve an owner."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if {"kfetch.agent", str(owner)} <= {*(process.info["cmdline"] or ())}
    ]


def test_an_agent_leaves_the_socket_of_another(files: AgentFiles, owner: ProcessIdentity) -> None:
    """An agent removes the socket that it has bound, and none that replaced it."""
    agent = psutil.Process(status(connect(files, owner)).pid)
    files.socket.unlink()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as another:
        another.bind(str(files.socket))
        agent.terminate()

        assert wait_until(lambda: not agent.is_running() or _dead(agent.pid))
    assert files.socket.exists()


def test_sigterm_ends_an_agent(files: AgentFiles, owner: ProcessIdentity) -> None:
    """An agent exits on SIGTERM. The next worker starts another one."""
    first = status(connect(files, owner)).pid
    os.kill(first, signal.SIGTERM)

    assert wait_until(lambda: not files.socket.exists())
    assert first != status(connect(files, owner)).pid


def test_a_killed_agent_is_replaced(files: AgentFiles, owner: ProcessIdentity) -> None:
    """The socket of a killed agent does not prevent the start of the next one."""
    first = status(connect(files, owner)).pid
    os.kill(first, signal.SIGKILL)

    assert files.socket.exists()
    assert wait_until(lambda: not psutil.pid_exists(first) or _dead(first))
    assert first != status(connect(files, owner)).pid


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


def test_a_silent_connection_blocks_no_worker(files: AgentFiles, owner: ProcessIdentity) -> None:
    """The agent serves workers while another connection is open and silent."""
    connect(files, owner).close()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as silent:
        silent.connect(str(files.socket))

        assert MEMORY == status(connect(files, owner)).memory_limit


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


def test_only_a_process_that_listens_is_killed(files: AgentFiles) -> None:
    """kfetch kills the process that listens on the socket. Once it listens no more, its pid may be
    another process's, and kfetch kills none."""
    script = (
        "import socket, sys\n"
        "listener = socket.socket(socket.AF_UNIX)\n"
        "listener.bind(sys.argv[1])\n"
        "listener.listen()\n"
        "print('listens', flush=True)\n"
        "sys.stdin.readline()\n"
        "listener.close()\n"
        "print('listens no more', flush=True)\n"
        "sys.stdin.readline()\n"
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


def test_old_files_are_removed_but_for_locks(files: AgentFiles) -> None:
    """Logs and pid files of former agents are removed after a week. Locks never are."""
    old = [files.log, files.lock, files.log.with_name("living.log")]
    files.log.with_name("living.sock").touch()
    for path in old:
        path.touch()
        os.utime(path, (0, 0))
    files.log.with_name("young.log").touch()
    launch._remove_old_files(files.log.parent)
    left = {path.name for path in files.log.parent.iterdir()}

    assert {files.lock.name, "living.log", "living.sock", "young.log"} == left


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
        for _ in range(4):
            with pytest.raises(AgentError, match=r"No space left on device.*kfetch.agent=inline"):
                connect(files, owner)

        assert [] == agents_of(owner)
        for ballast in little_disk.glob("*.ballast"):
            ballast.unlink()
        assert [status(connect(files, owner)).pid] == [agent.pid for agent in agents_of(owner)]


@pytest.mark.parametrize(("mebibytes", "kept"), [(64, None), (255, None), (256, "100")])
def test_only_a_large_budget_keeps_freed_pages(mebibytes: int, kept: str | None) -> None:
    """An agent with little memory returns pages at once: what it keeps counts for more there."""
    assert kept == launch._environment(mebibytes << 20).get("MIMALLOC_ARENA_PURGE_MULT")


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

        assert wait_until(lambda: is_refused(files, silent))
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
