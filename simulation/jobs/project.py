"""The project of a simulation: jobs with all kinds of triggers, drawn by the seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

ENVIRON = {"SERVERS": "127.0.0.1:9092"}
_PROJECT = """\
storage: ../data
concurrency: {concurrency}
clusters:
  local:
    bootstrap.servers: ${{env:SERVERS}}
"""
_JOB = """\
source:
  cluster: local
  subscribe: {name}
sink:
  format: delta
  path: ${{storage}}/{name}/table
trigger: {trigger}
{after}stopWithin: 10s
restart:
  initial: 5s
  max: 40s
  resetAfter: 200s
{attempts}health:
  startWithin: 300s
{limit}"""
CHANGES = (
    ("Europe/Berlin", "2026-03-28T19:00", "30 2 * * *"),
    ("Europe/Berlin", "2026-10-24T19:00", "30 2 * * *"),
    ("Europe/Berlin", "2026-10-24T19:00", "0 2 * * *"),
    ("America/New_York", "2026-11-01T00:00", "30 1 * * *"),
    ("America/New_York", "2026-03-08T01:00", "30 2 * * *"),
    ("America/Havana", "2026-10-31T22:00", "30 0 * * *"),
    ("Asia/Beirut", "2026-10-24T15:00", "30 23 * * *"),
    ("UTC", "2026-02-27T20:00", "30 2 * * *"),
)
"""Zones, some hours before a change of their clocks (UTC), and a time that comes twice or never."""
_TIMES = (
    "30 2 * * *",
    "15 2 * * *",
    "45 1 * * *",
    "0 3 * * *",
    "5 0 * * *",
    "30 * * * *",
    "*/20 2 * * *",
    "0,30 1,2 * * *",
    "*/15 * * * *",
    "10 */6 * * *",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnJob:
    """A job, as far as the simulation must know it."""

    name: str
    finite: bool
    cron: str = ""
    zone: str = "UTC"
    queue: bool = False
    after: str = ""
    limit_s: float | None = None
    """The limit of its silence."""
    lag_limit_s: float | None = None
    """How long a record may wait."""
    text: str


def draw_jobs(
    draw: random.Random, zone: str, expression: str, *, mostly_cron: bool, slow: float
) -> list[DrawnJob]:
    """Returns the jobs of a project. ``slow``: how slowly all goes on."""
    jobs: list[DrawnJob] = []
    for name in "abcd"[: draw.randint(1, 4)]:
        kind = draw.choice(["cron"] * (6 if mostly_cron else 1) + ["continuous", "once", "after"])
        limit_s = draw.choice([None, 30.0, 90.0])
        lag_limit_s = draw.choice([None, 30.0 * slow, 120.0 * slow])
        attempts = draw.choice([None, None, 3])
        cron, queue = draw.choice([expression, draw.choice(_TIMES)]), draw.random() < 0.5
        finite = [one.name for one in jobs if one.finite]
        after = draw.choice(finite) if kind == "after" and finite else ""
        overlap = "queue" if queue else "skip"
        trigger = {
            "continuous": "{processingTime: 2s}",
            "cron": f'{{cron: "{cron}", timezone: {zone}, overlap: {overlap}}}',
        }.get(kind, "availableNow")
        jobs.append(
            DrawnJob(
                name=name,
                finite=kind != "continuous",
                cron=cron if kind == "cron" else "",
                zone=zone,
                queue=queue,
                after=after,
                limit_s=limit_s,
                lag_limit_s=lag_limit_s,
                text=_JOB.format(
                    name=name,
                    trigger=trigger,
                    after=f"after: [{after}]\n" if after else "",
                    attempts="" if attempts is None else f"  attempts: {attempts}\n",
                    limit=(f"  noProgress: {limit_s:.0f}s\n" if limit_s else "")
                    + (f"  lagSeconds: {lag_limit_s:.0f}\n" if lag_limit_s else ""),
                ),
            )
        )
    return jobs


def write_project(room: Path, jobs: list[DrawnJob], concurrency: int) -> Path:
    """Write the project's files. Returns the path of the project file."""
    files = room / "conf"
    (files / "jobs").mkdir(parents=True)
    path = files / "kfetch.yml"
    path.write_text(_PROJECT.format(concurrency=concurrency))
    for job in jobs:
        (files / "jobs" / f"{job.name}.yml").write_text(job.text)
    return path
