"""On which kind of file system a path lies, and whether other machines may share it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import psutil

_SHARED = {
    *("9p", "afs", "beegfs", "ceph", "cifs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs"),
    *("nfs", "nfs4", "ocfs2", "prl_fs", "smb3", "smbfs", "vboxsf", "virtiofs"),
}


def is_shared(kind: str) -> bool:
    """Returns whether a kind of file system is of a network, of a host machine or in user space.

    Memory that processes map from such files may differ between them.
    """
    return kind in _SHARED or kind.startswith("fuse")


def file_system_of(path: Path) -> str:
    """Returns the kind of a path's file system, as in ``ext4``; empty where it is unknown."""
    try:
        mounts = [(mount.mountpoint, mount.fstype) for mount in psutil.disk_partitions(all=True)]
        return kind_in(mounts, path.resolve())
    except OSError:
        return ""


def kind_in(mounts: Iterable[tuple[str, str]], path: Path) -> str:
    """Returns the kind of the deepest mount above a path.

    ``mounts`` are pairs of a directory and a kind. Of several mounts on one directory, the last one
    hides the others.
    """
    kinds = {Path(directory): kind for directory, kind in mounts}
    return next((kinds[above] for above in (path, *path.parents) if above in kinds), "")
