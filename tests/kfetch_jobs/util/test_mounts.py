"""On which file system a path lies, from the kernel's list of mounts."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from kfetch_jobs.util import mounts

MOUNTS = [
    ("/", "ext4"),
    ("/data", "nfs4"),
    ("/data/fast", "xfs"),
    ("/mnt/my share", "cifs"),
    ("/over", "nfs"),
    ("/over", "tmpfs"),
]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/database", "ext4"),
        ("/data/kfetch", "nfs4"),
        ("/data", "nfs4"),
        ("/data/fast/kfetch", "xfs"),
        ("/mnt/my share/kfetch", "cifs"),
        ("/over/kfetch", "tmpfs"),
    ],
)
def test_the_nearest_mount_counts(path: str, kind: str) -> None:
    """The deepest mount above a path has it; of two on one directory, the later one."""
    assert kind == mounts.kind_in(MOUNTS, Path(path))


def test_which_are_shared() -> None:
    """File systems of a network, of a host machine and in user space count as shared."""
    shared = ("nfs", "nfs4", "cifs", "9p", "virtiofs", "ceph", "fuse.sshfs", "fuse.gcsfuse")

    assert all(map(mounts.is_shared, shared))
    assert not any(map(mounts.is_shared, ("ext4", "xfs", "btrfs", "overlay", "tmpfs", "zfs", "")))


def test_without_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system has no such list, the file system is unknown, and counts as local."""

    def refuse(all: bool) -> None:
        raise FileNotFoundError("/proc/self/mounts")

    monkeypatch.setattr(psutil, "disk_partitions", refuse)
    assert "" == mounts.file_system_of(Path("/"))


def test_the_list_of_this_machine() -> None:
    """The kernel's own directory has a kind of its own."""
    assert "proc" == mounts.file_system_of(Path("/proc/self"))
