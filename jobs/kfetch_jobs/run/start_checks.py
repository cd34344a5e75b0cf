"""What a run checks before its query: the checkpoint's origin, a replay, and earlier runs.

The last check needs Spark, which alone reads checkpoints and tables on other file systems and in
catalogs. For files of this machine, ``checkpoints.fresh_start`` has looked already, and Spark now
reads a table's whole log.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from kfetch.errors import AccessRefused, KfetchError, OptionError
from kfetch.storage.locations import has_keys, has_scheme, local_path
from kfetch.storage.open import stored_path
from kfetch_jobs.checkpoints import origin
from kfetch_jobs.checkpoints.backup import Stage, last_move
from kfetch_jobs.checkpoints.checkpoint import read_checkpoint
from kfetch_jobs.checkpoints.fresh_start import check_queries, lost_offsets
from kfetch_jobs.checkpoints.location import movable_path, queries_of
from kfetch_jobs.checkpoints.log_starts import unreadable
from kfetch_jobs.config import Job, TableLocation
from kfetch_jobs.config.cluster_paths import cluster_path_mistakes
from kfetch_jobs.errors import ConfigError, JobsError, RecordsLost
from kfetch_jobs.run.dataframes import user_mistakes
from kfetch_jobs.run.straight import needs_delta
from kfetch_jobs.run.tables import existing_table, last_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("kfetch_jobs.run")


def check_origin(job: Job) -> bool:
    """Compare environment and Kafka clusters with the checkpoint's note, and write the note.

    Returns False if the brokers do not tell their cluster. The run then starts nevertheless,
    because its query waits for the brokers. The source still compares topic ids.

    Raises ConfigError for another environment or another cluster. Raises the source's error if the
    brokers refuse the job: Spark would fail later, after more log-ins.
    """
    origin.check_environment(job)
    try:
        clusters = origin.cluster_ids(job)
    except JobsError:
        raise
    except KfetchError as cause:
        if _is_refusal(cause):
            raise job.error(f"job {job.name}", cause) from cause
        reason = job.user_sentence(cause.message)
        log.warning("job %s: kfetch could not compare the Kafka cluster: %s", job.name, reason)
        return False
    origin.note_origin(job, clusters)
    return True


def _is_refusal(cause: KfetchError) -> bool:
    """Returns whether another try can't help: a wrong password, certificate, listener or option."""
    return isinstance(cause, AccessRefused | OptionError) or cause.where.get("retriable") is False


def check_replay(job: Job) -> None:
    """Raises RecordsLost if records of the job's last replay have expired before it ran.

    The replay has deleted their rows. With ``failOnDataLoss=true``, the source itself fails for
    expired records. With ``false`` it would go on, and the rows would be lost without a word.

    Raises the source's error if the brokers do not answer. Asks them only if the job has not run
    since the replay, and only about sources with ``failOnDataLoss=false``.
    """
    path = movable_path(job)
    move = last_move(path) if path else None
    if path is None or move is None or not move.tables or move.stage is not Stage.DONE:
        return
    planned = read_checkpoint(path).planned
    if planned is None or planned.number != move.batch:
        return
    views = [view for view in job.file.views() if not job.parsed_options(view).fail_on_data_loss]
    if gaps := unreadable(job, views, move.ranges, move.topic_ids):
        more = f" ({len(gaps) - 1} more partitions have such offsets)" if len(gaps) > 1 else ""
        raise RecordsLost(
            f"job {job.name}: {gaps[0]}{more}. The replay has deleted their rows: restore them "
            f"with kfetch offsets undo {job.name} --execute"
        )


def check_new_query(spark: SparkSession, job: Job) -> None:
    """Raises ConfigError if the job would start anew although it has run before.

    It also raises ConfigError if Hadoop's own configuration puts paths on a file system that the
    job's files do not name, or if spark-submit names a cluster whose machines may not see them.
    """
    _check_file_system(spark, job)
    if wrong := [*cluster_path_mistakes(job, str(spark.sparkContext.master))]:
        raise ConfigError(*wrong)
    if _has_offsets(spark, job):
        origin.note_run(job, {})
        return
    if job.file.sink.repeatRows:
        return
    sentence = lost_offsets(job)
    with user_mistakes(job, "sink"):
        for table in job.tables:
            sentence = sentence or check_queries(job, table, _queries(spark, job, table))
    if sentence:
        raise ConfigError(sentence)


def _queries(spark: SparkSession, job: Job, table: TableLocation) -> Collection[str]:
    """Returns the ids of the queries that have written to a table."""
    if needs_delta(job):
        return last_batches(existing_table(spark, table))
    place = stored_path(str(table.path), job.spark)
    return queries_of(place) if place else ()


def _check_file_system(spark: SparkSession, job: Job) -> None:
    default = str(spark._jsc.hadoopConfiguration().get("fs.defaultFS"))
    known_local = local_path("/", job.spark) is not None
    paths = [job.checkpoint, *(table.path for table in job.tables if table.path)]
    if known_local and not (default.startswith("file:") or all(map(has_scheme, paths))):
        shown = "another file system" if has_keys(default) else default
        raise ConfigError(
            f"job {job.name}: Hadoop's configuration puts paths without a scheme on {shown}, and "
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
