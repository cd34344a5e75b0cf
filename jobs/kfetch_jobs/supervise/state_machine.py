"""What a supervised job does next: pure. Time and chance are arguments, processes are words.

    state            = initial(rules, now)
    state            = order(rules, state, Order.PAUSE, now)      somebody asks for something
    state            = launched(rules, state, now)                its process was started
    state            = ended(rules, state, ending, now, chance)   its process is gone
    state, action    = tick(rules, state, facts)                  time passes; do what is returned

Orders and endings only move the state; ``tick`` alone tells what is to be done, so a supervisor
that died between the two does it when it is back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from kfetch_jobs.run.exit_kind import ExitKind
from kfetch_jobs.supervise.rules import Rules

__all__ = [
    "Action",
    "Facts",
    "JobState",
    "Order",
    "Phase",
    "after_exit",
    "after_launch",
    "apply_order",
    "initial_state",
    "tick",
    "upstream_finished",
]


class Phase(StrEnum):
    """Where a job stands."""

    WAITING = "waiting"
    """for its time, for the jobs before it, or for room"""
    RUNNING = "running"
    STOPPING = "stopping"
    """it was told to end after its micro-batch"""
    BACKOFF = "backoff"
    """it failed, and waits before the next attempt"""
    FINISHED = "finished"
    """it read all there was, and nothing asks for more"""
    FAILED = "failed"
    """it was given up: only ``start`` and ``restart`` bring it back"""
    PAUSED = "paused"
    STOPPED = "stopped"

    @property
    def has_process(self) -> bool:
        """Whether a process belongs to it."""
        return self in (Phase.RUNNING, Phase.STOPPING)


class Order(StrEnum):
    """What may be asked of a job."""

    START = "start"
    """a run now, whatever its trigger says"""
    STOP = "stop"
    RESTART = "restart"
    PAUSE = "pause"
    RESUME = "resume"


class Action(StrEnum):
    """What the supervisor has to do."""

    LAUNCH = "launch"
    END = "end"
    """SIGTERM: after its micro-batch"""
    KILL = "kill"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """All that is remembered of a job; it survives the supervisor."""

    phase: Phase
    since_s: float
    """When the phase began."""
    due_s: float | None = None
    """The next run begins then at the earliest; None: when the jobs before it have finished."""
    forced: bool = False
    """The next run waits for no other job: somebody asked for it."""
    failures: int = 0
    """In a row."""
    started_s: float | None = None
    """The last run's start."""
    finished_s: float | None = None
    """The last time a run finished."""
    then: Phase | None = None
    """What follows STOPPING."""
    asked: bool = False
    """Whether the process was told to end."""
    queued: bool = False
    """A time of the cron expression came while the job ran."""
    sentence: str = ""
    """Why it failed, the last time it did; empty after a run that finished or was healthy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a tick has to know of the world."""

    now: float
    upstream_finished: bool = True
    """The jobs that this one comes after have finished."""
    has_room: bool = True
    """Fewer jobs run than may."""
    silent_s: float = 0.0
    """For so long the query has said nothing."""


def initial_state(rules: Rules, now: float, before: JobState | None = None) -> JobState:
    """At the supervisor's start. After a clean end only what was stopped or paused stays so."""
    if before and before.phase in (Phase.STOPPED, Phase.PAUSED):
        return before
    if before and before.phase is Phase.STOPPING and before.then in (Phase.STOPPED, Phase.PAUSED):
        return replace(before, phase=before.then, since_s=now, then=None)
    fresh = JobState(phase=Phase.WAITING, since_s=now, due_s=rules.first_due(now))
    if before is None:
        return fresh
    return replace(fresh, started_s=before.started_s, finished_s=before.finished_s)


def apply_order(rules: Rules, state: JobState, asked: Order, now: float) -> JobState:
    """Somebody asks for something. What makes no sense in a phase changes nothing."""
    if state.phase.has_process:
        return _order_running(state, asked, now)
    if asked in (Order.START, Order.RESTART):
        return _run_now(state, now)
    if asked is Order.STOP:
        return _moved(state, Phase.STOPPED, now, due_s=None, failures=0)
    if asked is Order.PAUSE and state.phase in (Phase.WAITING, Phase.BACKOFF, Phase.FINISHED):
        # Its due time is kept: a job that was paused while it waited goes on waiting.
        return _moved(state, Phase.PAUSED, now, then=state.phase)
    if asked is Order.RESUME and state.phase is Phase.PAUSED:
        return _resumed(rules, state, now)
    return state


_NEXT = {
    Order.STOP: Phase.STOPPED,
    Order.PAUSE: Phase.PAUSED,
    Order.RESTART: Phase.WAITING,
    Order.START: Phase.WAITING,
    Order.RESUME: Phase.WAITING,
}


def _order_running(state: JobState, asked: Order, now: float) -> JobState:
    if state.phase is Phase.STOPPING:  # on its way to an end: what follows may change
        return replace(state, then=_NEXT[asked])
    if asked in (Order.START, Order.RESUME):
        return state
    return _moved(state, Phase.STOPPING, now, then=_NEXT[asked], asked=False)


def _resumed(rules: Rules, state: JobState, now: float) -> JobState:
    if state.then is Phase.FINISHED:
        return _moved(state, Phase.FINISHED, now, then=None)
    if state.then is None:  # its run was cut short: it goes on at once
        return _run_now(state, now)
    due_s = state.due_s
    if rules.times is not None and due_s is not None and due_s < now:
        due_s = rules.first_due(now)  # times that passed in a pause are passed over
    return _moved(state, Phase.WAITING, now, then=None, due_s=due_s)


