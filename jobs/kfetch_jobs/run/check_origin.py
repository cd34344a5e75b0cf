"""Compares a run with the origin of its checkpoint, and notes the run's own."""

from __future__ import annotations

import logging

from kfetch.errors import KfetchError
from kfetch_jobs.checkpoints import origin
from kfetch_jobs.config import Job
from kfetch_jobs.errors import JobsError

__all__ = ["check_origin"]

log = logging.getLogger("kfetch_jobs.run")


def check_origin(job: Job) -> bool:
    """Compare environment and Kafka clusters with the checkpoint's note, and write the note.

    Returns False if the brokers do not tell their cluster. The run then starts nevertheless: its
    query waits for the brokers, and names what they refuse. The source still compares topic ids.
    Raises ConfigError for another environment or another cluster.
    """
    origin.check_environment(job)
    try:
        clusters = origin.cluster_ids(job)
    except JobsError:
        raise
    except KfetchError as cause:
        reason = job.redacted(cause.message)
        log.warning("job %s: kfetch could not compare the Kafka cluster: %s", job.name, reason)
        return False
    origin.note_origin(job, clusters)
    return True
