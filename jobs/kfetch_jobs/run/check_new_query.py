"""Looks with Spark, before a query without offsets starts, whether the job has run before.

Spark alone reads checkpoints and tables on other file systems and in catalogs. For files of this
machine, ``checkpoints.fresh_start`` has looked already, and Spark now reads a table's whole log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kfetch_jobs.checkpoints.fresh_start import check_queries, lost_offsets
from kfetch_jobs.checkpoints.origin import note_run
from kfetch_jobs.config import Job
from kfetch_jobs.config.locations import has_scheme, local_path
from kfetch_jobs.errors import ConfigError
from kfetch_jobs.run.dataframes import user_mistakes
from kfetch_jobs.run.tables import existing_table, last_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_new_query(spark: SparkSession, job: Job) -> None:
    """Raises ConfigError if the job would start anew although it has run before.

    It also raises ConfigError if Hadoop's own configuration puts paths on a file system that the
    job's files do not name.
    """
    _check_file_system(spark, job)
    if _has_offsets(spark, job):
        note_run(job, {})
        return
    if job.file.sink.repeatRows:
        return
    sentence = lost_offsets(job)
    with user_mistakes(job, "sink"):
        for table in job.tables:
            queries = last_batches(existing_table(spark, table))
            sentence = sentence or check_queries(job, table, queries)
    if sentence:
        raise ConfigError(sentence)


def _check_file_system(spark: SparkSession, job: Job) -> None:
    default = str(spark._jsc.hadoopConfiguration().get("fs.defaultFS"))
    known_local = local_path("/", job.spark) is not None
    paths = [job.checkpoint, *(table.path for table in job.tables if table.path)]
    if known_local and not (default.startswith("file:") or all(map(has_scheme, paths))):
        raise ConfigError(
            f"job {job.name}: Hadoop's configuration puts paths without a scheme on {default}, and "
            "the job's files do not: set spark.hadoop.fs.defaultFS under spark, or write file:/ in "
            "front of paths of this machine"
        )


def _has_offsets(spark: SparkSession, job: Job) -> bool:
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(job.checkpoint, "offsets")
    system = path.getFileSystem(spark._jsc.hadoopConfiguration())
    if not system.exists(path):
        return False
    return any(str(file.getPath().getName()).isdigit() for file in system.listStatus(path))
