"""Reports on a job: its checkpoint, and its sources in Kafka. ``plan`` and ``lag`` print them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from kfetch.admin.checkpoint import Checkpoint
from kfetch.admin.query import Offsets, SourceOptions
from kfetch.admin.sources import KafkaReport, query_kafka
from kfetch.errors import KfetchError
from kfetch_jobs.checkpoints import checkpoint as checkpoints
from kfetch_jobs.checkpoints.fresh_start import fresh_start_refusal
from kfetch_jobs.checkpoints.origin import check_cluster
from kfetch_jobs.config import Job, Project
from kfetch_jobs.errors import JobsError
from kfetch_jobs.progress import progress_file as progress
from kfetch_jobs.progress.batch import Batch

_THREADS = 8
"""Jobs that are checked in parallel: one whose brokers are down must not delay the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReport:
    """One source of a job, by the name of its view."""

    view: str
    options: SourceOptions
    number: int | None
    """The number of the checkpoint's source; None if the checkpoint has none for the view."""
    start: Offsets | None
    """The offsets at which the next run starts; None: it starts at ``startingOffsets``."""
    kafka: KafkaReport

    @property
    def recreated(self) -> frozenset[str]:
        """Topics whose ids differ from those in the checkpoint."""
        now = self.kafka.topic_ids
        known = self.start.topic_ids.items() if self.start else ()
        return frozenset(name for name, id_ in known if now.get(name, id_) != id_)

    @property
    def fits(self) -> bool:
        """Whether the job can go on: no offset is lost, or its options allow losses."""
        return not (self.kafka.losses and self.options.fail_on_data_loss)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """A job with all of its sources, or the error that prevents a report."""

    name: str
    checkpoint: Checkpoint | None = None
    sources: tuple[SourceReport, ...] = ()
    waiting_s: float | None = None
    """How long the next offset has waited at least, in seconds; None if it is unknown."""
    error: str = ""
    refusal: str = ""
    """Why a run is refused although Kafka has its offsets; empty if it is not."""

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
        """A sentence for each loss among the checkpoint's offsets."""
        return [loss for source in self.sources for loss in source.kafka.losses]

    @property
    def missing(self) -> list[str]:
        """A sentence for topics or partitions of the job that do not exist."""
        return [source.kafka.missing for source in self.sources if source.kafka.missing]

    @property
    def unreadable(self) -> list[str]:
        """A sentence for each topic of the job that its user may describe and not read."""
        return [sentence for source in self.sources for sentence in source.kafka.unreadable]

    @property
    def leaderless(self) -> list[str]:
        """Partitions without a leader. Nobody can read them now."""
        return [str(tp) for source in self.sources for tp in source.kafka.leaderless]

    @property
    def fits(self) -> bool:
        """Whether a run would start, as far as offsets show."""
        return not (self.error or self.refusal) and all(source.fits for source in self.sources)


def report(job: Job, now: float, *, quick: bool = True) -> JobReport:
    """Returns the report on one job. ``now`` is in seconds since 1970.

    ``quick``: see ``job_checkpoint``.

    Raises JobsError if it can't read the checkpoint, or if the checkpoint's runs had another
    environment or Kafka cluster. Raises the source's error if the brokers refuse or don't answer.
    """
    checkpoint = checkpoints.job_checkpoint(job, quick=quick)
    numbers = _first_sources(job, checkpoint)
    sources = tuple(_source(job, view, checkpoint, number) for view, number in numbers.items())
    behind = sum(source.kafka.behind for source in sources)
    return JobReport(
        name=job.name,
        checkpoint=checkpoint,
        sources=sources,
        refusal=fresh_start_refusal(job, checkpoint.planned is not None),
        waiting_s=waiting_s(progress.last_batch(job.directory), checkpoint, behind, now),
    )


def reports(project: Project, names: Iterable[str], now: float) -> Iterator[JobReport]:
    """Yields reports on several jobs, read in parallel. A report has the error of its job."""

    def one(name: str) -> JobReport:
        try:
            return report(project.job(name), now)
        except KfetchError as cause:
            return JobReport(name=name, error=str(cause))

    with ThreadPoolExecutor(_THREADS) as pool:
        yield from pool.map(one, names)


