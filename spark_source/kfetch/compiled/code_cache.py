"""Files with compiled code, kept between processes, and the checks that make them trustworthy.

The process runs these bytes as machine code. So it uses only directories and files that nobody but
this user or root can write, and only bytes with the right digest. The least recently used files are
deleted. Nothing here fails: without a usable directory every process compiles anew.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

__all__ = ["read", "write"]

_OTHERS_MAY_WRITE = 0o022
_DIGEST_BYTES = 32
_CODE_BYTES_MAX = 16 << 20  # the code has about 20 KB
_FILES_MAX = 16  # several releases, Pythons and CPUs may share a home directory
_SUFFIX, _UNFINISHED = ".o", ".new"
_UNFINISHED_S_MAX = 3600  # a writer takes milliseconds: an older file is of a killed process


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    if "KFETCH_CACHE" in environ:
        yield Path(environ["KFETCH_CACHE"])
    if "XDG_CACHE_HOME" in environ:
        yield Path(environ["XDG_CACHE_HOME"]) / "kfetch"
    elif "HOME" in environ:
        yield Path(environ["HOME"]) / ".cache" / "kfetch"
    yield Path(tempfile.gettempdir()) / f"kfetch-{os.getuid()}"


def _is_private(state: os.stat_result) -> bool:
    """Returns whether only this user can write there, or root, who built the image."""
    return state.st_uid in (os.getuid(), 0) and not state.st_mode & _OTHERS_MAY_WRITE


def _is_trusted(path: Path) -> bool:
    try:
        state = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(state.st_mode) and _is_private(state)


def read(name: str, environ: Mapping[str, str]) -> tuple[bytes, Path] | None:
    """Returns the code of that name and its directory; None if no trusted directory has it."""
    for directory in _candidates(environ):
        if _is_trusted(directory) and _is_trusted(directory / "code"):
            code = _checked(directory / "code" / name)
            if code is not None:
                return code, directory / "code"
    return None


def _checked(path: Path) -> bytes | None:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            content = file.read(_CODE_BYTES_MAX) if _is_private(os.fstat(file.fileno())) else b""
            with suppress(OSError):  # root's, or a read-only file system
                os.utime(file.fileno())
    except OSError:
        return None
    digest, code = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    return code if code and digest == hashlib.sha256(code).digest() else None


def write(name: str, code: bytes, environ: Mapping[str, str]) -> Path | None:
    """Writes code to the first usable directory and returns it; None if there is none."""
    for candidate in _candidates(environ):
        directory = candidate / "code"
        with suppress(OSError):
            candidate.mkdir(mode=0o755, parents=True, exist_ok=True)
            directory.mkdir(mode=0o755, exist_ok=True)
            if _is_trusted(candidate) and _is_trusted(directory):
                _replace(directory / name, hashlib.sha256(code).digest() + code)
                _prune(directory, directory / name)
                return directory
    return None


def _replace(path: Path, data: bytes) -> None:
    """Writes all of the file or none of it: several processes may start at the same time."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=_UNFINISHED)
    try:
        with open(handle, "wb") as file:
            os.fchmod(handle, 0o644)  # root builds an image, and another user runs it
            file.write(data)
        Path(temporary).replace(path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise


def _prune(directory: Path, newest: Path) -> None:
    """Deletes the least recently used files beyond the maximum, never ``newest``.

    A process that is reading a deleted file keeps its bytes. A later one compiles anew.
    """
    now = _used_at(newest)
    others = [path for path in directory.iterdir() if path.suffix == _SUFFIX and path != newest]
    deleted = sorted(others, key=_used_at, reverse=True)[_FILES_MAX - 1 :]
    unfinished = directory.glob(f"*{_UNFINISHED}")
    deleted += [path for path in unfinished if now - _used_at(path) > _UNFINISHED_S_MAX]
    for path in deleted:
        with suppress(OSError):
            path.unlink()


def _used_at(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:  # another process has pruned it
        return 0.0
