"""Bytecode for ``pyspark.zip``, from which Spark's Python processes import pyspark.

It comes with sources alone, so each process compiles them anew: half a second of CPU, five times
before a query's first micro-batch.
"""

from __future__ import annotations

import compileall
import os
import py_compile
import shutil
import tempfile
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from kfetch_jobs.errors import SparkError

__all__ = ["add_bytecode", "pyspark_archive"]

_UNCHECKED = py_compile.PycInvalidationMode.UNCHECKED_HASH
"""Files of an archive have no times to compare, and nobody edits them."""


def pyspark_archive() -> Path:
    """The archive of the Spark that a session of this environment starts (``SPARK_HOME``)."""
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home()) / "python" / "lib" / "pyspark.zip"


def add_bytecode(archive: Path) -> int:
    """Put this Python's bytecode beside the archive's sources; how many modules have it.

    The archive is replaced whole: package managers may share the old file with other environments,
    and running processes read it. Raises SparkError where that can't be done.
    """
    try:
        with tempfile.TemporaryDirectory(dir=archive.parent) as name:
            return _replace(archive, Path(name))
    except (OSError, BadZipFile) as error:
        raise SparkError(
            f"{archive} gets no bytecode ({error}): run this as the owner of pyspark's files, "
            "where the image or environment is built"
        ) from error


def _replace(archive: Path, place: Path) -> int:
    with ZipFile(archive) as sources:
        sources.extractall(place / "open")
    compileall.compile_dir(
        place / "open", quiet=1, force=True, legacy=True, invalidation_mode=_UNCHECKED
    )
    made = Path(shutil.make_archive(str(place / "made"), "zip", place / "open"))
    shutil.copymode(archive, made)
    os.replace(made, archive)
    return sum(1 for _ in (place / "open").rglob("*.pyc"))
