"""The first page of a project with many jobs: which rows it shows, in which order."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kfetch_jobs.supervise.job_state import Phase
from kfetch_jobs.web.job_status import Tone
from kfetch_jobs.web.template_values import JobRow

MANY = 12
"""From this many jobs on, the page has a filter and an order, and folds jobs that wait."""

ORDERS = {"name": "by name", "urgent": "most urgent first", "behind": "furthest behind first"}
"""The first one is the default: nobody can click on a row that moves."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody wants to see."""

    text: str = ""
    order: str = "name"

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> Wish:
        """Returns the wish of a form's fields."""
        order = fields.get("order", "")
        return cls(fields.get("find", "").strip()[:200], order if order in ORDERS else "name")

    def fits(self, row: JobRow) -> bool:
        """Whether the text is in the job's name, description, topics or state."""
        job = row.job
        texts = (job.name, job.description, *job.topics, row.status.word)
        return any(self.text.lower() in text.lower() for text in texts)


@dataclass(frozen=True, slots=True)
class JobList:
    """The rows of the first page."""

    wish: Wish
    shown: Sequence[JobRow]
    waiting: Sequence[JobRow]
    """Jobs that wait for their next run. They are folded."""
    hidden: int
    """The number of jobs that do not fit the wish."""
    many: bool


def job_list(rows: Sequence[JobRow], wish: Wish) -> JobList:
    """Returns the rows that fit, in the order of the wish."""
    many = len(rows) >= MANY
    fitting = [row for row in rows if wish.fits(row)]
    if wish.order == "urgent":
        fitting.sort(key=lambda row: list(Tone).index(row.status.tone))
    elif wish.order == "behind":
        fitting.sort(key=lambda row: -(row.job.lag or 0))
    folds = many and not wish.text
    waiting = [row for row in fitting if folds and _waits(row)]
    return JobList(
        wish=wish,
        shown=[row for row in fitting if not (folds and _waits(row))],
        waiting=waiting,
        hidden=len(rows) - len(fitting),
        many=many,
    )


def _waits(row: JobRow) -> bool:
    return row.job.phase is Phase.WAITING and not row.status.why


def calls(rows: Sequence[JobRow]) -> list[list[JobRow]]:
    """Returns the jobs that need attention. Those with the same cause are together."""
    causes: dict[tuple[str, ...], list[JobRow]] = {}
    for row in rows:
        if row.status.why:
            causes.setdefault(_cause(row), []).append(row)
    return [*causes.values()]


def _cause(row: JobRow) -> tuple[str, ...]:
    """The status and its reasons without the job's name."""
    name = re.compile(rf"\b{re.escape(row.job.name)}\b")
    return (row.status.word, *(name.sub("", text) for text in row.status.why))
