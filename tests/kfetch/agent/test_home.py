"""Where an agent has its files: the owner, the directory, the socket's name."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from itertools import permutations
from pathlib import Path

import pytest

from kfetch.agent import home
from kfetch.agent.home import ProcessIdentity
from kfetch.compiled import code_cache, native
from kfetch.errors import AgentError
from kfetch.storage.processes import ProcessStat


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A runtime directory of the test's own."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


def test_the_owner_outside_spark_is_the_parent() -> None:
    """Without a JVM above it, a process is owned by its parent."""
    printed = subprocess.check_output(
        [sys.executable, "-c", "from kfetch.agent.home import *; print(find_owner().pid)"],
        text=True,
    )

    assert os.getpid() == int(printed)


def _stat(name: str, parent: int, started: int) -> ProcessStat:
    return ProcessStat(name=name, state="S", parent=parent, started=started)


def test_the_worker_of_a_killed_executor_has_no_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pid 1 gets the orphans. An agent would never end with it."""
    monkeypatch.setattr(os, "getppid", lambda: 1)
    monkeypatch.setattr(home, "process_stat", {1: _stat("systemd", 0, 10)}.__getitem__)

    with pytest.raises(AgentError, match="the executor of this worker has ended"):
        home.find_owner()


def test_an_executor_may_have_pid_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container without an init process runs the executor as pid 1."""
    processes = {7: _stat("python", 1, 70), 1: _stat("java", 0, 10)}
    monkeypatch.setattr(os, "getppid", lambda: 7)
    monkeypatch.setattr(home, "process_stat", processes.__getitem__)

    assert ProcessIdentity(pid=1, started=10) == home.find_owner()


def test_a_worker_without_descriptors_has_an_executor() -> None:
    """A file that can't be opened is an error. It does not mean that the executor has ended."""
    # All three are taken. With 0, the threads that other tests have left could not poll.
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            home.find_owner()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_process_whose_pid_was_reused_is_not_alive() -> None:
    """The start time tells two processes with the same pid apart."""
    me = ProcessIdentity.of(os.getpid())

    assert me.alive
    assert not ProcessIdentity(pid=me.pid, started=me.started + 1).alive
    assert not ProcessIdentity(pid=2**22 + 1, started=me.started).alive


def test_each_owner_has_its_own_files(runtime: Path) -> None:
    """An owner always has the same paths, another owner has others, all in a private directory."""
    first, again = (home.files_of(ProcessIdentity(pid=7, started=1)) for _ in range(2))

    assert first == again
    assert first.socket != home.files_of(ProcessIdentity(pid=7, started=2)).socket
    assert 0o700 == home.user_directory().stat().st_mode & 0o777
    assert runtime in first.socket.parents


def test_a_session_may_have_its_own_agent(runtime: Path) -> None:
    """The sockets of two sessions of one executor differ, and that of all sessions is a third."""
    owner = ProcessIdentity(pid=7, started=1)

    assert 3 == len({home.files_of(owner, session).socket for session in ("", "a", "b")})


def test_a_directory_that_others_can_write_to_is_refused(runtime: Path) -> None:
    """kfetch refuses a directory that others can write to: they may have left files in it."""
    home.user_directory().chmod(0o770)

    with pytest.raises(AgentError, match="must be a directory of this user alone"):
        home.user_directory()


def test_a_directory_that_others_can_only_enter_is_closed(runtime: Path) -> None:
    """The previous release kept compiled code at this path, in a directory that others can enter.

    kfetch takes their permission away: only this user can have written to it."""
    home.user_directory().chmod(0o755)

    assert 0o700 == home.user_directory().stat().st_mode & 0o777


def test_a_directory_below_one_that_hands_its_group_on(runtime: Path) -> None:
    """Kubernetes mounts volumes with the setgid bit, which new directories inherit."""
    runtime.chmod(0o2777)

    assert 0o700 == home.user_directory().stat().st_mode & 0o777


