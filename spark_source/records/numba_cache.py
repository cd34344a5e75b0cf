"""A place for numba's compiled kernels that is ours alone, chosen before numba is imported.

numba would write beside the source, which is read-only in many deployments, and it unpickles what
it finds: so only a directory that belongs to this user is taken. It refuses to fail: without such a
directory every process compiles anew.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, MutableMapping
from pathlib import Path

__all__ = ["prepare"]

_OTHERS_MAY_WRITE = 0o022


def _candidates(environ: MutableMapping[str, str]) -> Iterator[Path]:
    if "KFETCH_CACHE" in environ:
        yield Path(environ["KFETCH_CACHE"])
    if "XDG_CACHE_HOME" in environ:
        yield Path(environ["XDG_CACHE_HOME"]) / "kfetch"
    elif "HOME" in environ:
        yield Path(environ["HOME"]) / ".cache" / "kfetch"
    yield Path(tempfile.gettempdir()) / f"kfetch-{os.getuid()}"


def _is_ours(path: Path) -> bool:
    """Make the directory if need be; true if this user, and nobody else, can write there."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = path.lstat()
    except OSError:
        return False
    private = state.st_uid == os.getuid() and not state.st_mode & _OTHERS_MAY_WRITE
    return private and os.access(path, os.W_OK | os.X_OK)


def prepare(environ: MutableMapping[str, str]) -> bool:
    """Set NUMBA_CACHE_DIR unless the user did; false if there is no place to cache in."""
    if "NUMBA_CACHE_DIR" in environ:
        return True
    for candidate in _candidates(environ):
        if _is_ours(candidate) and _is_ours(candidate / "numba"):
            environ["NUMBA_CACHE_DIR"] = str(candidate / "numba")
            return True
    return False
