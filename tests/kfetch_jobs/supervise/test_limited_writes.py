"""The lead of a project whose store limits how often an object is written, as Google's does."""

from __future__ import annotations

import errno
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from kfetch.storage.versions import VersionedDirectory
from kfetch_jobs.errors import SupervisorError
from kfetch_jobs.supervise import leadership
from kfetch_jobs.supervise.job_state import JobState, Phase
from kfetch_jobs.supervise.store import supervisor_directory
from kfetch_jobs.supervise.supervisor import Supervisor
from tests.kfetch_jobs.stage import CONTINUOUS, UNTIL_TERM
from tests.kfetch_jobs.supervise.hosts import Host
from tests.store import Store as S3
from tests.store_proxy import Fault, Proxy, proxied

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])


def test_a_store_that_says_too_many(
    tmp_path: Path, store: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It refuses a write because another one came right before. The write is repeated, not for
    ever."""
    monkeypatch.setattr(leadership, "_TURN_S", 0.05)
    with proxied(store) as proxy:
        host = Host(tmp_path / "a", f"{store.uri}/{tmp_path.name}", proxy.store.settings)
        _write_too_often(host, proxy)


def _write_too_often(host: Host, proxy: Proxy) -> None:
    with host.lead() as lead, host.store() as store:
        store.publisher = lead
        for file in ("/state", "/inbox"):
            proxy.fault("PUT", file, Fault.TOO_MANY, times=2)
        store.save({"a": JobState(phase=Phase.STOPPED, since_s=1.0)})
        host.shared.say_waiting(1.0)
        assert 4 == proxy.faults
        known = host.shared.state()
        assert known is not None
        assert "stopped" in str(known.tables["jobs"])
        assert [host.shared.place] == [one.place for one in host.shared.inbox().waiting]
        proxy.fault("PUT", "/state", Fault.TOO_MANY, times=1000)
        with pytest.raises(SupervisorError, match="429 Too Many Requests"):
            store.save({})


def test_a_store_that_limits_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Google takes one write of an object a second. Supervisors start there, and wait for their
    turns without the lock of the database: commands go on."""
    now, written = 1000.0, dict[str, float]()
    waits, refused, locked = list[float](), list[str](), list[float]()
    hosts = [Host(tmp_path / one, str(tmp_path / "state"), {}) for one in ("a", "b")]
    host, write = hosts[0], VersionedDirectory.write

    def limited(file: VersionedDirectory, content: bytes, before: str | None) -> str | None:
        if now - written.get(str(file), 0.0) < 1 and file.path.name == "state":
            refused.append(str(file))
            raise OSError(errno.EBUSY, "the store fails (429 Too Many Requests)", str(file))
        written[str(file)] = now
        return write(file, content, before)

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        (locked if _is_locked(host) else waits).append(seconds)

    clock = SimpleNamespace(monotonic=lambda: now, time=time.time, sleep=sleep)
    monkeypatch.setattr(VersionedDirectory, "write", limited)
    monkeypatch.setattr(leadership, "time", clock)
    for host in hosts:
        with host.lead() as lead, Supervisor.start(host.project, host.command, lead) as supervisor:
            for number in range(5):
                state = JobState(phase=Phase.STOPPED, since_s=number)
                supervisor._store.save({"a": state})

    assert len(refused) <= 4
    assert 1 <= len(refused)
    assert [] == locked
    assert 10 <= len(waits)


@pytest.mark.parametrize("jobs", [1, 5])
def test_many_jobs_need_no_more_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    """A new leader takes a project over with two writes of the state, and starts all due jobs with
    one more. So their number costs no time."""
    written, write = list[str](), VersionedDirectory.write

    def noted(file: VersionedDirectory, content: bytes, before: str | None) -> str | None:
        written.extend([file.path.name] if file.path.name == "state" else [])
        return write(file, content, before)

    monkeypatch.setattr(VersionedDirectory, "write", noted)
    host, names = Host(tmp_path / "a", str(tmp_path / "state"), {}), "abcde"[:jobs]
    with host.supervisor():
        pass
    for name in names:
        host.job(name, CONTINUOUS, UNTIL_TERM)
    written.clear()
    try:
        with host.supervisor() as supervisor:
            assert 2 == len(written)
            supervisor.tick(host.now)
            assert 3 == len(written)
            host.until_runs(supervisor, *names)
    finally:
        host.clear()


def _is_locked(host: Host) -> bool:
    """Whether a command would wait for the database."""
    path = supervisor_directory(host.storage) / "kfetch.db"
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as db:
        try:
            db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
    return False
