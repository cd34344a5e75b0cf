"""Jobs that write Delta tables: their files, their records, and what the tables have."""

from __future__ import annotations

from pathlib import Path

from kafka import KafkaProducer
from pyspark.sql import Row, SparkSession

from integration.streams import finish
from kfetch_jobs.config import Job
from kfetch_jobs.kafka import Cluster
from kfetch_jobs.run import delta_sink
from kfetch_jobs.run.tables import unfenced

DEAD = """\
source:
  cluster: main
  subscribe: {topic}
  decode:
    fields: id BIGINT, page STRING
  options: {{startingOffsets: earliest}}
transform: {code}:clicks
sink:
  path: table
  partitionBy: page
  deadLetters: {{path: dead}}
trigger: availableNow
"""


CODE = """\
def clicks(source):
    return source.select("event.*", "partition", "offset")
"""


MERGE = """\
source:
  cluster: main
  subscribe: {topic}
  decode:
    fields: id BIGINT, page STRING, gone BOOLEAN
  options: {{startingOffsets: earliest}}
transform:
  sql: SELECT event.*, partition, offset FROM source
sink:
  path: table
  mode: merge
  keys: id
  latestBy: offset
  deleteWhen: gone
trigger: availableNow
"""


def produce(kafka: Cluster, topic: str, *values: bytes | None) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    for value in values:
        producer.send(topic, key=b"k", value=value, partition=0)
    producer.close()


def written(directory: Path, code: str) -> str:
    """A module of the project, of another name in each test: Python keeps modules."""
    (directory / f"shop_{directory.name}.py").write_text(code)
    return f"shop_{directory.name}"


def drain(spark: SparkSession, made: Job) -> None:
    """Run the job over what there is."""
    finish(delta_sink.start(spark, made, unfenced))


def forget_last_commit(made: Job) -> None:
    """As if the process had died between Delta's commit and Spark's."""
    commits = [
        path for path in (Path(made.checkpoint) / "commits").iterdir() if path.name.isdigit()
    ]
    last = max(commits, key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


def rows(spark: SparkSession, path: Path) -> list[Row]:
    return spark.read.format("delta").load(str(path)).collect()
