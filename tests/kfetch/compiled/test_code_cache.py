"""The code cache: its directories, the trust in them, and its size."""

from __future__ import annotations

import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kfetch.compiled import code_cache
from tests.kfetch.compiled.helpers import cache_environ

CODE = b"\x7fELF and so on"


def test_places_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """KFETCH_CACHE comes before XDG_CACHE_HOME, that before HOME, and that before /tmp."""
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    environ = {name: str(tmp_path / name) for name in ("KFETCH_CACHE", "XDG_CACHE_HOME", "HOME")}
    directories = []
    for name in [*environ, "none"]:
        directories.append(code_cache.write("loops.o", CODE, environ))
        assert (CODE, directories[-1]) == code_cache.read("loops.o", environ)
        environ.pop(name, None)

    expected = ["KFETCH_CACHE", "XDG_CACHE_HOME/kfetch", "HOME/.cache/kfetch"]
    expected.append(f"tmp/kfetch-code-{os.getuid()}")
    assert [tmp_path / name / "code" for name in expected] == directories


def test_a_relative_path_without_a_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark deletes the directories of sessions. The cache then is in the next place."""
    gone = tmp_path / "session"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    environ = {"KFETCH_CACHE": "relative", "HOME": str(tmp_path)}
    directory = tmp_path / ".cache" / "kfetch" / "code"

    assert code_cache.read("loops.o", environ) is None
    assert directory == code_cache.write("loops.o", CODE, environ)
    assert (CODE, directory) == code_cache.read("loops.o", environ)
    problem = code_cache.fill_named_directory("loops.o", CODE, environ)
    assert "relative (No such file or directory)" == problem


@pytest.mark.parametrize("level", ["cache", "cache/code", "cache/code/loops.o"])
@pytest.mark.parametrize("flaw", ["others may write", "another user's", "root's"])
def test_place_must_be_private(
    tmp_path: Path, flaw: str, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code runs only from where nobody but this user, or root, can write."""
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    environ = cache_environ(tmp_path)
    code_cache.write("loops.o", CODE, environ)
    if flaw == "others may write":
        (tmp_path / level).chmod(0o777)
    owner = {"another user's": os.getuid() + 1, "root's": 0}.get(flaw)
    if owner is not None:
        _owned(monkeypatch, tmp_path / level, owner)
    cached = code_cache.read("loops.o", environ)
    again = code_cache.write("loops.o", CODE, environ)

    assert (cached is not None) == (flaw == "root's")
    elsewhere = flaw != "root's" and level != "cache/code/loops.o"
    assert (again == tmp_path / "tmp" / f"kfetch-code-{os.getuid()}" / "code") == elsewhere


def _owned(monkeypatch: pytest.MonkeyPatch, path: Path, owner: int) -> None:
    """That path belongs to another user, as far as the cache can see."""
    number, real = path.lstat().st_ino, code_cache._is_private

    def is_private(state: os.stat_result) -> bool:
        as_list = list(state[:10])
        if state.st_ino == number:
            as_list[4] = owner
        return real(os.stat_result(as_list))

    monkeypatch.setattr(code_cache, "_is_private", is_private)


def test_nowhere_to_keep_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a usable directory nothing is cached, and nothing fails."""
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "file"))
    environ = {name: str(tmp_path / "file") for name in ("KFETCH_CACHE", "HOME")}

    assert code_cache.write("loops.o", CODE, environ) is None
    assert code_cache.read("loops.o", environ) is None


def test_no_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full or read-only disk, no directory for temporary files is usable. Code is made anew,
    or comes from another place."""
    monkeypatch.setattr(tempfile, "gettempdir", _no_directory)
    code, origin = code_cache.read_or_make("loops.o", lambda: CODE, {})
    assert (CODE, "") == (code, origin.directory)

    assert tmp_path / ".cache/kfetch/code" == (
        code_cache.write("loops.o", CODE, {"HOME": str(tmp_path)})
    )


