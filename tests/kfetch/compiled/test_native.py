"""The compiled loops: loaded from the cache or compiled, and able to stand alone."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import llvmlite.binding as llvm
import pytest

import kfetch
from kfetch.compiled import code_cache, interface, machine_code, native
from kfetch.errors import KfetchError
from kfetch.formats import loading
from kfetch.formats.face import FORMATS
from tests.kfetch.compiled.helpers import cache_environ


def test_kept_code_needs_no_numba(tmp_path: Path) -> None:
    """A process that finds compiled code in its cache decodes without importing numba."""
    ours = native.load()
    environ = cache_environ(tmp_path)
    cached = code_cache.read(native.code_name(), os.environ)
    assert cached is not None
    code_cache.write(native.code_name(), cached[0], environ)
    code = "import sys; sys.modules['numba'] = None\nfrom kfetch import decoding\n"
    ran = subprocess.run(
        [sys.executable, "-c", code + "print(decoding.load())"],
        env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip

    expected = code_cache.CodeOrigin(compiled=False, directory=f"{tmp_path}/cache/code")
    assert ("", f"{expected}\n") == (ran.stderr, ran.stdout)
    assert ours.origin.directory == str(cached[1])


@pytest.mark.parametrize("damage", ["none", "missing", "cut", "flipped", "empty", "a link"])
def test_damaged_code_is_compiled_anew(
    tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code whose digest is wrong never runs: it is compiled and replaced."""
    environ = cache_environ(tmp_path)
    cached = code_cache.read(native.code_name(), os.environ)
    assert cached is not None
    directory = code_cache.write(native.code_name(), cached[0], environ)
    assert directory is not None
    file = directory / native.code_name()
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
    monkeypatch.setattr(native, "_compile", lambda: cached[0])
    loops = native.load.__wrapped__()

    assert (damage != "none", str(directory)) == loops.origin[:2]
    assert data == file.read_bytes()
    assert not file.is_symlink()


def test_name_tells_what_the_code_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another CPU, other features, another llvmlite or Python: other code."""
    monkeypatch.delenv("NUMBA_CPU_NAME", raising=False)
    monkeypatch.delenv("NUMBA_CPU_FEATURES", raising=False)
    names = [native.code_name()]
    for name, value in (("NUMBA_CPU_NAME", "generic"), ("NUMBA_CPU_FEATURES", "+sse4.2")):
        monkeypatch.setenv(name, value)
        names.append(native.code_name())
    monkeypatch.setattr(machine_code.llvmlite, "__version__", "0.0.0")
    names.append(native.code_name())
    monkeypatch.setattr(machine_code.sys, "version_info", (3, 99, 0))
    names.append(native.code_name())

    assert len(names) == len(set(names))


GOOD = "".join(
    f"define i32 @{name}(ptr %r, ptr %e, {', '.join('i64' if p == 'int64' else 'ptr' for p in ps)})"
    " { ret i32 0 }\n"
    for name, ps in interface.PARAMETERS.items()
)


@pytest.mark.parametrize(
    "sources",
    [native.SOURCES, *(loading.sources(name) for name in FORMATS)],
)
def test_the_cache_key_covers_all_compiled_code(sources: tuple[Path, ...]) -> None:
    """Every module of kfetch that a source of the machine code imports is itself such a source."""
    package = Path(kfetch.__file__).parent
    imported = set()
    for source in sources:
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kfetch"):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                for name in (node.module, *names):
                    file = package.joinpath(*name.split(".")[1:]).with_suffix(".py")
                    imported |= {file} if file.is_file() else set()

    without_code = {package / "errors.py", package / "compiled" / "code_cache.py"}
    assert imported - set(sources) <= without_code


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GOOD + "declare ptr @PyErr_Occurred()", "calls PyErr_Occurred"),
        (GOOD.replace("(ptr %r, ptr", "(ptr"), r"numba calls list_batches with \(ptr, ptr, i64"),
    ],
)
def test_code_must_stand_alone(text: str, expected: str) -> None:
    """Code that calls Python, or that numba calls otherwise than we do, is refused unseen."""
    machine_code.check(llvm.parse_assembly(GOOD), interface.PARAMETERS)

    with pytest.raises(KfetchError, match=expected):
        machine_code.check(llvm.parse_assembly(text), interface.PARAMETERS)
