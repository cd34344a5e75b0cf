"""On which file system a path lies, from the kernel's list of mounts."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfetch_jobs.util import mounts

MOUNTS = r"""22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:26 / /data rw - nfs4 nas:/data rw,vers=4.2
31 30 0:27 / /data/fast rw master:1 propagate_from:2 - xfs /dev/vdb rw
32 22 0:28 / /mnt/my\040share rw - cifs //nas/share rw
33 22 0:29 / /over rw - nfs nas:/old rw
34 33 0:30 / /over rw - tmpfs tmpfs rw
damaged
"""


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
    monkeypatch.setattr(mounts, "_MOUNTS", Path("/does/not/exist"))

    assert "" == mounts.file_system_of(Path("/"))
