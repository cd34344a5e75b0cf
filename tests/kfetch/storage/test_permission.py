"""A query's source asks the holder of the lease before each plan."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kfetch.errors import KfetchError, LeaseLost
from kfetch.storage import permission
from kfetch.storage.lease_holder import take
from kfetch.storage.permission import ask, granting
from tests.kfetch.storage.test_lease import HOLDER
from tests.kfetch.storage.test_lease_holder import Memory, World


def test_a_machine_that_was_paused_whole() -> None:
    """Its clock stood still and no timer fired, and still it plans nothing beside the new holder.

    The first question after the pause is refused, before any look of the lease's own thread.
    """
    file, sleeper, other = Memory(), World(), World()
    lease = take(file, HOLDER, around=sleeper.around)
    with granting(lease.check) as path:
        ask(str(path))

        take(file, replace(HOLDER, id="b2"), around=other.around)

        assert not lease.trouble()
        for _ in range(2):
            with pytest.raises(LeaseLost, match="another micro-batch: its log"):
                ask(str(path))
        assert "another process has taken it" in lease.trouble()


def test_nobody_answers() -> None:
    """The process that ran the query has ended: no permission. Its socket is gone with it."""
    with granting(lambda: None) as path:
        ask(str(path))
    assert not path.parent.exists()
    with pytest.raises(LeaseLost, match="another micro-batch: No such file or directory: its log"):
        ask(str(path))


@pytest.fixture
def short() -> Iterator[Path]:
    """Returns an empty directory with a short path: that of a socket has a limit."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        yield Path(name)


def test_what_a_killed_process_has_left(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next process removes it.

    It leaves other files, the sockets of processes that live or begin, and those of other hosts.
    """
    monkeypatch.setattr(tempfile, "tempdir", str(short))
    names = ("left", "begins", "file")
    directories = [short / f"{permission._PREFIX}{name}" for name in names]
    left, begins = _bound(directories[0]), _bound(directories[1])
    directories[2].mkdir()
    (file := directories[2] / "permission").touch()
    of_other_host = _bound(short / "kfetch-xxxx-left")
    with granting(lambda: None) as living:
        for path in (left, living, file, of_other_host):
            os.utime(path, (0, 0))
        with granting(lambda: None):
            assert not left.parent.exists()
            assert all(path.exists() for path in (begins, living, file, of_other_host))
        ask(str(living))


def _bound(directory: Path) -> Path:
    """Returns a socket on which nobody listens."""
    directory.mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(directory / "permission"))
    return directory / "permission"


def test_a_long_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket's path has 107 bytes at most, so the socket is elsewhere then."""
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with granting(lambda: None) as path:
        assert long not in path.parents
        ask(str(path))


def test_no_temporary_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a usable directory for temporary files, the error names the variable."""
    monkeypatch.setattr(tempfile, "gettempdir", _no_directory)
    with (
        pytest.raises(KfetchError, match=r"No usable temporary directory .*: set TMPDIR to one"),
        granting(lambda: None),
    ):
        pass


def _no_directory() -> str:
    raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp', '/']")


def test_a_holder_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The source waits no longer than a lease lasts."""
    monkeypatch.setattr(permission, "_ANSWER_S", 0.05)
    released = threading.Event()
    with granting(lambda: hang(released)) as path:
        with pytest.raises(LeaseLost, match="another micro-batch: timed out: its log"):
            ask(str(path))
        released.set()


def hang(released: threading.Event) -> None:
    released.wait(60)
