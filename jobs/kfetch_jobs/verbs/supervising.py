"""``kfetch up``, ``down`` and what is asked of jobs: ``start``, ``stop``, ``status``, …"""

from __future__ import annotations

import json
import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kfetch_jobs.util.plural import counted
from kfetch_jobs.verbs.arguments import Environment, Json, ProjectFile, project_of

if TYPE_CHECKING:  # late in the verbs: `kfetch --help` needs none of it
    from kfetch_jobs.config import Project
    from kfetch_jobs.supervise.machine import Order

__all__ = ["add"]

Jobs = Annotated[list[str], typer.Argument(metavar="JOB...", help="One job or more.")]
Listen = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        envvar="KFETCH_LISTEN",
        show_envvar=False,
        help="Where the page and /metrics are; else KFETCH_LISTEN, else 127.0.0.1:4747 if that is "
        "free. none: nowhere.",
    ),
]
_ENDED_WITHIN_S: float = 180
Timeout = Annotated[float, typer.Option(help="Seconds until a micro-batch must have ended.")]


def add(app: typer.Typer) -> None:
    """Mount the verbs."""
    app.command(short_help="Keep all jobs running.")(up)
    app.command(short_help="End the supervisor and all jobs.")(down)
    app.command(short_help="Run a job now, and keep it running.")(start)
    app.command(short_help="End a job until it is started.")(stop)
    app.command(short_help="End a job, and run it again at once.")(restart)
    app.command(short_help="End a job until it is resumed.")(pause)
    app.command(short_help="Go on with a paused job.")(resume)


