"""The origin of a checkpoint: the environment and the Kafka clusters of the runs that wrote it.

Each run notes them beside the checkpoint, in ``<checkpoint>.origin.json``, with the ids of topics.
Later runs and commands compare. An offset means nothing in another cluster, and a command without
``--env`` may see one. A checkpoint without a note gets it from its next run.

The note of a checkpoint in a store is in the store, so that all hosts know it. Each host has a copy
in its own storage.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kfetch.admin.brokers import cluster_id
from kfetch_jobs.checkpoints.location import (
    has_offsets,
    has_run,
    local_directory,
    note_path,
    stored_note,
)
from kfetch_jobs.checkpoints.topic_history import TopicIds, checkpoint_topic_ids, merged_ids
from kfetch_jobs.config import Job
from kfetch_jobs.config.yamlfile import display
from kfetch_jobs.errors import ConfigError, JobsError
from kfetch_jobs.progress.progress_file import last_batch
from kfetch_jobs.util.files import read_json, write_json

log = logging.getLogger("kfetch_jobs.run")

_RAN = "ran"
"""The key that says whether the checkpoint had offsets."""
_TOPIC_IDS = "topicIds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The note about a checkpoint."""

    checkpoint: str
    """Its path or URI."""
    environment: str | None
    """The environment of its runs; None without one."""
    clusters: Mapping[str, str] = field(default_factory=dict)
    """The ids of the Kafka clusters, by the names of the sources' views."""


def check_environment(job: Job) -> None:
    """Raises ConfigError if the checkpoint's runs had another environment than the job has now."""
    _copy_from_store(job)
    origin = _read(job)
    if origin is None or origin.environment == job.environment:
        return
    if origin.environment is None:
        project_file = display(job.shared[0].path)
        way_out = f"leave out --env, KFETCH_ENV and environment in {project_file}"
    else:
        way_out = f"add --env {origin.environment}"
    raise ConfigError(
        f"job {job.name} has run with {_described(origin.environment)}, and this is "
        f"{_described(job.environment)}: {way_out}; if the job belongs here from now on, "
        f"{_forget(job)}"
    )


def _described(environment: str | None) -> str:
    return "no environment" if environment is None else f"the environment {environment}"


def check_cluster(job: Job, view: str) -> None:
    """Raises ConfigError if a source's offsets in the checkpoint belong to another Kafka cluster.

    It asks the brokers, if there is a note. Raises KfetchError if they do not answer.
    """
    origin = _read(job)
    if origin is not None and origin.clusters.get(view):
        _compare(job, origin, {view: cluster_id(job.parsed_options(view))})


def cluster_ids(job: Job) -> dict[str, str]:
    """Ask for the id of each source's Kafka cluster, by view. An id may be empty.

    Raises KfetchError if no broker answers.
    """
    options = {view: job.parsed_options(view) for view in job.file.views()}
    by_servers = {one.bootstrap: one for one in options.values()}
    ids = {servers: cluster_id(one) for servers, one in by_servers.items()}
    return {view: ids[one.bootstrap] for view, one in options.items()}


def note_origin(job: Job, clusters: Mapping[str, str]) -> None:
    """Compare the clusters with the note, and write the note. Raises ConfigError for others."""
    origin = _read(job)
    if origin is not None:
        _compare(job, origin, clusters)
    before = origin.clusters if origin else {}
    known = {view: id_ for view, id_ in clusters.items() if id_}
    _write(
        job,
        {
            "version": 1,
            "checkpoint": job.checkpoint,
            "environment": job.environment,
            "clusters": {**before, **known},
            "tables": [str(table) for table in job.appended_tables],
            # for ``offsets replay``: Spark removes old micro-batches
            _TOPIC_IDS: _listed([noted_topic_ids(job), _checkpoint_ids(job)]),
            _RAN: bool(noted_runs(job)) or (local_directory(job) is not None and has_run(job)),
            # and "tables": for a job that takes this one's place
            "topics": sorted({one for view in job.file.views() for one in job.named_topics(view)}),
        },
    )


def _checkpoint_ids(job: Job) -> TopicIds:
    local = local_directory(job)
    return checkpoint_topic_ids(local) if local else {}


def _compare(job: Job, origin: Origin, clusters: Mapping[str, str]) -> None:
    for view, id_ in clusters.items():
        before = origin.clusters.get(view)
        if before and id_ and before != id_:
            servers = job.source_options(view)["kafka.bootstrap.servers"]
            raise ConfigError(
                f"job {job.name}, source {view}: its checkpoint has offsets of the Kafka cluster "
                f"{before}, and {servers} is the cluster {id_}: check --env and bootstrap.servers, "
                "or give the job a new checkpoint, with sink.repeatRows: true; if you have deleted "
                f"the checkpoint, or the offsets are right in this cluster, {_forget(job)}"
            )


