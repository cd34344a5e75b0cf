"""Of several writers of a file, one makes the next version: on a disk, and in a store."""

from __future__ import annotations

import errno
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from kfetch.storage import versions
from kfetch.storage.objects import ObjectPath
from kfetch.storage.open import stored_path, versioned
from kfetch.storage.versions import VersionedDirectory, VersionedFile, VersionedObject
from tests.store import Store

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])


@pytest.fixture(
    params=["disk", "disk without links", pytest.param("store", marks=pytest.mark.store)]
)
def file(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> VersionedFile:
    """A file that does not exist yet, behind a directory that does not exist yet."""
    if request.param == "store":
        store: Store = request.getfixturevalue("store")
        return versioned(store.path(f"{tmp_path.name}/ck.lease"))
    if request.param == "disk without links":
        monkeypatch.setattr(os, "link", _no_links)
    return VersionedDirectory(tmp_path / "new" / "ck.lease")


def _no_links(*_: object) -> None:
    raise OSError(errno.EPERM, "Operation not permitted")


def test_the_first_version(file: VersionedFile) -> None:
    """One writer creates it. Another one is refused, and sees it."""
    assert file.read() is None
    token = file.write(b"one", None)
    assert token is not None
    assert file.write(b"other", None) is None
    assert file.read() == versions.Version(token, b"one")


def test_the_next_version(file: VersionedFile) -> None:
    """It replaces only the version that the writer names."""
    first = file.write(b"one", None)
    second = file.write(b"two", first)
    assert second not in (None, first)
    for before in (None, first):
        assert file.write(b"other", before) is None
    assert file.read() == versions.Version(str(second), b"two")


def test_a_write_whose_answer_was_lost(file: VersionedFile) -> None:
    """The same write again is refused, and recognised by its content."""
    first = file.write(b"one", None)
    assert file.write(b"one", None) == first
    second = file.write(b"two", first)
    assert file.write(b"two", first) == second


def test_conditions_count(file: VersionedFile) -> None:
    """The file keeps its version when it is asked whether its conditions count."""
    token = file.write(b"one", None)
    assert file.is_conditional()
    assert file.read() == versions.Version(str(token), b"one")


def test_a_store_that_ignores_conditions(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is recognised: it carries out a write that it must refuse."""
    path = store.path("ignoring/ck.lease")
    VersionedObject(path).write(b"one", None)
    monkeypatch.setattr(ObjectPath, "write_if", _unconditional)
    assert not VersionedObject(path).is_conditional()


def _unconditional(path: ObjectPath, content: bytes, _: str | None) -> str:
    return str(path.store.put(path.key, content)["e_tag"])


def test_many_writers(file: VersionedFile) -> None:
    """Of eight threads that write behind the same version, one succeeds, in each of ten rounds."""
    token: str | None = None
    for number in range(10):
        answers: list[str | None] = [None] * 8
        start = threading.Barrier(8)

        def write(
            me: int,
            *,
            round_: int = number,
            before: str | None = token,
            start: threading.Barrier = start,
            answers: list[str | None] = answers,
        ) -> None:
            start.wait(60)
            answers[me] = file.write(f"{round_} {me}".encode(), before)

        threads = [threading.Thread(target=write, args=(me,)) for me in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        [winner] = [me for me, answer in enumerate(answers) if answer is not None]
        present = file.read()
        assert present == versions.Version(str(answers[winner]), f"{number} {winner}".encode())
        token = answers[winner]


def test_what_a_killed_writer_leaves(tmp_path: Path) -> None:
    """Its hidden file goes some versions later, because no living writer needs that long."""
    file = VersionedDirectory(tmp_path / "ck.lease")
    token, left = file.write(b"0", None), file.path / ".000000000002.x.tmp"
    (tmp_path / "ck.lease" / left.name).write_text("half")
    for number in range(1, 20):
        if number == 5:
            assert left in list(file.path.iterdir())
        token = file.write(str(number).encode(), token)

    assert left not in list(file.path.iterdir())
    assert file.read() == versions.Version(str(token), b"19")


def test_a_writer_that_was_asleep(tmp_path: Path) -> None:
    """It is refused although the name of its version is free again, and its file goes."""
    file = VersionedDirectory(tmp_path / "ck.lease")
    token = first = file.write(b"0", None)
    for number in range(1, 30):
        token = file.write(str(number).encode(), token)
    kept = sorted(os.listdir(file.path))
    assert file.write(b"late", first) is None
    assert sorted(os.listdir(file.path)) == kept
    assert file.read() == versions.Version(str(token), b"29")


def test_few_versions_stay(tmp_path: Path) -> None:
    """A lease of weeks is a handful of files."""
    file = VersionedDirectory(tmp_path / "ck.lease")
    token: Any = None
    for number in range(100):
        token = file.write(str(number).encode(), token)
    assert 8 == len(os.listdir(file.path))


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has written two versions goes on in their blocks. Who has not is refused."""
    file = VersionedDirectory(tmp_path / "ck.lease")
    token: Any = file.write(b"a longer first version", None)
    token = file.write(b"two", token)
    monkeypatch.setattr(tempfile, "mkstemp", _full)
    for number in range(3, 30):
        token = file.write(str(number).encode(), token)
        assert file.read() == versions.Version(str(number), str(number).encode())
    with pytest.raises(OSError, match="No space"):
        VersionedDirectory(file.path).write(b"other", token)
    assert file.write(b"late", "2") is None
    assert file.read() == versions.Version("29", b"29")


def _full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_read_while_versions_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that finds its file gone reads the newer one."""
    file = VersionedDirectory(tmp_path / "ck.lease")
    first = file.write(b"one", None)
    list_, calls = os.listdir, iter([["000000000001"]])
    file.write(b"two", first)
    os.unlink(file.path / "000000000001")
    monkeypatch.setattr(os, "listdir", lambda path: next(calls, None) or list_(path))
    assert file.read() == versions.Version("2", b"two")


def test_a_directory_that_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody removes the lease right behind a write. The writer has not written it."""
    file = VersionedDirectory(tmp_path / "ck.lease")
    first = file.write(b"one", None)
    monkeypatch.setattr(os, "listdir", lambda _: [])
    assert file.write(b"two", first) is None


def test_a_file_system_without_modes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version needs none."""
    monkeypatch.setattr(os, "fchmod", _no_links)
    assert "1" == VersionedDirectory(tmp_path / "ck.lease").write(b"one", None)


def test_a_disk_that_becomes_full_without_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty version would count as that of another process. It goes, and the next try writes."""
    file = VersionedDirectory(tmp_path / "ck.lease")
    monkeypatch.setattr(os, "link", _no_links)
    first = file.write(b"one", None)
    open_ = os.open

    def onto_a_full_disk(path: Any, flags: int, mode: int = 0o777, **more: Any) -> int:
        handle = open_(path, flags, mode, **more)
        if str(path).endswith("2"):
            os.close(handle)
            return open_("/dev/full", os.O_WRONLY)
        return handle

    with monkeypatch.context() as full:
        full.setattr(os, "open", onto_a_full_disk)
        with pytest.raises(OSError, match="No space"):
            file.write(b"two", first)
    assert "2" == file.write(b"two", first)


def test_a_missing_bucket(store: Store) -> None:
    """The error says so. It does not count as another writer's version."""
    nobodys = store.uri.replace("lake", "nobodys")
    path = stored_path(f"{nobodys}/ck.lease", store.settings)
    assert isinstance(path, ObjectPath)
    with pytest.raises(FileNotFoundError, match=f"{nobodys} does not exist"):
        VersionedObject(path).write(b"one", None)


def test_a_power_cut(file: VersionedFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """The content of a version is on the disk before its name is complete, also on a full disk."""
    if not (isinstance(file, VersionedDirectory) and isinstance(file.path, Path)):
        pytest.skip("a store answers once it has the content")
    flushed: set[int] = set()
    fsync = os.fsync

    def note(handle: int) -> None:
        fsync(handle)
        flushed.add(os.fstat(handle).st_size)

    monkeypatch.setattr(os, "fsync", note)
    token = file.write(b"one", None)
    token = file.write(b"twelve", token)
    assert {3, 6} == flushed
    if os.link is not _no_links:
        monkeypatch.setattr(tempfile, "mkstemp", _full)
        file.write(b"four", token)
        assert {3, 6, 4} == flushed


def test_when_a_version_was_written(file: VersionedFile) -> None:
    """Each version tells it, by the clock of the disk or of the store."""
    before = time.time()
    file.write(b"one", None)
    version = file.read()
    assert version is not None
    assert before - 1 <= version.written_s <= time.time() + 1
