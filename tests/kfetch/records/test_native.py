"""The compiled loops: kept between processes, trusted only where nobody else can write."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from kfetch.compiled import code_cache, layout, native
from kfetch.errors import KfetchError

CODE = b"\x7fELF and so on"


def place(tmp_path: Path) -> dict[str, str]:
    """Environment whose first place for code is below ``tmp_path``; the CPU as in this process."""
    cpu = {name: value for name, value in os.environ.items() if name.startswith("NUMBA_CPU_")}
    return cpu | {"KFETCH_CACHE": str(tmp_path / "cache")}


def test_kept_code_needs_no_numba(tmp_path: Path) -> None:
    """A process that finds compiled code in its cache decodes without importing numba."""
    ours = native.load()
    environ = place(tmp_path)
    kept = code_cache.read(native._name(), os.environ)
    assert kept is not None
    code_cache.write(native._name(), kept[0], environ)
    code = "import sys; sys.modules['numba'] = None\nfrom kfetch import decoding\n"
    ran = subprocess.run(
        [sys.executable, "-c", code + "print(*decoding.load())"],
        env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert ("", f"False {tmp_path}/cache/code\n") == (ran.stderr, ran.stdout)
    assert ours.directory == str(kept[1])


@pytest.mark.parametrize("damage", ["none", "missing", "cut", "flipped", "empty", "a link"])
def test_damaged_code_is_compiled_anew(
    tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code whose digest is wrong never runs: it is compiled and replaced."""
    environ = place(tmp_path)
    kept = code_cache.read(native._name(), os.environ)
    assert kept is not None
    directory = code_cache.write(native._name(), kept[0], environ)
    assert directory is not None
    file = directory / native._name()
    data = file.read_bytes()
    if damage in ("missing", "a link"):
        file.rename(tmp_path / "elsewhere")
    if damage == "a link":
        file.symlink_to(tmp_path / "elsewhere")
    if damage in ("cut", "flipped", "empty"):
        flipped = data[:999] + bytes([data[999] ^ 1]) + data[1000:]
        file.write_bytes({"cut": data[:-1], "flipped": flipped, "empty": b""}[damage])
    monkeypatch.setenv("KFETCH_CACHE", environ["KFETCH_CACHE"])
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(native, "_compile", lambda: kept[0])
    found = native.load.__wrapped__()

    assert (damage != "none", str(directory)) == (found.compiled, found.directory)
    assert data == file.read_bytes()
    assert not file.is_symlink()


def test_name_tells_what_the_code_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another CPU, other features, another llvmlite or Python: other code."""
    monkeypatch.delenv("NUMBA_CPU_NAME", raising=False)
    monkeypatch.delenv("NUMBA_CPU_FEATURES", raising=False)
    names = [native._name()]
    for name, value in (("NUMBA_CPU_NAME", "generic"), ("NUMBA_CPU_FEATURES", "+sse4.2")):
        monkeypatch.setenv(name, value)
        names.append(native._name())
    monkeypatch.setattr(native.llvmlite, "__version__", "0.0.0")
    names.append(native._name())
    monkeypatch.setattr(native.sys, "version_info", (3, 99, 0))
    names.append(native._name())

    assert len(names) == len(set(names))


def test_places_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """KFETCH_CACHE comes before XDG_CACHE_HOME, that before HOME, and that before /tmp."""
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    environ = {name: str(tmp_path / name) for name in ("KFETCH_CACHE", "XDG_CACHE_HOME", "HOME")}
    found = []
    for name in [*environ, "none"]:
        found.append(code_cache.write("loops.o", CODE, environ))
        assert (CODE, found[-1]) == code_cache.read("loops.o", environ)
        environ.pop(name, None)

    expected = ["KFETCH_CACHE", "XDG_CACHE_HOME/kfetch", "HOME/.cache/kfetch"]
    expected.append(f"tmp/kfetch-{os.getuid()}")
    assert [tmp_path / each / "code" for each in expected] == found


@pytest.mark.parametrize("level", ["cache", "cache/code", "cache/code/loops.o"])
@pytest.mark.parametrize("flaw", ["others may write", "another user's", "root's"])
def test_place_must_be_private(
    tmp_path: Path, flaw: str, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code runs only from where nobody but this user, or root, can write."""
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    environ = place(tmp_path)
    code_cache.write("loops.o", CODE, environ)
    if flaw == "others may write":
        (tmp_path / level).chmod(0o777)
    owner = {"another user's": os.getuid() + 1, "root's": 0}.get(flaw)
    if owner is not None:
        _owned(monkeypatch, tmp_path / level, owner)
    found = code_cache.read("loops.o", environ)
    again = code_cache.write("loops.o", CODE, environ)

    assert (found is not None) == (flaw == "root's")
    elsewhere = flaw != "root's" and level != "cache/code/loops.o"
    assert (again == tmp_path / "tmp" / f"kfetch-{os.getuid()}" / "code") == elsewhere


def _owned(monkeypatch: pytest.MonkeyPatch, path: Path, owner: int) -> None:
    """That path belongs to another user, as far as the cache can see."""
    number, real = path.lstat().st_ino, code_cache._is_private

    def seen(state: os.stat_result) -> bool:
        as_list = list(state[:10])
        if state.st_ino == number:
            as_list[4] = owner
        return real(os.stat_result(as_list))

    monkeypatch.setattr(code_cache, "_is_private", seen)


def test_nowhere_to_keep_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no directory can be made nothing is kept, and nothing fails."""
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "file"))
    environ = {name: str(tmp_path / "file") for name in ("KFETCH_CACHE", "HOME")}

    assert code_cache.write("loops.o", CODE, environ) is None
    assert code_cache.read("loops.o", environ) is None


def test_old_code_makes_way(tmp_path: Path) -> None:
    """Code that was used longest ago goes; what is read stays, whatever its age; so do other files,
    and a file that another process is about to finish."""
    environ, others = place(tmp_path), ["README", "young.new", "old.new"]
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

    found = {path.name for path in directory.iterdir()}
    assert {f"{number}.o" for number in (0, *range(3, 18))} | {"README", "young.new"} == found


def test_pruning_side_by_side(tmp_path: Path) -> None:
    """Many writers at once: none fails or finds damaged code, and the bound holds in the end."""
    environ = place(tmp_path)

    def write(number: int) -> bool:
        code_cache.write(f"{number}.o", CODE, environ)
        return code_cache.read(f"{number}.o", environ) in (None, (CODE, tmp_path / "cache/code"))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(write, range(200)))
    code_cache.write("last.o", CODE, environ)

    assert code_cache.read("last.o", environ) is not None
    assert len(list((tmp_path / "cache/code").iterdir())) == 16


GOOD = "".join(
    f"define i32 @{name}(ptr %r, ptr %e, {', '.join('i64' if p == 'int64' else 'ptr' for p in ps)})"
    " { ret i32 0 }\n"
    for name, ps in layout.PARAMETERS.items()
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GOOD + "declare ptr @PyErr_Occurred()", "calls PyErr_Occurred"),
        (GOOD.replace("(ptr %r, ptr", "(ptr"), r"numba calls list_batches with \(ptr, ptr, i64"),
    ],
)
def test_code_must_stand_alone(text: str, expected: str) -> None:
    """Code that calls Python, or that numba calls otherwise than we do, is refused unseen."""
    native._check(llvm.parse_assembly(GOOD))

    with pytest.raises(KfetchError, match=expected):
        native._check(llvm.parse_assembly(text))