def _first_sources(job: Job, checkpoint: Checkpoint) -> dict[str, int | None]:
    """Returns the number of the checkpoint's source for each view, to report on it.

    A transform can read a single view twice, and Spark then has two sources for it. Each of them
    reads the same records, so the first one shows where the job stands.
    """
    views = job.file.views()
    if len(views) == 1 and checkpoint.sources > 1:
        return dict.fromkeys(views, 0)
    return match_sources(job, checkpoint)


def match_sources(job: Job, checkpoint: Checkpoint) -> dict[str, int | None]:
    """Returns the number of the checkpoint's source for each view; None if there is no source.

    Spark numbers sources in the order of the query's plan, without names. The topics show which
    source belongs to a view. The last view and the last source that are left belong together: the
    view's topics have changed. Raises JobsError if nobody can tell, or if a single view has several
    sources.
    """
    views = {view: job.parsed_options(view) for view in job.file.views()}
    if len(views) == 1:
        if checkpoint.sources > 1:
            raise JobsError(
                f"job {job.name}: the checkpoint has the source {checkpoint.sources} times, "
                "because the transform reads it so often, and kfetch does not move the offsets of "
                "such a job: give it a new checkpoint and table, with sink.repeatRows: true"
            )
        return dict.fromkeys(views, 0 if checkpoint.sources else None)
    topics = {number: _topics(checkpoint, number) for number in range(checkpoint.sources)}
    numbers: dict[str, int | None] = {}
    for view, options in views.items():
        matches = [
            n for n, names in topics.items() if any(map(options.subscription.includes, names))
        ]
        if len(matches) > 1 or (matches and matches[0] in numbers.values()):
            raise JobsError(
                f"job {job.name}: {len(matches)} sources of the checkpoint have topics of {view}, "
                "or another view has them too, so kfetch can't match views and offsets; "
                f"kfetch offsets show {job.name} prints all of them"
            )
        numbers[view] = matches[0] if matches else None
    new_views = [view for view, number in numbers.items() if number is None]
    unmatched = [number for number in topics if number not in numbers.values()]
    if len(new_views) == len(unmatched) == 1:
        numbers[new_views[0]] = unmatched[0]
    return numbers


def _topics(checkpoint: Checkpoint, source: int) -> set[str]:
    end = checkpoint.end(source)
    return {tp.topic for tp in end.positions} if end else set()


def _source(job: Job, view: str, checkpoint: Checkpoint, number: int | None) -> SourceReport:
    options = job.parsed_options(view)
    start = None if number is None else checkpoint.start(number)
    planned = checkpoint.end(number) if number is not None and checkpoint.pending else None
    try:
        check_cluster(job, view)
        kafka = query_kafka(options, start, planned)
    except JobsError:
        raise
    except KfetchError as cause:
        raise job.error(f"job {job.name}, {_source_name(job, view)}", cause) from cause
    return SourceReport(
        view=view,
        options=options,
        number=number,
        start=start,
        kafka=replace(
            kafka,
            missing=job.user_sentence(kafka.missing) or _unmatched(options, kafka),
            unreadable=tuple(map(job.user_sentence, kafka.unreadable)),
        ),
    )


def _unmatched(options: SourceOptions, kafka: KafkaReport) -> str:
    """Returns a sentence if the source's pattern matches no topic."""
    pattern = options.subscription.pattern
    if pattern is None or kafka.partitions:
        return ""
    return (
        f"no topic matches subscribePattern {pattern} yet, or this user may describe none of them: "
        "a run reads nothing until there is one"
    )


def _source_name(job: Job, view: str) -> str:
    source: Mapping[str, str] = job.file.views()[view].strategy()
    named = "source" if job.file.source else f"source {view}"
    return f"{named} ({', '.join(source.values())})"


def waiting_s(batch: Batch | None, checkpoint: Checkpoint, behind: int, now: float) -> float | None:
    """Returns how long the next offset has waited at least, in seconds; None if it is unknown.

    The progress of the last committed micro-batch proves it: records that waited after that
    micro-batch still wait.
    """
    if behind == 0:
        return 0.0
    if batch is None or batch.batch != checkpoint.committed:
        return None
    if batch.lag == 0:
        return 0.0
    return round(batch.lag_s + max(0.0, now - batch.finished), 3)