def up(
    project: ProjectFile = None,
    environment: Environment = None,
    detach: Annotated[
        bool,
        typer.Option(
            "--detach", help="Go to the background once it supervises, and tell where the page is."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Log as lines of JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Log to the file alone.")] = False,
    listen: Listen = None,
) -> None:
    """Keep the project's jobs as their files say, until Ctrl-C, SIGTERM or kfetch down.

    Each job is a process of its own. One that fails is started again after a pause that grows;
    mistakes in files, refused log-ins and lost data are not tried again. At the end every job
    ends after its micro-batch; a second Ctrl-C ends them at once. A supervisor that was killed
    leaves its jobs running, and the next one takes them over.

    A browser finds a page at http://127.0.0.1:4747, on this machine, and Prometheus metrics at
    /metrics there; for other addresses KFETCH_TOKEN must have a token, with which people log in and
    which other requests carry as Authorization: Bearer.

    \b
    Example: in the background, for production
      kfetch up --env prod --detach
    """
    found = project_of(project, environment)
    if detach:
        _detach(found, environment, listen)
        return
    from kfetch_jobs.supervise.lock import office
    from kfetch_jobs.supervise.supervisor import Supervisor
    from kfetch_jobs.util.redact import words
    from kfetch_jobs.web.address_file import write as write_address
    from kfetch_jobs.web.serve import listening, serving

    with (
        words(found.redacted),
        _log(found, as_json, quiet),
        _signals() as (stop, hurry),
        office(found.storage),  # before the address: that is the running supervisor's
        listening(listen) as (bound, token, closed),
        Supervisor.take(found) as supervisor,
        serving(found, bound, token, lambda: supervisor.stepped_s) as address,
    ):
        write_address(found.storage, address, token=bool(token), closed=closed)
        supervisor.run(stop, hurry)


def _detach(project: Project, environment: str | None, listen: str | None) -> None:
    from kfetch_jobs.supervise.background import start_in_background
    from kfetch_jobs.web.address_file import remove, wait_for_page

    remove(project.storage)
    started = start_in_background(project, environment, listen)
    pid = started.child.pid
    page = wait_for_page(project.storage, pid, started.check)
    typer.echo(f"supervising (process {pid}); end it with: kfetch down\n{page}")


@contextmanager
def _signals() -> Iterator[tuple[Callable[[], bool], Callable[[], bool]]]:
    """Whether a signal has come, and whether a second one.

    No Event: its lock may be held by the very code that a signal's handler interrupts.
    """
    seen: list[int] = []

    def asked(number: int, frame: object) -> None:
        seen.append(number)

    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.signal(number, asked) for number in numbers}
    try:
        yield (lambda: len(seen) > 0), (lambda: len(seen) > 1)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _log(project: Project, as_json: bool, quiet: bool) -> Iterator[None]:
    from kfetch_jobs.supervise.log import handlers

    logger = logging.getLogger("kfetch")
    logger.setLevel(logging.INFO)
    made = handlers(project.storage, project.redacted, as_json=as_json, quiet=quiet)
    for handler in made:
        logger.addHandler(handler)
    try:
        yield
    finally:
        for handler in made:
            logger.removeHandler(handler)
            handler.close()


def down(
    project: ProjectFile = None,
    environment: Environment = None,
    now: Annotated[bool, typer.Option("--now", help="Don't wait for micro-batches.")] = False,
    timeout: Timeout = _ENDED_WITHIN_S,
    as_json: Json = False,
) -> None:
    """End the supervisor and every job, also those that a killed supervisor has left running.

    \b
    Example: what is left after a kill -9 of the supervisor, at once
      kfetch down --now
    """
    from kfetch_jobs.supervise.control import down as end
    from kfetch_jobs.supervise.store import Store

    found = project_of(project, environment)
    with Store.of(found.storage) as store:
        runs = end(found, store, timeout_s=timeout, now=now)
    typer.echo(
        json.dumps({"ended": runs})
        if as_json
        else f"down; {counted(runs, 'job was', 'jobs were')} running"
    )


def start(
    jobs: Jobs,
    project: ProjectFile = None,
    environment: Environment = None,
    as_json: Json = False,
) -> None:
    """Run jobs now, whatever their triggers say, and keep them as their files say from then on.

    Their files are read again, but a job that runs already goes on with the file that it began
    with: if that has changed since, it is said. A job that was given up is tried anew. Returns
    when they run, or says that they wait for room beside others. Without a supervisor the order
    waits for the next kfetch up.

    \b
    Example: an hourly job, now
      kfetch start hourly
    """
    from kfetch_jobs.supervise.machine import Order

    _ask(project, environment, jobs, Order.START, as_json)


def stop(
    jobs: Jobs,
    project: ProjectFile = None,
    environment: Environment = None,
    timeout: Timeout = _ENDED_WITHIN_S,
    as_json: Json = False,
) -> None:
    """End jobs after their micro-batch; they stay ended until kfetch start.

    Returns when they have ended.

    \b
    Example: two jobs
      kfetch stop clicks orders
    """
    from kfetch_jobs.supervise.machine import Order

    _ask(project, environment, jobs, Order.STOP, as_json, timeout)


def restart(
    jobs: Jobs,
    project: ProjectFile = None,
    environment: Environment = None,
    timeout: Timeout = _ENDED_WITHIN_S,
    as_json: Json = False,
) -> None:
    """End jobs after their micro-batch, and run them again at once, with their files read again.

    Returns when they run again, or says that they wait for room beside others.

    \b
    Example: after a change of jobs/clicks.yml
      kfetch restart clicks
    """
    from kfetch_jobs.supervise.machine import Order

    _ask(project, environment, jobs, Order.RESTART, as_json, timeout)


def pause(
    jobs: Jobs,
    project: ProjectFile = None,
    environment: Environment = None,
    timeout: Timeout = _ENDED_WITHIN_S,
    as_json: Json = False,
) -> None:
    """End jobs after their micro-batch, until kfetch resume. Times of cron pass meanwhile.

    Returns when they have ended.

    \b
    Example: while a table is being repaired
      kfetch pause clicks
    """
    from kfetch_jobs.supervise.machine import Order

    _ask(project, environment, jobs, Order.PAUSE, as_json, timeout)


def resume(
    jobs: Jobs,
    project: ProjectFile = None,
    environment: Environment = None,
    as_json: Json = False,
) -> None:
    """Go on where a pause has interrupted: a run that it ended begins again at once.

    Their files are read again. Returns when they run, or wait as before.

    \b
    Example:
      kfetch resume clicks
    """
    from kfetch_jobs.supervise.machine import Order

    _ask(project, environment, jobs, Order.RESUME, as_json)


def _ask(
    project: Path | None,
    environment: str | None,
    jobs: list[str],
    order: Order,
    as_json: bool,
    timeout_s: float = _ENDED_WITHIN_S,
) -> None:
    from kfetch_jobs.supervise.control import ask, wait
    from kfetch_jobs.supervise.store import Store

    found = project_of(project, environment)
    with Store.of(found.storage) as store:
        told = ask(found, store, jobs, order)
        taken = told is not None
        if taken:
            wait(store, jobs, order, timeout_s)
        states = store.states()
    phases = {name: states[name].phase if name in states else None for name in jobs}
    if as_json:
        typer.echo(json.dumps({"taken": taken, "jobs": phases, "notes": list(told or ())}))
    elif told is not None:
        typer.echo("\n".join([*(f"{name}: {phase}" for name, phase in phases.items()), *told]))
    else:
        typer.echo(f"no supervisor runs: kept for the next kfetch up ({order} {' '.join(jobs)})")
