"""Compares a run with the origin of its checkpoint, and notes the run's own."""

from __future__ import annotations

import logging

from kfetch.errors import AccessRefused, KfetchError, OptionError
from kfetch_jobs.checkpoints import origin
from kfetch_jobs.config import Job
from kfetch_jobs.errors import JobsError

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
        reason = job.in_own_words(cause.message)
        log.warning("job %s: kfetch could not compare the Kafka cluster: %s", job.name, reason)
        return False
    origin.note_origin(job, clusters)
    return True


def _is_refusal(cause: KfetchError) -> bool:
    """Returns whether another try can't help: a wrong password, certificate, listener or option."""
    return isinstance(cause, AccessRefused | OptionError) or cause.where.get("retriable") is False
