"""Counts the rows of the Delta table with Spark, after the job has ended."""

from __future__ import annotations

from pathlib import Path

from kfetch_jobs.config import Job
from kfetch_jobs.demo.summary import Counts
from kfetch_jobs.jvm.spark import session

_COUNT = """
SELECT count(*) AS rows,
       count(DISTINCT partition, offset) AS positions,
       count(DISTINCT event_id) FILTER (WHERE event_id >= 0 AND event_id < {produced}) AS events
FROM {{table}}
"""


def count(job: Job, directory: Path, *, produced: int, in_log: int) -> Counts:
    """Count the rows of the job's table.

    ``produced`` and ``in_log`` are the numbers of events that the producer and the broker have
    counted. Spark writes its log into ``directory``.
    """
    with session(job.spark, name="count", log=directory / "count" / "spark.log") as spark:
        table = spark.read.format("delta").load(str(job.target))
        row = spark.sql(_COUNT.format(produced=int(produced)), table=table).first()
        assert row is not None  # an aggregate has one row
        return Counts(
            produced=produced,
            in_log=in_log,
            rows=row["rows"],
            positions=row["positions"],
            events=row["events"],
        )
