"""The free space of a file system, and when it is short."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfetch_jobs.util.disk_space import DiskSpace
from kfetch_jobs.util.files import read_disk_space

GIB = 1 << 30


@pytest.mark.parametrize(
    ("free_gib", "size_gib", "short"),
    [(1, 100, True), (5, 100, False), (9, 1000, True), (11, 1000, False), (0, 0, False)],
)
def test_short(free_gib: int, size_gib: int, short: bool) -> None:
    """A twentieth of a small disk, or 10 GiB of a large one."""
    assert short is DiskSpace(free_bytes=free_gib * GIB, size_bytes=size_gib * GIB).short


def test_a_directory_that_does_not_exist_yet(tmp_path: Path) -> None:
    """A checkpoint before its first run has the space of the directory above."""
    space = read_disk_space(tmp_path / "not" / "yet")

    assert space is not None
    assert 0 <= space.free_bytes <= space.size_bytes


def test_a_file_in_the_way(tmp_path: Path) -> None:
    """Where the system does not tell, nothing is known."""
    (tmp_path / "file").touch()

    assert read_disk_space(tmp_path / "file" / "below") is None
