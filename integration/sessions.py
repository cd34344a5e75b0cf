"""A Spark session for tests: kfetch-jobs' own, or a bare one for a Spark without Delta."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.master": "local[2]",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",  # 5 % less CPU than G1
    # As users have it. Other JVMs of the tests generate no classes: see ``class_archives``.
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}
_BARE = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.unix.domain.socket.enabled": "true",
}


def has_delta() -> bool:
    """Returns whether kfetch-jobs' Delta is made for the installed Spark."""
    requirements = map(Requirement, metadata.requires("kfetch-jobs") or ())
    allowed = next(one.specifier for one in requirements if one.name == "pyspark")
    return allowed.contains(metadata.version("pyspark"))


def needs_delta() -> pytest.MarkDecorator:
    """Skip a test if kfetch-jobs' Delta is not made for the installed Spark."""
    reason = "no Delta at hand is built for this Spark, and the test reads a Delta table"
    return pytest.mark.skipif(not has_delta(), reason=reason)


@contextmanager
def started(directory: Path) -> Iterator[SparkSession]:
    """Yields the session. Its log and its tables are below ``directory``."""
    if has_delta():
        from kfetch_jobs.jvm.spark import session

        settings = _SETTINGS | checkpoints_in_files()  # a bare session has Spark's default
        with session(settings, name="integration", log=directory / "log") as spark:
            yield spark
        return
    spark = bare(directory)
    try:
        yield spark
    finally:
        spark.stop()


def bare(
    directory: Path, master: str = "local[2]", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Returns a session without Delta. Its tables and other files are below ``directory``."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.appName("integration").config(
        map={**_SETTINGS, **_BARE, "spark.master": master, **(settings or {})}
    )
    builder = builder.config("spark.sql.warehouse.dir", str(directory / "warehouse"))
    spark = builder.config("spark.local.dir", str(directory / "tmp")).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def checkpoints_in_files(spark: str | None = None) -> dict[str, str]:
    """Returns settings for checkpoints on a local disk. Spark's default starts many processes.

    ``spark``: the version; default: the installed one.
    """
    old = (spark or metadata.version("pyspark")).startswith("4.0.")
    package = "org.apache.spark.sql.execution.streaming" + ("" if old else ".checkpointing")
    name = "spark.sql.streaming.checkpointFileManagerClass"
    return {name: f"{package}.FileSystemBasedCheckpointFileManager"}
