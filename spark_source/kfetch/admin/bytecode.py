"""Adds bytecode to ``pyspark.zip``, from which Spark's Python processes import pyspark.

The archive has only source files, and every process compiles them again. That takes half a second
of CPU time. Spark starts five such processes before a query's first micro-batch.
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

_UNCHECKED = py_compile.PycInvalidationMode.UNCHECKED_HASH
"""Python does not compare the bytecode with its source: nobody edits files in an archive."""


def pyspark_archive() -> Path:
    """Returns the path of ``pyspark.zip`` in the Spark of this environment (``SPARK_HOME``).

    Raises ArchiveError if pyspark is not installed.
    """
    if find_spec("pyspark") is None:
        raise ArchiveError("pyspark is not installed", action="install kfetch[spark]")
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home()) / "python" / "lib" / "pyspark.zip"


def add_bytecode(archive: Path) -> int:
    """Compile the archive's sources with this Python. Returns the number of compiled modules.

    A new file replaces the archive. The old file does not change, because package managers may
    share it with other environments, and running processes read it. Raises ArchiveError if the
    archive can't be read or replaced.
    """
    try:
        with tempfile.TemporaryDirectory(dir=archive.parent) as name:
            return _replace(archive, Path(name))
    except (OSError, BadZipFile) as error:
        raise ArchiveError(
            f"kfetch can't add bytecode to {archive} ({error})",
            action="run this as the owner of pyspark's files, when you build the image or "
            "environment",
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