def _no_directory() -> str:
    raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp', '/']")


def test_an_empty_name_is_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty variable counts as unset: it does not mean the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    environ = dict.fromkeys(("KFETCH_CACHE", "XDG_CACHE_HOME", "HOME"), "")

    directory = tmp_path / "tmp" / f"kfetch-code-{os.getuid()}" / "code"
    assert directory == code_cache.write("loops.o", CODE, environ)


def test_a_tilde_is_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """KFETCH_CACHE may begin with ~, as for the jars of kfetch-jobs."""
    monkeypatch.setenv("HOME", str(tmp_path))

    directory = code_cache.write("loops.o", CODE, {"KFETCH_CACHE": "~/cache"})
    assert tmp_path / "cache" / "code" == directory


def test_the_named_directory_gets_code_from_elsewhere(tmp_path: Path) -> None:
    """KFETCH_CACHE is filled although another directory has the code: an image takes it along."""
    environ = {"HOME": str(tmp_path)}
    code_cache.write("loops.o", CODE, environ)
    environ |= cache_environ(tmp_path)

    assert "" == code_cache.fill_named_directory("loops.o", CODE, environ)
    assert (CODE, tmp_path / "cache" / "code") == code_cache.read("loops.o", environ)


@pytest.mark.parametrize(
    ("flaw", "reason"),
    [
        ("file above", "{path}/below (Not a directory)"),
        ("file", "{path} (File exists)"),
        ("link", "{path} (it is a link, or no directory)"),
        ("others may write", "{path} (other users can write to it)"),
        ("code of others", "{path}/code (other users can write to it)"),
    ],
)
def test_why_the_named_directory_is_not_used(tmp_path: Path, flaw: str, reason: str) -> None:
    """The reason names the directory, so that the user can repair it."""
    path = tmp_path / "cache"
    if flaw in ("file", "file above"):
        path.touch()
    elif flaw == "link":
        path.symlink_to(tmp_path)
    elif flaw == "others may write":
        path.mkdir()
        path.chmod(0o777)
    elif flaw == "code of others":
        (path / "code").mkdir(parents=True)
        (path / "code").chmod(0o777)
    environ = {"KFETCH_CACHE": str(path / "below" if flaw == "file above" else path)}

    problem = code_cache.fill_named_directory("loops.o", CODE, environ)
    assert reason.format(path=path) == problem


def test_old_code_makes_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that was used longest ago goes; what is read stays, whatever its age; so do other files,
    and a file that another process is about to finish."""
    monkeypatch.setattr(code_cache, "_FILES_MAX", 16)
    environ, others = cache_environ(tmp_path), ["README", "young.new", "old.new"]
    for number in range(16):
        directory = code_cache.write(f"{number}.o", CODE, environ)
        assert directory is not None
        os.utime(directory / f"{number}.o", (number, number))
    for name in others:
        (directory / name).write_text("")
    os.utime(directory / "old.new", (0, 0))
    assert code_cache.read("0.o", environ) is not None
    code_cache.write("16.o", CODE, environ)
    code_cache.write("17.o", CODE, environ)

    names = {path.name for path in directory.iterdir()}
    assert {f"{number}.o" for number in (0, *range(3, 18))} | {"README", "young.new"} == names


def test_pruning_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many writers at once: none fails or finds damaged code, and the bound holds in the end."""
    monkeypatch.setattr(code_cache, "_FILES_MAX", 16)
    environ = cache_environ(tmp_path)

    def write(number: int) -> bool:
        code_cache.write(f"{number}.o", CODE, environ)
        return code_cache.read(f"{number}.o", environ) in (None, (CODE, tmp_path / "cache/code"))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(write, range(200)))
    code_cache.write("last.o", CODE, environ)

    assert code_cache.read("last.o", environ) is not None
    assert len(list((tmp_path / "cache/code").iterdir())) == 16
