"""Bytecode for ``pyspark.zip``, from which Spark's Python processes import pyspark.

The archive comes with sources alone. So each process compiles them anew, which costs half a second
of CPU, five times before a query's first micro-batch.
"""

from __future__ import annotations

import compileall
import os
import py_compile
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from kfetch.errors import ArchiveError

__all__ = ["add_bytecode", "pyspark_archive"]

_UNCHECKED = py_compile.PycInvalidationMode.UNCHECKED_HASH
"""Files of an archive have no times to compare, and nobody edits them."""


def pyspark_archive() -> Path:
    """The archive of the Spark that a session of this environment starts (``SPARK_HOME``).

    Raises ArchiveError if pyspark is not installed.
    """
    if find_spec("pyspark") is None:
        raise ArchiveError("pyspark is not installed", action="install kfetch[spark]")
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home()) / "python" / "lib" / "pyspark.zip"


def add_bytecode(archive: Path) -> int:
    """Put this Python's bytecode beside the archive's sources. Return how many modules have it.

    The archive is replaced whole: package managers may share the old file with other environments,
    and running processes read it. Raises ArchiveError if that can't be done.
    """
    try:
        with tempfile.TemporaryDirectory(dir=archive.parent) as name:
            return _replace(archive, Path(name))
    except (OSError, BadZipFile) as error:
        raise ArchiveError(
            f"{archive} gets no bytecode ({error})",
            action="run this as the owner of pyspark's files, where the image or environment is "
            "built",
            file=str(archive),
        ) from error


def _replace(archive: Path, scratch: Path) -> int:
    files = scratch / "files"
    with ZipFile(archive) as sources:
        sources.extractall(files)
    compileall.compile_dir(files, quiet=1, force=True, legacy=True, invalidation_mode=_UNCHECKED)
    archive_with_bytecode = Path(shutil.make_archive(str(scratch / "new"), "zip", files))
    shutil.copymode(archive, archive_with_bytecode)
    os.replace(archive_with_bytecode, archive)
    return sum(1 for _ in files.rglob("*.pyc"))
