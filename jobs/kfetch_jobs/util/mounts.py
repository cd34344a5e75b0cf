"""On which kind of file system a path lies, and whether other machines may share it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_SHARED = {
    *("9p", "afs", "beegfs", "ceph", "cifs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs"),
    *("nfs", "nfs4", "ocfs2", "prl_fs", "smb3", "smbfs", "vboxsf", "virtiofs"),
}
_ESCAPED = re.compile(r"\\([0-7]{3})")


def is_shared(kind: str) -> bool:
    """Returns whether a kind of file system is of a network, of a host machine or in user space.

    Memory that processes map from such files may differ between them.
    """
    return kind in _SHARED or kind.startswith("fuse")


def file_system_of(path: Path) -> str:
    """Returns the kind of a path's file system, as in ``ext4``; empty where it is unknown."""
    try:
        return kind_in(_MOUNTS.read_text(errors="surrogateescape"), path.resolve())
    except OSError:
        return ""


def kind_in(mounts: str, path: Path) -> str:
    """Returns the kind of the deepest mount above a path. ``mounts`` is mountinfo of proc(5)."""
    directories = {path, *path.parents}
    above = [(len(at.parts), kind) for at, kind in _mounts(mounts) if at in directories]
    # Of several mounts on one directory, the last one hides the others.
    deepest = max((depth for depth, _ in above), default=0)
    return next((kind for depth, kind in reversed(above) if depth == deepest), "")


def _mounts(text: str) -> Iterator[tuple[Path, str]]:
    for line in text.splitlines():
        before, separator, after = line.partition(" - ")
        if separator:
            point = _ESCAPED.sub(lambda code: chr(int(code[1], 8)), before.split(" ")[4])
            yield Path(point), after.split(" ")[0]
