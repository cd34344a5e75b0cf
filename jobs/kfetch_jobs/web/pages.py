"""The pages for people, and the JSON for their plots.

A page and its live part have the same address. htmx sends a header with its requests, and gets the
live part.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from kfetch.admin import explanations
from kfetch.errors import OptionError
from kfetch_jobs.config import Project
from kfetch_jobs.config.project import is_job_name
from kfetch_jobs.errors import ConfigError, JobsError
from kfetch_jobs.progress.reports import read_partition_lags
from kfetch_jobs.supervise import log_tail
from kfetch_jobs.supervise.control import give_order
from kfetch_jobs.supervise.job_files import project_now
from kfetch_jobs.supervise.job_state import Order
from kfetch_jobs.supervise.status import STUCK_S, JobStatus
from kfetch_jobs.supervise.store import Store
from kfetch_jobs.util.cached_value import CachedValue
from kfetch_jobs.web import job_list, template_values
from kfetch_jobs.web.forms import Forms
from kfetch_jobs.web.html import page
from kfetch_jobs.web.job_status import headline, worst_tone
from kfetch_jobs.web.snapshot import Observer, Snapshot

_ORDERS_AT_ONCE = 4
"""The most orders that wait for the supervisor's loop, each half a minute at most."""
_LOG_LINES = 300
_FIRST_PAGE = ("all", "call")
"""Values of the field ``back`` in forms of the first page."""


@dataclass(frozen=True, slots=True)
class Notice:
    """The result of an order, as the page shows it."""

    text: str
    good: bool = False


_DONE = {
    Order.START: "it starts",
    Order.STOP: "it stops after its micro-batch",
    Order.RESTART: "it ends after its micro-batch and runs again",
    Order.PAUSE: "it pauses after its micro-batch",
    Order.RESUME: "it resumes",
}


