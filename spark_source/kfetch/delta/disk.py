"""Waits until the disk has a file: the log must not outlive the files that it names."""

from __future__ import annotations

import os
from pathlib import Path


def sync(file: Path, table: Path) -> None:
    """Wait until the disk has a file and the names on the way to it, from the table's directory on.

    After a power cut the disk has what was synced before it.
    """
    directories = [parent for parent in file.parents if parent.is_relative_to(table)]
    for path in (file, *directories):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
