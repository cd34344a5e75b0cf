"""A job as it stands: its checkpoint, and its sources in Kafka; for ``plan`` and ``lag``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from uuid import UUID

from kfetch.errors import KfetchError
from kfetch.model import TopicPartition
from kfetch.offsets import Position
from kfetch.options import SourceOptions, Subscription, parse
from kfetch_jobs.checkpoints import files as checkpoints
from kfetch_jobs.checkpoints.files import Checkpoint
from kfetch_jobs.config import Job, Project
from kfetch_jobs.errors import JobsError
from kfetch_jobs.looks.source import KafkaReport, query_kafka
from kfetch_jobs.progress import history as progress

__all__ = ["JobReport", "SourceReport", "match_sources", "report", "reports", "waiting_s"]

_THREADS = 8
"""Jobs that are looked at side by side: one whose brokers are down must not hold up the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReport:
    """One source of a job, by the name of its view."""

    view: str
    options: SourceOptions
    has_checkpoint: bool
    """From the checkpoint; else it begins at ``startingOffsets``."""
    known: Mapping[TopicPartition, Position] = field(default_factory=dict)
    """The checkpoint's positions, from which the next run goes on."""
    known_ids: Mapping[str, UUID] = field(default_factory=dict)
    kafka: KafkaReport

    @property
    def recreated(self) -> frozenset[str]:
        """Topics of other ids than those that the checkpoint knows."""
        now = self.kafka.topic_ids
        known = self.known_ids.items()
        return frozenset(name for name, id_ in known if now.get(name, id_) != id_)

    @property
    def fits(self) -> bool:
        """Whether the job can go on: nothing is gone, or its options say that it may be."""
        return not (self.kafka.losses and self.options.fail_on_data_loss)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """A job with all of its sources, or why nothing can be told of it."""

    name: str
    checkpoint: Checkpoint | None = None
    sources: tuple[SourceReport, ...] = ()
    waiting_s: float | None = None
    """For so long at least the next offset has been waiting; None where nobody can tell."""
    error: str = ""

    @property
    def has_run(self) -> bool:
        """Whether it has a checkpoint with offsets."""
        return self.checkpoint is not None and self.checkpoint.planned is not None

    @property
    def behind(self) -> int:
        """Offsets that a run would read."""
        return sum(source.kafka.behind for source in self.sources)

    @property
    def losses(self) -> list[str]:
        """What of the checkpoint's offsets is gone."""
        return [loss for source in self.sources for loss in source.kafka.losses]

    @property
    def missing(self) -> list[str]:
        """Sentences: topics or partitions that the job names and that don't exist."""
        return [source.kafka.missing for source in self.sources if source.kafka.missing]

    @property
    def leaderless(self) -> list[str]:
        """Partitions that can't be read now."""
        return [str(tp) for source in self.sources for tp in source.kafka.leaderless]

    @property
    def fits(self) -> bool:
        """Whether a run would begin, as far as offsets tell."""
        return not self.error and all(source.fits for source in self.sources)


def report(job: Job, now: float) -> JobReport:
    """Look at one job. Raises JobsError: the checkpoint can't be read, brokers not be reached."""
    checkpoint = checkpoints.of(job)
    places = match_sources(job, checkpoint)
    sources = tuple(_source(job, view, checkpoint, place) for view, place in places.items())
    behind = sum(source.kafka.behind for source in sources)
    return JobReport(
        name=job.name,
        checkpoint=checkpoint,
        sources=sources,
        waiting_s=waiting_s(
            progress.last(progress.file_of(job.directory)), checkpoint, behind, now
        ),
    )


def reports(project: Project, names: Iterable[str], now: float) -> Iterator[JobReport]:
    """Look at several jobs, side by side; what keeps one from being looked at is in its error."""

    def one(name: str) -> JobReport:
        try:
            return report(project.job(name), now)
        except JobsError as cause:
            return JobReport(name=name, error=str(cause))

    with ThreadPoolExecutor(_THREADS) as pool:
        yield from pool.map(one, names)


def match_sources(job: Job, checkpoint: Checkpoint) -> dict[str, int | None]:
    """Which of the checkpoint's sources is which view's; None for a view that it doesn't have.

    Spark numbers sources as they come in the query's plan, and names none. So topics tell.
    """
    views = {view: parse(job.source_options(view)) for view in job.file.views()}
    if len(views) == 1 and checkpoint.sources <= 1:
        return dict.fromkeys(views, 0 if checkpoint.sources else None)
    topics = {number: _topics(checkpoint, number) for number in range(checkpoint.sources)}
    found: dict[str, int | None] = {}
    for view, options in views.items():
        places = [n for n, names in topics.items() if _any_of(options.subscription, names)]
        if len(places) > 1 or (places and places[0] in found.values()):
            raise JobsError(
                f"job {job.name}: {len(places)} of the checkpoint's sources have topics of {view}, "
                f"or another view has them too: which offsets are whose can't be told; kfetch "
                f"offsets show {job.name} prints all of them"
            )
        found[view] = places[0] if places else None
    return found


def _topics(checkpoint: Checkpoint, source: int) -> set[str]:
    end = checkpoint.end(source)
    return {tp.topic for tp in end.positions} if end else set()


def _any_of(subscription: Subscription, topics: Iterable[str]) -> bool:
    return any(subscription.wants(topic) for topic in topics)


def _source(job: Job, view: str, checkpoint: Checkpoint, place: int | None) -> SourceReport:
    options = parse(job.source_options(view))
    start = None if place is None else checkpoint.start(place)
    again = checkpoint.end(place) if place is not None and checkpoint.pending else None
    try:
        kafka = query_kafka(options, start, again)
    except KfetchError as cause:
        told = job.redacted(cause.message)
        raise JobsError(f"job {job.name}, {_named(job, view)}: {told}") from cause
    return SourceReport(
        view=view,
        options=options,
        has_checkpoint=start is not None,
        known=start.positions if start else {},
        known_ids=start.topic_ids if start else {},
        kafka=replace(kafka, missing=job.redacted(kafka.missing)),
    )


def _named(job: Job, view: str) -> str:
    source: Mapping[str, str] = job.file.views()[view].strategy()
    return f"source {view} ({', '.join(source.values())})"


def waiting_s(
    batch: progress.Batch | None, checkpoint: Checkpoint, behind: int, now: float
) -> float | None:
    """For so long at least the next offset has been waiting, as the last micro-batch's progress
    proves: what was waiting after it waits still, if no other was committed since."""
    if behind == 0:
        return 0.0
    if batch is None or batch.batch != checkpoint.committed:
        return None
    if batch.lag == 0:
        return 0.0
    return round(batch.lag_s + max(0.0, now - batch.finished), 3)
