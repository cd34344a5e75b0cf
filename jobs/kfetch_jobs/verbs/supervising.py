"""``kfetch up`` and ``down``, and the orders to jobs: ``start``, ``stop``, ``restart``, …"""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Annotated

import typer

from kfetch.admin.cli.arguments import Json, print_result
from kfetch_jobs.util.wording import counted
from kfetch_jobs.verbs.arguments import with_project

if TYPE_CHECKING:  # late in the verbs: `kfetch --help` needs none of it
    from kfetch_jobs.config import Project

Jobs = Annotated[list[str], typer.Argument(metavar="JOB...", help="The names of one job or more.")]
Listen = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        envvar="KFETCH_LISTEN",
        show_envvar=False,
        help="The address of the page and of /metrics. Default: KFETCH_LISTEN, or 127.0.0.1:4747 "
        "if that is free. --listen none turns the page off.",
    ),
]
_TIMEOUT_S: float = 180
Timeout = Annotated[
    float, typer.Option(help="How long to wait for running micro-batches, in seconds.")
]


@with_project
def up(
    *,
    project: Project,
    detach: Annotated[
        bool,
        typer.Option("--detach", help="Run in the background, and print the address of the page."),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write the log as lines of JSON.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Write the log only to its file, not to the terminal.")
    ] = False,
    tell: Annotated[bool, typer.Option(hidden=True)] = False,
    listen: Listen = None,
) -> None:
    """Start the supervisor. It runs the project's jobs until Ctrl-C, SIGTERM or kfetch down.

    Each job is a process of its own. If a job fails, the supervisor restarts it after a back-off.
    It does not retry a mistake in a file, a refused log-in or lost data. At the end it waits for
    each job's micro-batch. A second Ctrl-C stops the jobs at once. If somebody kills the
    supervisor, its jobs continue, and the next supervisor takes them over.

    If the project's file has sharedState, several hosts may run kfetch up. One of them leads. The
    others wait, and one takes over within a minute if the leader ends or dies.

    The supervisor serves a page at http://127.0.0.1:4747, and Prometheus metrics at /metrics of
    that address. Other machines can use another address (--listen), but only with a token. Set
    KFETCH_TOKEN to the token. People log in with it. Programs send it in the header Authorization:
    Bearer. KFETCH_METRICS_TOKEN is a second token, which opens only /metrics.

    \b
    Example: run in the background, for production
      kfetch up --env prod --detach
    """
    if detach:
        _detach(project, listen)
        return
    from kfetch_jobs.supervise.supervisor_lock import hold_supervisor_lock
    from kfetch_jobs.supervise.terms import Terms
    from kfetch_jobs.util.redact import redacted_output
    from kfetch_jobs.web.address import page_sentence
    from kfetch_jobs.web.serve import listening, serving

    with (
        redacted_output(project.redacted),
        _log(project, as_json, quiet),
        _signals() as (stop, hurry),
        hold_supervisor_lock(project.storage),  # before the address: a running supervisor has both
        listening(listen) as (listener, logins, closed),
        ExitStack() as page,
    ):

        def ready(lead: str) -> None:
            address = page.enter_context(
                serving(project, listener, logins, lambda: terms.last_step_s)
            )
            sentence = page_sentence(address, token=bool(logins.token), closed=closed)
            if not tell:
                return
            with suppress(BrokenPipeError):  # ``up --detach`` waits for it, or no longer
                typer.echo("\n".join(filter(None, (lead, sentence))))

        terms = Terms(project, stop, hurry, ready)
        terms.run()


def _detach(project: Project, listen: str | None) -> None:
    from kfetch_jobs.supervise.background import start_in_background

    pid, page = start_in_background(project, listen)
    typer.echo(f"the supervisor runs (process {pid}); stop it with: kfetch down\n{page}")


@contextmanager
def _signals() -> Iterator[tuple[Callable[[], bool], Callable[[], bool]]]:
    """Yields two functions: whether a signal has come, and whether a second one has.

    It uses no Event: the code that a handler interrupts may hold the Event's lock.
    """
    signals: list[int] = []

    def record(number: int, frame: object) -> None:
        signals.append(number)

    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.signal(number, record) for number in numbers}
    try:
        yield (lambda: len(signals) > 0), (lambda: len(signals) > 1)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _log(project: Project, as_json: bool, quiet: bool) -> Iterator[None]:
    from kfetch_jobs.supervise.supervisor_log import log_handlers

    logger = logging.getLogger("kfetch_jobs")
    logger.setLevel(logging.INFO)
    added = log_handlers(project.storage, project.redacted, as_json=as_json, quiet=quiet)
    for handler in added:
        logger.addHandler(handler)
    try:
        yield
    finally:
        for handler in added:
            logger.removeHandler(handler)
            handler.close()


