"""The pages for people, and the figures that their plots ask for.

A page and its part that is renewed are the same address: htmx says that it asks, and gets the part.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from kfetch_jobs.config import Project
from kfetch_jobs.config.project import is_job_name
from kfetch_jobs.errors import ConfigError, JobsError
from kfetch_jobs.run import partition_lags
from kfetch_jobs.supervise import log_tail
from kfetch_jobs.supervise.control import give_order
from kfetch_jobs.supervise.state_machine import Order
from kfetch_jobs.supervise.status import JobStatus
from kfetch_jobs.supervise.store import Store
from kfetch_jobs.util.cached_value import CachedValue
from kfetch_jobs.web import shown
from kfetch_jobs.web.forms import Forms, sent
from kfetch_jobs.web.html import page
from kfetch_jobs.web.seen import Eyes, Seen
from kfetch_jobs.web.standing import headline, worst

__all__ = ["Pages"]

_ORDERS_AT_ONCE = 4
"""Each waits for the supervisor's loop, half a minute at most."""
_LOG_LINES = 300
_FIRST_PAGE = ("all", "call")
"""Where a button of the first page says it is."""
_STUCK_S = 20.0
"""The supervisor's loop goes round five times a second, and may wait for a disk."""


@dataclass(frozen=True, slots=True)
class Notice:
    """What became of an order."""

    text: str
    good: bool = False


_DONE = {
    Order.START: "it is started",
    Order.STOP: "it stops after its micro-batch",
    Order.RESTART: "it ends after its micro-batch and runs again",
    Order.PAUSE: "it pauses after its micro-batch",
    Order.RESUME: "it goes on",
}


class Pages:
    """Answers what is asked of a project."""

    def __init__(self, project: Project, stepped_s: Callable[[], float], forms: Forms) -> None:
        self._project = project
        self._stepped_s = stepped_s
        self._forms = forms
        self._eyes = Eyes(project)
        self._newest = CachedValue(self._eyes.look, Seen(at=time.time()), "page")
        self._room = threading.BoundedSemaphore(_ORDERS_AT_ONCE)

    def routes(self) -> list[Route]:
        """All of them."""
        return [
            Route("/", self._all),
            Route("/jobs/{name}", self._job),
            Route("/jobs/{name}/log", self._log),
            Route("/jobs/{name}/curves", self._curves),
            Route("/jobs/{name}/partitions", self._partitions),
            Route("/jobs/{name}/{order}", self._order, methods=["POST"]),
        ]

    def _page(self, template: str, seen: Seen, **values: Any) -> Response:
        stuck_s = time.time() - self._stepped_s()
        return page(
            template,
            seen=seen,
            now=time.time(),
            project=self._project.path.parent.name,
            project_file=str(self._project.path),
            stuck_s=stuck_s if stuck_s > _STUCK_S else None,
            key=self._forms.key,
            logged_in=self._forms.logins.token != "",
            **values,
        )

    def _all(self, request: Request) -> Response:
        return self._all_as_of(self._newest.get(), request, notice=None)

    def _all_as_of(self, seen: Seen, request: Request, notice: Notice | None) -> Response:
        rows = shown.rows(seen, self._eyes)
        standings = [row.standing for row in rows]
        return self._page(
            _part_or_whole(request, "all.html"),
            seen,
            rows=rows,
            headline=headline(standings),
            tone=worst(standings),
            notice=notice,
        )

    def _job(self, request: Request) -> Response:
        seen = self._newest.get()
        return self._job_as_of(seen, self._found(request, seen), request, notice=None)

    def _job_as_of(
        self, seen: Seen, job: JobStatus, request: Request, notice: Notice | None
    ) -> Response:
        return self._page(
            _part_or_whole(request, "job.html"),
            seen,
            page=shown.job_page(job, seen, self._eyes, self._directory(job)),
            notice=notice,
        )

    def _found(self, request: Request, seen: Seen) -> JobStatus:
        job = seen.job(request.path_params["name"])
        if job is None or not is_job_name(job.name):
            raise HTTPException(404, "There is no job of this name in the project.")
        return job

    def _curves(self, request: Request) -> Response:
        seen, now = self._newest.get(), time.time()
        job = self._found(request, seen)
        try:
            points = self._eyes.points(job.name, request.query_params.get("window", "15m"), now)
        except KeyError:
            raise HTTPException(404, "There is no such window of time.") from None
        runs, _ = self._eyes.runs(job.name)
        ends = [{"t": run.ended_s, "kind": run.kind} for run in runs if run.ended_s]
        return JSONResponse(
            {"now": now, "points": points, "ends": ends, "reading": job.name in seen.reading}
        )

    def _partitions(self, request: Request) -> Response:
        job = self._found(request, self._newest.get())
        lags = partition_lags.read(partition_lags.partitions_path(self._directory(job)))
        return JSONResponse(asdict(lags) if lags else {"at": None, "topics": [], "left_out": 0})

    def _log(self, request: Request) -> Response:
        seen = self._newest.get()
        job = self._found(request, seen)
        path = self._directory(job) / "run.log"
        try:
            # Spark's traces have whole query plans, with the options of their sources.
            redacted = self._project.job(job.name).redacted
            lines, trouble = log_tail.last_lines(path, _LOG_LINES, redacted), ""
        except ConfigError:
            lines, trouble = [], "Its file has a mistake, so nobody knows what is secret here."
        except (JobsError, OSError) as error:
            lines, trouble = [], str(error)
        return self._page("log.html", seen, job=job, lines=lines, path=str(path), trouble=trouble)

    def _directory(self, job: JobStatus) -> Path:
        return self._project.storage / job.name

    async def _order(self, request: Request) -> Response:
        given = await sent(request)
        if not self._forms.ours(given):
            raise HTTPException(
                403, "This form is not from a page of this supervisor: load the page anew."
            )
        return await run_in_threadpool(self._ordered, request, given.get("back", ""))

    def _ordered(self, request: Request, back: str) -> Response:
        job = self._found(request, self._newest.get())
        try:
            order = Order(request.path_params["order"])
        except ValueError:
            raise HTTPException(404, "There is no such order.") from None
        notice = self._asked(job.name, order)
        if "hx-request" not in request.headers and notice.good:
            return RedirectResponse("/" if back in _FIRST_PAGE else f"/jobs/{job.name}", 303)
        seen = self._newest.get(since_s=time.monotonic())
        if back in _FIRST_PAGE:
            return self._all_as_of(seen, request, notice)
        return self._job_as_of(seen, seen.job(job.name) or job, request, notice)

    def _asked(self, name: str, order: Order) -> Notice:
        if not self._room.acquire(blocking=False):
            return Notice("other orders wait for the supervisor: try again in a moment")
        try:
            with Store.of(self._project.storage) as store:
                told = give_order(self._project, store, [name], order)
        except JobsError as error:
            return Notice(f"{name} could not be told to {order}: {error}")
        finally:
            self._room.release()
        if told is None:
            return Notice(f"no supervisor runs: {order} {name} is kept for the next kfetch up")
        return Notice("; ".join((f"{name}: {_DONE[order]}", *told)), good=True)


def _part_or_whole(request: Request, template: str) -> str:
    """Jinja2's name of the part that is renewed, or of the page around it."""
    return f"_{template}" if "hx-request" in request.headers else template