class Pages:
    """Handles the requests for one project's pages."""

    def __init__(self, project: Project, stepped_s: Callable[[], float], forms: Forms) -> None:
        self._project = project
        self._stepped_s = stepped_s
        self._forms = forms
        self._observer = Observer(project)
        self._newest = CachedValue(self._observer.snapshot, Snapshot(at=time.time()), "page")
        self._order_slots = threading.BoundedSemaphore(_ORDERS_AT_ONCE)

    def routes(self) -> list[Route]:
        """Returns all routes."""
        return [
            Route("/", self._all),
            Route("/explain/{code}", self._explain),
            Route("/jobs/{name}", self._job),
            Route("/jobs/{name}/log", self._log),
            Route("/jobs/{name}/curves", self._curves),
            Route("/jobs/{name}/partitions", self._partitions),
            Route("/jobs/{name}/{order}", self._order, methods=["POST"]),
        ]

    def _page(self, template: str, snapshot: Snapshot, **values: Any) -> Response:
        stuck_s = time.time() - self._stepped_s()
        return page(
            template,
            snapshot=snapshot,
            now=time.time(),
            project=self._project.path.parent.name,
            project_file=str(self._project.path),
            stuck_s=stuck_s if stuck_s > STUCK_S else None,
            key=self._forms.key,
            logged_in=self._forms.logins.token != "",
            **values,
        )

    def _all(self, request: Request) -> Response:
        return self._all_from(self._newest.get(), request, request.query_params)

    def _all_from(
        self,
        snapshot: Snapshot,
        request: Request,
        fields: Mapping[str, str],
        notice: Notice | None = None,
    ) -> Response:
        rows = template_values.job_rows(snapshot, self._observer)
        statuses = [row.status for row in rows]
        return self._page(
            _part_or_whole(request, "all.html"),
            snapshot,
            rows=rows,
            calls=job_list.calls(rows),
            list=job_list.job_list(rows, job_list.Wish.of(fields)),
            orders=job_list.ORDERS,
            headline=headline(statuses),
            tone=worst_tone(statuses),
            notice=notice,
        )

    def _job(self, request: Request) -> Response:
        snapshot = self._newest.get()
        return self._job_from(snapshot, self._job_view(request, snapshot), request, notice=None)

    def _job_from(
        self, snapshot: Snapshot, job: JobStatus, request: Request, notice: Notice | None
    ) -> Response:
        return self._page(
            _part_or_whole(request, "job.html"),
            snapshot,
            page=template_values.job_page(job, snapshot, self._observer, self._directory(job)),
            notice=notice,
        )

    def _job_view(self, request: Request, snapshot: Snapshot) -> JobStatus:
        job = snapshot.job(request.path_params["name"])
        if job is None or not is_job_name(job.name):
            raise HTTPException(404, "The project has no job of this name.")
        return job

    def _curves(self, request: Request) -> Response:
        snapshot, now = self._newest.get(), time.time()
        job = self._job_view(request, snapshot)
        try:
            points = self._observer.points(job.name, request.query_params.get("window", "15m"), now)
        except KeyError:
            raise HTTPException(404, "kfetch has no such window of time.") from None
        runs, _ = self._observer.runs(job.name)
        ends = [{"t": run.ended_s, "kind": run.kind} for run in runs if run.ended_s]
        return JSONResponse(
            {"now": now, "points": points, "ends": ends, "reading": job.name in snapshot.reading}
        )

    def _partitions(self, request: Request) -> Response:
        job = self._job_view(request, self._newest.get())
        lags = read_partition_lags(self._directory(job))
        return JSONResponse(asdict(lags) if lags else {"at": None, "topics": [], "left_out": 0})

    def _log(self, request: Request) -> Response:
        snapshot = self._newest.get()
        job = self._job_view(request, snapshot)
        path = self._directory(job) / "run.log"
        try:
            # Spark's tracebacks have whole query plans, with options and their secrets.
            redacted = project_now(self._project).job(job.name).redacted
            lines, trouble = log_tail.last_lines(path, _LOG_LINES, redacted), ""
        except ConfigError:
            lines, trouble = (
                [],
                "kfetch does not show the log: the job's file is gone or has a mistake, so kfetch "
                "does not know which texts are secret.",
            )
        except (JobsError, OSError) as error:
            lines, trouble = [], str(error)
        return self._page(
            "log.html", snapshot, job=job, lines=lines, path=str(path), trouble=trouble
        )

    def _explain(self, request: Request) -> Response:
        code = request.path_params["code"]
        try:
            text = "\n".join(map(explanations.page, explanations.code_classes(code)))
        except OptionError:
            raise HTTPException(404, "No error has this code.") from None
        return page("explain.html", code=code, text=explanations.without_links(text))

    def _directory(self, job: JobStatus) -> Path:
        return self._project.storage / job.name

    async def _order(self, request: Request) -> Response:
        form = await self._forms.read_issued(request)
        return await run_in_threadpool(self._handle_order, request, form)

    def _handle_order(self, request: Request, form: Mapping[str, str]) -> Response:
        back = form.get("back", "")
        job = self._job_view(request, self._newest.get())
        try:
            order = Order(request.path_params["order"])
        except ValueError:
            raise HTTPException(404, "kfetch has no order of this name.") from None
        notice = self._send_order(job.name, order)
        if "hx-request" not in request.headers and notice.good:
            return RedirectResponse("/" if back in _FIRST_PAGE else f"/jobs/{job.name}", 303)
        snapshot = self._newest.get(since_s=time.monotonic())
        if back in _FIRST_PAGE:
            return self._all_from(snapshot, request, form, notice)
        return self._job_from(snapshot, snapshot.job(job.name) or job, request, notice)

    def _send_order(self, name: str, order: Order) -> Notice:
        if not self._order_slots.acquire(blocking=False):
            return Notice("other orders wait for the supervisor: try again in a moment")
        try:
            with Store.of(self._project.storage) as store:
                notes = give_order(self._project, store, [name], order)
        except JobsError as error:
            return Notice(f"the order {order} for {name} failed: {error}")
        finally:
            self._order_slots.release()
        if notes is None:
            return Notice(
                f"no supervisor runs: the next kfetch up follows the order ({order} {name})"
            )
        return Notice("; ".join((f"{name}: {_DONE[order]}", *notes)), good=True)


def _part_or_whole(request: Request, template: str) -> str:
    """Returns the template of the live part for htmx, and else that of the whole page."""
    return f"_{template}" if "hx-request" in request.headers else template