def note_run(job: Job, ids: TopicIds) -> None:
    """Note that the checkpoint has offsets, of topics with these ids."""
    note = read_json(note_path(job))
    after = {**note, _RAN: True, _TOPIC_IDS: _listed([_topic_ids(note), ids])}
    if note and note != after:
        _write(job, after)


def _write(job: Job, note: Mapping[str, Any]) -> None:
    """Write the note. If a store fails, this host has it, and its next run writes it again."""
    _write_copy(job, note)
    if (stored := stored_note(job)) is not None:
        try:
            stored.write_text(json.dumps(note, indent=2))
        except OSError as cause:
            log.warning("%s can't be written: %s", stored, cause.strerror)


def _write_copy(job: Job, note: Mapping[str, Any]) -> None:
    path = note_path(job)
    path.parent.mkdir(parents=True, exist_ok=True)
    # ``lag`` and ``offsets show`` of other users compare too. An empty note would stop the job.
    write_json(path, note, everybody_reads=True, lasting=True)


def _copy_from_store(job: Job) -> None:
    """Bring this host's copy up to date. What only this host knows of earlier runs stays.

    Raises JobsError if the note in the store can't be used. One request.
    """
    if (stored := stored_note(job)) is None:
        return
    own = read_json(note_path(job))
    try:
        note = json.loads(stored.read_bytes())
        ids, ran = _listed(map(_topic_ids, (own, note))), own.get(_RAN) or note.get(_RAN)
        both = {**own, **note, _TOPIC_IDS: ids, _RAN: bool(ran)}
    except FileNotFoundError:  # no run of this version yet
        return
    except OSError as cause:
        raise JobsError(f"{cause.filename} can't be used: {cause.strerror}") from None
    except (ValueError, TypeError, AttributeError) as cause:
        raise JobsError(
            f"{stored} can't be used ({cause}): remove it, and the job's next run writes it again"
        ) from None
    if both != own:
        with suppress(PermissionError):  # another user's storage: such a user moves no offsets
            _write_copy(job, both)


def _forget(job: Job) -> str:
    """How a user moves a job for good. A removed note would forget the topics that it has read."""
    return f"delete the keys environment and clusters in {_notes(job)}"


def _notes(job: Job) -> str:
    """The files of the note, for people."""
    stored = stored_note(job)
    return f"{stored} and {note_path(job)}" if stored else str(note_path(job))


def noted_topic_ids(job: Job) -> TopicIds:
    """Returns the ids of the topics that the job's runs have read, as far as the note has them."""
    return _topic_ids(read_json(note_path(job)))


def _topic_ids(note: Mapping[str, Any]) -> TopicIds:
    noted = note.get(_TOPIC_IDS)
    if not isinstance(noted, dict):
        return {}
    return {str(topic): frozenset(map(str, ids)) for topic, ids in noted.items()}


def _listed(parts: Iterable[TopicIds]) -> dict[str, list[str]]:
    return {topic: sorted(ids) for topic, ids in sorted(merged_ids(parts).items())}


def noted_runs(job: Job) -> str:
    """Names the files of the note if it tells that the checkpoint had offsets; else nothing.

    Notes of older versions do not tell. Then the job's progress does.
    """
    note = read_json(note_path(job))
    ran = note.get(_RAN, bool(note) and last_batch(job.directory) is not None)
    return f"the note in {_notes(job)}" if ran else ""


def _read(job: Job) -> Origin | None:
    """The note; None without one, or if it is about a checkpoint that is no more.

    What a user has deleted from it fits the job, see ``_forget``.
    """
    path, local = note_path(job), local_directory(job)
    if local is not None and not has_offsets(local):
        return None
    try:
        note = json.loads(path.read_text())
        origin = Origin(
            checkpoint=note["checkpoint"],
            environment=note.get("environment", job.environment),
            clusters={str(view): str(id_) for view, id_ in note.get("clusters", {}).items()},
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as cause:
        raise JobsError(
            f"{path} can't be used ({cause}): remove it, and the job's next run writes it again"
        ) from None
    # A local directory may have been moved with its note. Remote ones differ by their URIs.
    return origin if local is not None or origin.checkpoint == job.checkpoint else None
