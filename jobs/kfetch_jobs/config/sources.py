"""What the source itself says of a job's options, each sentence with the line of its option."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kfetch.errors import OptionError
from kfetch.options import parse
from kfetch.options.catalogue import no_effect

if TYPE_CHECKING:
    from kfetch_jobs.config.models import JobFile
    from kfetch_jobs.config.project import Job

__all__ = ["location", "mistakes", "warnings"]


def mistakes(job: Job) -> Iterator[str]:
    """Options that can't be used: one of each source."""
    for view in job.file.views():
        try:
            parse(job.source_options(view))
        except OptionError as error:
            option = str(error.context.get("option", ""))
            yield f"{_place(job, view, option)}: {job.hidden(str(error))}"


def warnings(job: Job) -> Iterator[str]:
    """Options without effect, of a job without mistakes. A run logs the same at its start."""
    for view in job.file.views():
        for option in parse(job.source_options(view)).ignored:
            yield f"{_place(job, view, option)}: {no_effect(option)}"


def location(file: JobFile, view: str) -> tuple[str, ...]:
    """Where a source stands in its file."""
    return ("source",) if file.source else ("sources", view)


def _place(job: Job, view: str, option: str) -> str:
    """The option's own line: in the job's file, or a property's in the project's."""
    at, cluster = location(job.file, view), job.file.views()[view].cluster
    for found in job.document.lines:
        if found[: len(at)] == at and str(found[-1]).lower() == option.lower():
            return job.document.place(found)
    for document in reversed(job.shared):
        for found in document.lines:
            inside = found[:2] == ("clusters", cluster)
            if inside and f"kafka.{found[-1]}".lower() == option.lower():
                return document.place(found)
    return job.document.place(at)
