"""What only all jobs together can get wrong: dependencies, and checkpoints that two jobs share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kfetch_jobs.config.yamlfile import suggestion

if TYPE_CHECKING:
    from kfetch_jobs.config.project import Job

__all__ = ["mistakes"]


def mistakes(jobs: Mapping[str, Job]) -> list[str]:
    """One sentence for each, with the place in the job's file."""
    return [*_upstream(jobs), *_cycles(jobs), *_checkpoints(jobs)]


def _upstream(jobs: Mapping[str, Job]) -> Iterator[str]:
    for job in jobs.values():
        place = job.document.place(("after",))
        for name in job.file.after:
            if name not in jobs:
                yield f"{place}: after names no job: {name}: {suggestion(name, jobs)}"
            elif not jobs[name].file.trigger.finite:
                yield (
                    f"{place}: after waits for ever: {name} ({jobs[name].file.trigger}) does not "
                    "end: only a job with availableNow or cron does"
                )


def _cycles(jobs: Mapping[str, Job]) -> Iterator[str]:
    """Each cycle once, at the job that comes first by name."""
    for name in sorted(jobs):
        cycle = _back_to(name, jobs)
        if cycle and name == min(cycle):
            way = " after ".join([*cycle, name])
            yield f"{jobs[name].document.place(('after',))}: jobs wait for each other: {way}"


def _back_to(start: str, jobs: Mapping[str, Job]) -> list[str]:
    """A way along ``after`` from a job to itself; empty if there is none."""
    ways = [[start]]
    seen: set[str] = set()
    while ways:
        way = ways.pop()
        for name in jobs[way[-1]].file.after:
            if name == start:
                return way
            if name in jobs and name not in seen:
                seen.add(name)
                ways.append([*way, name])
    return []


def _checkpoints(jobs: Mapping[str, Job]) -> Iterator[str]:
    first: dict[str, Job] = {}
    for job in jobs.values():
        other = first.setdefault(job.checkpoint, job)
        if other is not job:
            yield (
                f"{job.document.place(('checkpoint',))}: job {other.name} has this checkpoint "
                f"too: {job.checkpoint}: give each its own, or leave it out"
            )
