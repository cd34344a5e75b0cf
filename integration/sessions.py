"""Spark for the integration tests: one way to build a session, in the tests' process or another."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from jobs.maven import jars

DELTA = "io.delta:delta-spark_4.2_2.13:4.4.0"


def session(name: str, directory: Path, *, cores: int = 2) -> SparkSession:
    """A quiet session on 127.0.0.1 that knows Delta; what it writes of its own goes below
    ``directory``."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    conf = {
        "spark.driver.memory": "2g",
        "spark.jars": ",".join(map(str, delta_jars())),
        "spark.local.dir": str(directory / "local"),
        "spark.log.level": "ERROR",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.appName(name).master(f"local[{cores}]")
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def delta_jars() -> list[Path]:
    """Delta's jars, without those that Spark ships itself."""
    shipped = {_artifact(jar) for jar in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    return [jar for jar in jars(DELTA) if _artifact(jar) not in shipped]


def _artifact(jar: Path) -> str:
    """``delta-storage`` of ``delta-storage-4.4.0.jar``."""
    return jar.stem.rpartition("-")[0]