def _run_now(state: JobState, now: float) -> JobState:
    return _moved(
        state, Phase.WAITING, now, then=None, due_s=now, forced=True, failures=0, sentence=""
    )


def after_launch(rules: Rules, state: JobState, now: float) -> JobState:
    """Its process was started."""
    due_s = rules.next_time(now) if rules.times is not None else None
    return _moved(state, Phase.RUNNING, now, started_s=now, due_s=due_s, forced=False, asked=False)


def after_exit(
    rules: Rules, state: JobState, kind: ExitKind, sentence: str, now: float, chance: float
) -> JobState:
    """Its process is gone. ``chance`` is a random number from 0 to 1."""
    if state.phase is Phase.STOPPING and state.then is not Phase.BACKOFF:
        return _ended_as_asked(rules, state, kind, now)
    if kind is ExitKind.FINISHED and rules.finite:
        return _finished(rules, state, now)
    if state.phase is Phase.STOPPING:
        kind, sentence = ExitKind.HUNG, state.sentence
    return _failed(rules, state, kind, sentence or _UNASKED.get(kind, str(kind)), now, chance)


_UNASKED = {
    ExitKind.FINISHED: "it ended, and was not to end",
    ExitKind.STOPPED: "it was stopped, and not by its supervisor",
}


def _ended_as_asked(rules: Rules, state: JobState, kind: ExitKind, now: float) -> JobState:
    then = state.then
    if kind is ExitKind.FINISHED and rules.finite:  # it was done before it could be told
        state = _finished(rules, replace(state, then=None), now)
        if then is Phase.PAUSED:
            return _moved(state, Phase.PAUSED, now, then=state.phase)
    if then is Phase.WAITING:
        return _run_now(state, now)
    assert then is not None
    return _moved(state, then, now, then=None, due_s=None, failures=0, queued=False)


def _finished(rules: Rules, state: JobState, now: float) -> JobState:
    queued = state.queued
    state = replace(state, finished_s=now, failures=0, sentence="", queued=False)
    if rules.times is not None:
        due_s = now if queued else rules.next_time(now)
        return _moved(state, Phase.WAITING, now, due_s=due_s)
    if rules.after:
        return _moved(state, Phase.WAITING, now, due_s=None)
    return _moved(state, Phase.FINISHED, now, due_s=None)


def _failed(
    rules: Rules, state: JobState, kind: ExitKind, sentence: str, now: float, chance: float
) -> JobState:
    failures = 1 if _was_healthy(rules, state, now) else state.failures + 1
    state = replace(state, failures=failures, sentence=sentence, then=None)
    if kind.needs_a_person or (rules.attempts is not None and failures > rules.attempts):
        return _moved(state, Phase.FAILED, now, due_s=None)
    return _moved(state, Phase.BACKOFF, now, due_s=now + rules.pause_s(failures, chance))


def _was_healthy(rules: Rules, state: JobState, now: float) -> bool:
    return state.started_s is not None and now - state.started_s >= rules.reset_after_s


def tick(rules: Rules, state: JobState, facts: Facts) -> tuple[JobState, Action | None]:
    """Time passes. The action is to be done now; a launch is confirmed by ``launched``."""
    if state.phase is Phase.RUNNING:
        return _tick_running(rules, state, facts)
    if state.phase is Phase.STOPPING:
        return _tick_stopping(rules, state, facts)
    if state.phase in (Phase.WAITING, Phase.BACKOFF):
        state = _not_later(rules, state, facts.now)
        return state, Action.LAUNCH if _due(state, facts) else None
    return state, None


def upstream_finished(rules: Rules, state: JobState, others: Mapping[str, JobState]) -> bool:
    """Whether the jobs before it have finished: for a job that ends by itself, since its own last
    start; for one that does not, ever."""
    since_s = state.started_s if rules.finite and state.started_s is not None else 0.0
    finished = (others[name].finished_s if name in others else None for name in rules.after)
    return all(at is not None and at > since_s for at in finished)


def _due(state: JobState, facts: Facts) -> bool:
    ready = facts.upstream_finished or state.forced or state.phase is Phase.BACKOFF
    return facts.has_room and ready and (state.due_s is None or state.due_s <= facts.now)


def _not_later(rules: Rules, state: JobState, now: float) -> JobState:
    """A clock that was set back must not make a pause longer."""
    latest = now + rules.max_s * (1 + rules.jitter)
    if state.phase is Phase.BACKOFF and state.due_s is not None and state.due_s > latest:
        return replace(state, due_s=latest)
    return state


def _tick_running(rules: Rules, state: JobState, facts: Facts) -> tuple[JobState, Action | None]:
    now = facts.now
    if state.failures and _was_healthy(rules, state, now):
        state = replace(state, failures=0, sentence="")
    if rules.times is not None and state.due_s is not None and state.due_s <= now:
        state = replace(state, due_s=rules.next_time(now), queued=rules.queue)
    if rules.no_progress_s is not None and facts.silent_s > rules.no_progress_s:
        told = f"it made no progress for {facts.silent_s:.0f} s"
        hung = _moved(state, Phase.STOPPING, now, then=Phase.BACKOFF, sentence=told, asked=False)
        return _tick_stopping(rules, hung, facts)
    return state, None


def _tick_stopping(rules: Rules, state: JobState, facts: Facts) -> tuple[JobState, Action | None]:
    if not state.asked:
        return replace(state, asked=True), Action.END
    late = facts.now - state.since_s > rules.stop_s
    return state, Action.KILL if late else None


def _moved(state: JobState, phase: Phase, now: float, **changes: object) -> JobState:
    return replace(state, phase=phase, since_s=now, **changes)  # type: ignore[arg-type]
