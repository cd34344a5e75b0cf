"""Files with compiled code, kept between processes, and the checks that make them trustworthy.

The process runs these bytes as machine code. So it uses only directories and files that nobody but
this user or root can write, and only bytes with the right digest. The least recently used files are
deleted. Nothing here fails: without a usable directory every process compiles anew.

The last directory, in /tmp, belongs to the cache alone. The agent's sockets need a directory that
nobody else can enter (``agent.home``), and code of root must be readable for others.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_VARIABLE = "KFETCH_CACHE"

_OTHERS_MAY_WRITE = 0o022
_DIGEST_BYTES = 32
_CODE_BYTES_MAX = 16 << 20  # the code has about 20 KB
_FILES_MAX = 64  # four for each release, Python and CPU that share a home directory
_SUFFIX, _UNFINISHED = ".o", ".new"
_UNFINISHED_S_MAX = 3600  # a writer takes milliseconds: an older file is of a killed process


class CodeOrigin(NamedTuple):
    """Where machine code came from."""

    compiled: bool = False
    """Whether this process compiled it, because no directory had it. That takes seconds."""
    directory: str = ""
    """The directory that has it now; empty if no directory can hold it."""
    named_directory_problem: str = ""
    """The directory that KFETCH_CACHE names, and why it can't hold it; empty if it can."""


def read_or_make(
    name: str, make: Callable[[], bytes], environ: Mapping[str, str]
) -> tuple[bytes, CodeOrigin]:
    """Returns the code of that name. If no trusted directory has it, ``make`` makes it."""
    cached = read(name, environ)
    code = cached[0] if cached else make()
    problem = fill_named_directory(name, code, environ)
    directory = cached[1] if cached else write(name, code, environ)
    return code, CodeOrigin(cached is None, str(directory or ""), problem)


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yields the directories in their order. An empty variable counts as unset."""
    if environ.get(_VARIABLE):
        yield _named_directory(environ)
    if environ.get("XDG_CACHE_HOME"):
        yield Path(environ["XDG_CACHE_HOME"]) / "kfetch"
    elif environ.get("HOME"):
        yield Path(environ["HOME"]) / ".cache" / "kfetch"
    with suppress(FileNotFoundError):  # no directory for temporary files is usable
        yield Path(tempfile.gettempdir()) / f"kfetch-code-{os.getuid()}"


def _named_directory(environ: Mapping[str, str]) -> Path:
    path = os.path.expanduser(environ[_VARIABLE])
    try:
        return Path(os.path.abspath(path))
    except OSError:  # the working directory is gone, as one of Spark's that was cleaned up
        return Path(path)


def _is_private(state: os.stat_result) -> bool:
    """Returns whether only this user can write there, or root, who built the image."""
    return _is_ours(state) and not state.st_mode & _OTHERS_MAY_WRITE


def _is_ours(state: os.stat_result) -> bool:
    return state.st_uid in (os.getuid(), 0)


def _is_trusted(path: Path) -> bool:
    try:
        _check_trust(path)
    except OSError:
        return False
    return True


def _check_trust(path: Path) -> None:
    """Raises OSError with a reason if another user could change what lies in a directory."""
    state = path.lstat()
    if not stat.S_ISDIR(state.st_mode):
        raise OSError(errno.ENOTDIR, "it is a link, or no directory", path)
    if not _is_private(state):
        reason = "other users can write to it" if _is_ours(state) else "it is another user's"
        raise OSError(errno.EPERM, reason, path)


def read(name: str, environ: Mapping[str, str]) -> tuple[bytes, Path] | None:
    """Returns the code of that name and its directory; None if no trusted directory has it."""
    for directory in _candidates(environ):
        code = _read_from(directory, name)
        if code is not None:
            return code, directory / "code"
    return None


def _read_from(directory: Path, name: str) -> bytes | None:
    if _is_trusted(directory) and _is_trusted(directory / "code"):
        return _checked(directory / "code" / name)
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
        with suppress(OSError):
            return _write_to(candidate, name, code)
    return None


def fill_named_directory(name: str, code: bytes, environ: Mapping[str, str]) -> str:
    """Writes code to the directory that KFETCH_CACHE names, if it lacks the code.

    So an image gets the code even if another directory of its builder has it.

    Returns the path and the reason if that is impossible; empty otherwise, or without KFETCH_CACHE.
    """
    if not environ.get(_VARIABLE):
        return ""
    directory = _named_directory(environ)
    if _read_from(directory, name) is None:
        try:
            _write_to(directory, name, code)
        except OSError as cause:
            return f"{cause.filename or directory} ({cause.strerror})"
    return ""


def _write_to(candidate: Path, name: str, code: bytes) -> Path:
    """Writes code below a directory and returns its directory. Raises OSError."""
    directory = candidate / "code"
    for path in (candidate, directory):
        _make(path)
        _check_trust(path)
    _replace(directory / name, hashlib.sha256(code).digest() + code)
    _prune(directory, directory / name)
    return directory


def _make(path: Path) -> None:
    """Creates a directory with mode 0755. One that exists stays as it is."""
    try:
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as cause:  # it may name a parent
        raise OSError(cause.errno, cause.strerror, path) from None


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
