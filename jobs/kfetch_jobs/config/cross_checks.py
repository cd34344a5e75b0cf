"""Checks of all jobs together: dependencies, and checkpoints that two jobs share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kfetch_jobs.config.job import Job
from kfetch_jobs.config.yamlfile import suggestion

__all__ = ["mistakes"]


def mistakes(jobs: Mapping[str, Job]) -> list[str]:
    """Return one sentence for each mistake, with file and line."""
    return [*_after_mistakes(jobs), *_cycles(jobs), *_shared_checkpoints(jobs)]


def _after_mistakes(jobs: Mapping[str, Job]) -> Iterator[str]:
    for job in jobs.values():
        line = job.document.file_line(("after",))
        for name in job.file.after:
            if name not in jobs:
                yield f"{line}: after names no job: {name}: {suggestion(name, jobs)}"
            elif not jobs[name].file.trigger.finite:
                yield (
                    f"{line}: after waits for ever: {name} ({jobs[name].file.trigger}) does not "
                    "end: only a job with availableNow or cron does"
                )


def _cycles(jobs: Mapping[str, Job]) -> Iterator[str]:
    """Each cycle once, in the file of the job whose name sorts first."""
    for name in sorted(jobs):
        cycle = _cycle_from(name, jobs)
        if cycle and name == min(cycle):
            path = " after ".join([*cycle, name])
            yield f"{jobs[name].document.file_line(('after',))}: jobs wait for each other: {path}"


def _cycle_from(start: str, jobs: Mapping[str, Job]) -> list[str]:
    """A path along ``after`` from a job back to itself; empty if there is none."""
    paths = [[start]]
    seen: set[str] = set()
    while paths:
        path = paths.pop()
        for name in jobs[path[-1]].file.after:
            if name == start:
                return path
            if name in jobs and name not in seen:
                seen.add(name)
                paths.append([*path, name])
    return []


def _shared_checkpoints(jobs: Mapping[str, Job]) -> Iterator[str]:
    by_checkpoint: dict[str, Job] = {}
    for job in jobs.values():
        other = by_checkpoint.setdefault(job.checkpoint, job)
        if other is not job:
            yield (
                f"{job.document.file_line(('checkpoint',))}: job {other.name} has this checkpoint "
                f"too: {job.checkpoint}: give each its own, or leave it out"
            )
