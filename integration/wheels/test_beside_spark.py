"""The wheel beside a Spark that is there already, as on a platform: ``pip install``, then rows."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from integration.conftest import TopicFactory
from integration.records import numbered, write
from integration.sparks import VERSIONS
from integration.wheels.environment import Environment, uv
from kfetch_jobs.kafka import Cluster

pytestmark = [pytest.mark.integration, pytest.mark.long]

PROGRAM = """
import json, os, sys
from pyspark.sql import SparkSession
os.environ["PYSPARK_PYTHON"] = sys.executable
spark = SparkSession.builder.master("local[2]").getOrCreate()
options = {"kafka.bootstrap.servers": sys.argv[1], "subscribe": sys.argv[2]}
stream = spark.readStream.format("kfetch").options(**options, startingOffsets="earliest").load()
rows = stream.selectExpr("cast(value as string) as value")
table = rows.writeStream.format("memory").queryName("seen").trigger(availableNow=True)
table.start().awaitTermination()
batch = spark.read.format("kfetch").options(**options).load().selectExpr("cast(value as string)")
frames = (spark.table("seen"), batch)
print(json.dumps([sorted(row[0] for row in frame.collect()) for frame in frames]))
"""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_wheel_beside_a_spark(
    wheels: Path, kafka: Cluster, topic: TopicFactory, tmp_path: Path, version: str
) -> None:
    """An environment has this pyspark alone. The wheel comes beside it, pyspark stays as it was,
    and a stream and a batch have every record."""
    home = tmp_path / "venv"
    uv("venv", "--quiet", "--python", sys.executable, str(home))
    python = ("--quiet", "--python", str(home / "bin/python"))
    uv("pip", "install", *python, f"pyspark=={version}")
    began = time.monotonic()
    (wheel,) = wheels.glob("kfetch-*.whl")
    uv("pip", "install", *python, str(wheel))
    user = Environment(bin=home / "bin", install_s=time.monotonic() - began)
    name = topic(2)
    write(kafka, name, numbered("v", 100))

    began = time.monotonic()
    printed = user.run("python", "-c", PROGRAM, kafka.bootstrap_servers, name, cwd=tmp_path)

    took_s = time.monotonic() - began
    print(f"beside pyspark {version}: installed in {user.install_s:.1f} s, rows in {took_s:.1f} s")
    assert [numbered("v", 100)] * 2 == json.loads(printed.splitlines()[-1])
    assert f"pyspark=={version}" in user.packages()
