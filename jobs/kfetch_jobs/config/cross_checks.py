"""Checks of all jobs together: dependencies, and checkpoints and tables that two jobs share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

from kfetch.storage.locations import place
from kfetch_jobs.config.job import Job
from kfetch_jobs.config.yamlfile import suggestion
from kfetch_jobs.errors import ConfigError
from kfetch_jobs.util.wording import counted


def mistakes(jobs: Mapping[str, Job], read: Mapping[str, Job | ConfigError]) -> list[str]:
    """Returns one sentence for each mistake, with file and line.

    ``jobs``: those with valid files. ``read``: all jobs.
    """
    after = (sentence for job in jobs.values() for sentence in after_mistakes(job, read))
    return [*after, *_cycles(jobs), *_shared_checkpoints(jobs), *_same_rows(jobs)]


def room_warnings(jobs: Iterable[Job], concurrency: int) -> list[str]:
    """Returns a sentence if more jobs run without an end than the supervisor runs at once."""
    enabled = [job for job in jobs if job.file.enabled]
    endless = sorted(job.name for job in enabled if not job.file.trigger.finite)
    room = f"concurrency: {concurrency} gives room to {counted(concurrency, 'job')}"
    if len(endless) < concurrency or len(enabled) == concurrency:
        return []
    number = counted(len(endless), "job never ends", "jobs never end")
    return [f"{room}, and {number} ({', '.join(endless)}): some never start: raise concurrency"]


def after_mistakes(job: Job, read: Mapping[str, Job | ConfigError]) -> Iterator[str]:
    """Yields a sentence for each job in ``after`` that never finishes. ``read``: all jobs."""
    at = f"{job.document.file_line(('after',))}: after names"
    for name in job.file.after:
        other = read.get(name)
        if other is None:
            yield (
                f"{at} {name}, and there is no such job: this job never starts: "
                f"{suggestion(name, read)}"
            )
        elif isinstance(other, ConfigError):
            continue
        elif job.file.enabled and not other.file.enabled:
            yield (
                f"{at} {name}, and that job is disabled: this job never starts: enable that job, "
                "or take it out of after"
            )
        elif not other.file.trigger.finite:
            yield (
                f"{at} {name}, and that job ({other.file.trigger}) does not end: this job "
                "never starts: only a job with availableNow or cron ends"
            )


def _cycles(jobs: Mapping[str, Job]) -> Iterator[str]:
    """The first cycle, in the file of the job whose name sorts first."""
    try:
        TopologicalSorter({name: job.file.after for name, job in jobs.items()}).prepare()
    except CycleError as error:
        cycle = error.args[1][:0:-1]  # from a job to the one that it waits for
        first = cycle.index(min(cycle))
        path = " after ".join([*cycle[first:], *cycle[:first], cycle[first]])
        line = jobs[cycle[first]].document.file_line(("after",))
        yield f"{line}: jobs wait for each other: {path}"


def _shared_checkpoints(jobs: Mapping[str, Job]) -> Iterator[str]:
    by_checkpoint: dict[str, Job] = {}
    for job in jobs.values():
        other = by_checkpoint.setdefault(place(job.checkpoint, job.spark), job)
        if other is not job:
            yield (
                f"{job.document.file_line(('checkpoint',))}: job {other.name} has this checkpoint "
                f"too: {job.checkpoint}: give each its own, or leave it out"
            )


def _same_rows(jobs: Mapping[str, Job]) -> Iterator[str]:
    earlier: list[Job] = []
    for job in (one for one in jobs.values() if one.file.enabled):
        if sentence := same_rows_mistake(job, earlier):
            yield sentence
        earlier.append(job)


def same_rows_mistake(job: Job, others: Iterable[Job]) -> str:
    """Returns a sentence if another job makes the same rows or dead letters for the same table.

    Jobs with different transforms may share a source and a table: each may write a part of the
    records.
    """
    for other in others:
        if other.name != job.name and _rows(other) == _rows(job):
            return (
                f"{job.document.file_line(('sink',))}: job {other.name} writes the same rows of "
                "the same source to this table: delete one of the two jobs"
            )
        if other.name != job.name and _share_letters(job, other):
            return (
                f"{job.document.file_line(('sink', 'deadLetters'))}: job {other.name} has this "
                "table of dead letters, too, and may read the same topic, so one job would delete "
                "dead letters of the other: give this job a table of its own"
            )
    return ""


def _share_letters(job: Job, other: Job) -> bool:
    """Whether both may write dead letters of one topic to one table, which has no cluster."""
    if not (job.dead_letters and other.dead_letters):
        return False
    if job.place(job.dead_letters) != other.place(other.dead_letters):
        return False
    topics, others = job.named_topics(), other.named_topics()  # a pattern may match any topic
    return not (topics and others and topics.isdisjoint(others))


def _rows(job: Job) -> tuple[object, ...]:
    """What decides which rows a job writes, and where."""
    views = job.file.views()
    sources = [
        (view, _servers(job, view), source.strategy(), source.decode)
        for view, source in sorted(views.items())
    ]
    return job.place(job.target), sources, job.file.transform


def writes_same_records(job: Job, other: Job) -> bool:
    """Returns whether both write to the same table, and read a topic or a pattern in common."""
    same_table = job.place(job.target) == other.place(other.target)
    same_records = same_table and not _topics(job).isdisjoint(_topics(other))
    return same_records or _share_letters(job, other)


def _topics(job: Job) -> set[tuple[frozenset[tuple[str, int]], str]]:
    """Each topic or pattern, with the servers of its cluster."""
    return {
        (_servers(job, view), topic)
        for view, source in job.file.views().items()
        for topic in job.named_topics(view) or {f"pattern {source.subscribePattern}"}
    }


def _servers(job: Job, view: str) -> frozenset[tuple[str, int]]:
    return frozenset(job.parsed_options(view).bootstrap)