def test_a_file_in_place_of_the_directory(runtime: Path) -> None:
    """A directory that can't be made is an AgentError, which names the path."""
    path = runtime / f"kfetch-{os.getuid()}"
    path.touch()

    with pytest.raises(AgentError, match=f"{path} can't be made .File exists"):
        home.user_directory()


@pytest.mark.parametrize("home_directory", ["missing", "unwritable"])
@pytest.mark.parametrize("order", [*permutations(("warm", "inline", "process"))])
def test_code_and_sockets_in_every_order(
    runtime: Path, order: tuple[str, ...], home_directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a home directory, code and sockets go to /tmp, whichever of them comes first.

    Only the first command compiles, and no agent is refused."""
    native.load()
    cached = code_cache.read(native.code_name(), os.environ)
    assert cached is not None
    for name in ("KFETCH_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    if home_directory == "unwritable":
        (runtime / "file").touch()
        monkeypatch.setenv("HOME", str(runtime / "file"))
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(runtime))
    monkeypatch.setattr(native, "_compile", lambda: cached[0])
    compiled = []
    for command in order:
        if command == "process":
            home.files_of(ProcessIdentity(pid=7, started=1))
        compiled.append(native.load.__wrapped__().origin.compiled)

    assert [True, False, False] == compiled


def test_a_link_in_place_of_the_directory_is_refused(runtime: Path) -> None:
    """kfetch does not follow a symbolic link in place of the directory."""
    (runtime / "elsewhere").mkdir(mode=0o700)
    (runtime / f"kfetch-{os.getuid()}").symlink_to(runtime / "elsewhere")

    with pytest.raises(AgentError, match="must be a directory of this user alone"):
        home.user_directory()


@pytest.mark.parametrize("kind", ["missing", "file", "closed"])
def test_an_unusable_runtime_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """If XDG_RUNTIME_DIR can't be used, as under su or cron, kfetch uses /tmp."""
    inherited = tmp_path / "inherited"
    if kind == "file":
        inherited.touch(mode=0o777)
    elif kind == "closed":
        inherited.mkdir()
        # Root may write anywhere, so the mode alone would prove nothing.
        monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != inherited)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(inherited))

    assert Path(f"/tmp/kfetch-{os.getuid()}") == home.user_directory()


@pytest.mark.parametrize("given", ["login", "cron", ""])
def test_where_other_processes_may_have_their_agents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    """A login shell has XDG_RUNTIME_DIR, and cron has not. Each finds the agents of both."""
    monkeypatch.setattr(
        home, "_RUNTIME_DIRECTORIES", (str(tmp_path / "login"), str(tmp_path / "cron"))
    )
    own = f"kfetch-{os.getuid()}"
    for name in ("login", "cron", "other"):
        (tmp_path / name / own).mkdir(mode=0o700, parents=True)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / (given or "other")))

    expected = {given or "other", "login", "cron"}
    assert expected == {path.parent.name for path in home.user_directories()}
    assert home.user_directory() == home.user_directories()[0]
    assert 3 - bool(given) == len(home.user_directories())


def test_where_nobody_may_have_agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that is missing, or that others can write to, has no agents of this user."""
    (tmp_path / "shared" / f"kfetch-{os.getuid()}").mkdir(parents=True)
    (tmp_path / "shared" / f"kfetch-{os.getuid()}").chmod(0o770)
    others = [str(tmp_path / name) for name in ("shared", "missing")]
    monkeypatch.setattr(home, "_RUNTIME_DIRECTORIES", others)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    assert [home.user_directory()] == home.user_directories()


def test_a_path_too_long_for_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond 107 bytes the error names the variable that shortens the path."""
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))

    with pytest.raises(AgentError, match="too long for a Unix socket: point XDG_RUNTIME_DIR"):
        home.files_of(ProcessIdentity(pid=7, started=1))