@with_project
def down(
    *,
    project: Project,
    now: Annotated[bool, typer.Option("--now", help="Do not wait for micro-batches.")] = False,
    timeout: Timeout = _TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Stop the supervisor and every job of this host.

    The command also stops jobs that a killed supervisor has left running. It waits for their
    micro-batches. If another host waits for the lead, it takes over at once.

    \b
    Example: stop the jobs of a killed supervisor at once
      kfetch down --now
    """
    from kfetch_jobs.supervise.control import shut_down as end
    from kfetch_jobs.supervise.leadership import read_lead
    from kfetch_jobs.supervise.store import Store

    with Store.of(project.storage) as store:
        runs = end(project, store, timeout_s=timeout, now=now)
        lead = read_lead(project, store)
    sentences = [f"down; {counted(runs, 'job was', 'jobs were')} running"]
    sentences += lead.sentences() if lead else []
    print_result(as_json, {"ended": runs}, sentences)


@with_project
def start(jobs: Jobs, *, project: Project, as_json: Json = False) -> None:
    """Run jobs now, whatever their triggers say. The supervisor then keeps them running.

    The supervisor reads their files again. It also retries a job that it has given up. A running
    job keeps the file that it started with. If that file has changed, the command says so: use
    kfetch restart.

    The command returns when the jobs run, or says that they wait for other jobs to end. If no
    supervisor runs, the jobs start with the next kfetch up.

    \b
    Example: run an hourly job now
      kfetch start hourly
    """
    _send_order(project, jobs, "start", as_json)


@with_project
def stop(
    jobs: Jobs, *, project: Project, timeout: Timeout = _TIMEOUT_S, as_json: Json = False
) -> None:
    """Stop jobs after their micro-batch. They stay stopped until kfetch start.

    The command returns when the jobs have ended.

    \b
    Example: stop two jobs
      kfetch stop clicks orders
    """
    _send_order(project, jobs, "stop", as_json, timeout)


@with_project
def restart(
    jobs: Jobs, *, project: Project, timeout: Timeout = _TIMEOUT_S, as_json: Json = False
) -> None:
    """Stop jobs after their micro-batch, read their files again, and run them at once.

    The command returns when the jobs run again, or says that they wait for other jobs to end.

    \b
    Example: apply a change of jobs/clicks.yml
      kfetch restart clicks
    """
    _send_order(project, jobs, "restart", as_json, timeout)


@with_project
def pause(
    jobs: Jobs, *, project: Project, timeout: Timeout = _TIMEOUT_S, as_json: Json = False
) -> None:
    """Stop jobs after their micro-batch, until kfetch resume. Cron times pass without a run.

    The command returns when the jobs have ended.

    \b
    Example: pause a job while you repair its table
      kfetch pause clicks
    """
    _send_order(project, jobs, "pause", as_json, timeout)


@with_project
def resume(jobs: Jobs, *, project: Project, as_json: Json = False) -> None:
    """Run paused jobs again. A run that the pause has interrupted starts at once.

    The supervisor reads their files again. The command returns when the jobs run. Jobs that waited
    before the pause wait again.

    \b
    Example: resume a job
      kfetch resume clicks
    """
    _send_order(project, jobs, "resume", as_json)


def _send_order(
    project: Project, jobs: list[str], word: str, as_json: bool, timeout_s: float = _TIMEOUT_S
) -> None:
    from kfetch_jobs.supervise.control import give_order, wait_until_done
    from kfetch_jobs.supervise.job_state import Order
    from kfetch_jobs.supervise.leadership import refresh_if_led_elsewhere
    from kfetch_jobs.supervise.store import Store

    order = Order(word)

    with Store.of(project.storage) as store:
        notes = give_order(project, store, jobs, order)
        if notes is not None:
            wait_until_done(store, jobs, order, timeout_s, refresh_if_led_elsewhere(project, store))
        states = store.states()
    phases = {name: states[name].phase if name in states else None for name in jobs}
    document = {"taken": notes is not None, "jobs": phases, "notes": list(notes or ())}
    next_ = "leads: the next leader" if project.file.sharedState else "runs: the next kfetch up"
    lines = [f"no supervisor {next_} does it ({order} {' '.join(jobs)})"]
    if notes is not None:
        lines = [*(f"{name}: {phase}" for name, phase in phases.items()), *notes]
    print_result(as_json, document, lines)
