"""Files that several processes share."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import pytest

from kfetch_jobs.util.files import owner_only, sync, try_lock, write_json


def test_a_claim_is_exclusive_and_names_its_holder(tmp_path: Path) -> None:
    """Whoever comes second learns that the lock is held, and by which process."""
    path = tmp_path / "job" / "lock"
    with try_lock(path) as first, try_lock(path) as second:
        assert (True, False) == (first, second)
        assert str(os.getpid()) == path.read_text()
    with try_lock(path) as again:
        assert again


def test_a_lock_on_a_full_disk(tmp_path: Path) -> None:
    """It is held without its holder's pid. So what frees the disk can go on."""
    path = tmp_path / "lock"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with try_lock(path) as first, try_lock(path) as second:
            held = first, second
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (True, False) == held
    assert "" == path.read_text()


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP, errno.EINVAL])
def test_a_file_whose_mode_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Another user's, or one where files have no modes, is written all the same."""

    def refuses(handle: int, mode: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fchmod", refuses)
    with open(tmp_path / "log", "w", opener=owner_only) as file:
        file.write("told")
    assert (tmp_path / "log").read_text() == "told"


@pytest.mark.parametrize(("code", "fails"), [(errno.EINVAL, False), (errno.EIO, True)])
def test_a_file_system_without_fsync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, fails: bool
) -> None:
    """One that can't sync directories is passed over. An error of the disk is not."""

    def fsync(_: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fsync)
    if fails:
        with pytest.raises(OSError, match="Input/output error"):
            sync(tmp_path)
    else:
        sync(tmp_path)


def test_a_file_that_a_power_cut_leaves_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk has its text before its name, and its name before the call returns."""
    events: list[str] = []
    fsync, replace = os.fsync, os.replace

    def synced(handle: int) -> None:
        path = Path(f"/proc/self/fd/{handle}").readlink()
        events.append("directory" if path == tmp_path else path.read_text().strip())
        fsync(handle)

    def renamed(source: str, target: Path) -> None:
        events.append("renamed")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    write_json(tmp_path / "note", [1], None)
    assert ["renamed"] == events
    write_json(tmp_path / "note", [1], None, lasting=True)
    assert ["renamed", "[1]", "renamed", "directory"] == events
