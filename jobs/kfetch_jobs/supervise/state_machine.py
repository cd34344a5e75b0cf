"""What a supervised job does next: pure. Time, chance and processes come in as arguments.

    state          = initial_state(file, now)
    state          = apply_order(file, state, Order.PAUSE, now)         an order arrives
    state          = after_launch(file, state, now)                     the process has started
    state          = after_exit(file, state, kind, why, now, chance)    the process has ended
    state          = after_refusal(file, state, why, now)               it can't be started now
    state, action  = tick(file, state, facts)                           time passes: do the action

Orders and exits only change the state, and only ``tick`` returns an action. So a supervisor that
dies between the two takes the action after its restart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from kfetch_jobs.progress.exit_report import ExitKind
from kfetch_jobs.supervise.job_state import Action, Facts, JobState, Order, Phase

if TYPE_CHECKING:
    from kfetch_jobs.config.models import JobFile

SILENT_KILLS_MAX = 3
"""The supervisor kills so many silent runs at one micro-batch. Then it lets a run go on."""
_SERVED_S = 3 * 3600.0
"""A cron time that comes again because the clock went back by less has had its run. Debian's cron
has the same limit."""
_MARGIN_S = 20.0
"""Spark and its JVM need up to this long to end, after the micro-batch."""


def initial_state(
    file: JobFile, now: float, before: JobState | None = None, ended_s: float | None = None
) -> JobState:
    """Returns the state at a supervisor's start.

    ``before`` is the state at the end of the last supervisor, which was at ``ended_s``. STOPPED and
    PAUSED stay. A run that this end has interrupted, or a back-off, goes on at once. Other jobs
    begin anew, with the cron times that have passed since.
    """
    if before is None:
        return JobState(phase=Phase.WAITING, since_s=now, due_s=_first_due(file, now))
    if before.phase in (Phase.STOPPED, Phase.PAUSED):
        return before
    if before.phase is Phase.STOPPING and before.then in (Phase.STOPPED, Phase.PAUSED):
        return replace(before, phase=before.then, since_s=now, then=None)
    forced = _was_interrupted(before)
    return JobState(
        phase=Phase.WAITING,
        since_s=now,
        due_s=now if forced else _due_after_pause(file, before, now, ended_s),
        forced=forced,
        started_s=before.started_s,
        finished_s=before.finished_s,
        queued=before.queued,
    )


def _first_due(file: JobFile, now: float) -> float | None:
    """When the first run begins; None if it waits for the jobs in ``after``."""
    if file.trigger.cron is not None:
        return file.trigger.next_time(now)
    return None if file.after else now


def _was_interrupted(before: JobState) -> bool:
    waits_to_go_on = before.phase is Phase.WAITING and before.forced
    return waits_to_go_on or before.phase is Phase.BACKOFF or before.phase.has_process


def _due_after_pause(
    file: JobFile, before: JobState, now: float, ended_s: float | None
) -> float | None:
    """When the next run is due after a time without a supervisor.

    The job's file may be new, so a due time of the old one counts only if it had come already.
    """
    since_s = now if ended_s is None else min(now, ended_s)
    if file.trigger.cron is None:
        return _first_due(file, now)
    if before.phase is Phase.WAITING and before.due_s is not None and before.due_s <= since_s:
        return before.due_s
    return file.trigger.next_time(since_s)


def interrupt(state: JobState, now: float) -> JobState:
    """Returns the state of a job whose supervisor ends. The next one resumes a running job."""
    if state.phase is not Phase.RUNNING:
        return replace(state, ready_s=None)
    return _moved(state, Phase.STOPPING, now, then=Phase.RUNNING, asked=False)


def after_clock_step(file: JobFile, state: JobState, step_s: float, now: float) -> JobState:
    """Returns the state after somebody has set the clock by ``step_s``, to ``now``.

    All durations stay. A cron time that has come stays due. If the clock goes back by hours, the
    next cron time is planned again. A small step back repeats no run.
    """
    moments = {name: getattr(state, name) for name in ("ready_s", "started_s", "finished_s")}
    moved = {name: at + step_s for name, at in moments.items() if at is not None}
    state = replace(state, since_s=state.since_s + step_s, **moved)
    if state.due_s is None:
        return state
    if _is_no_cron_time(file, state) or state.due_s <= now - step_s:
        return replace(state, due_s=state.due_s + step_s)
    return planned_again(file, state, now) if step_s < -_SERVED_S else state


def planned_again(file: JobFile, state: JobState, now: float) -> JobState:
    """Returns the state with the next cron time, unless the job is due.

    A wrong clock may have set a later time. A file that was unreadable, or had ``after``, set none.
    """
    due_s = math.inf if state.due_s is None and state.phase is Phase.WAITING else state.due_s
    if due_s is None or due_s <= now or _is_no_cron_time(file, state):
        return state
    return replace(state, due_s=min(due_s, file.trigger.next_time(now)))


def _is_no_cron_time(file: JobFile, state: JobState) -> bool:
    return file.trigger.cron is None or state.forced or state.phase is Phase.BACKOFF


def apply_order(file: JobFile, state: JobState, order: Order, now: float) -> JobState:
    """Returns the state after an order. An order without a sense in this phase changes nothing."""
    if state.phase.has_process:
        return _apply_to_process(state, order, now)
    if order in (Order.START, Order.RESTART):
        return _run_now(state, now)
    if order is Order.STOP:
        return _moved(state, Phase.STOPPED, now, due_s=None, failures=0)
    if order is Order.PAUSE and state.phase in (Phase.WAITING, Phase.BACKOFF, Phase.FINISHED):
        # The due time stays: after ``resume`` the job goes on waiting.
        return _moved(state, Phase.PAUSED, now, then=state.phase)
    if order is Order.RESUME and state.phase is Phase.PAUSED:
        return _resumed(file, state, now)
    return state


_PHASE_AFTER = {
    Order.STOP: Phase.STOPPED,
    Order.PAUSE: Phase.PAUSED,
    Order.RESTART: Phase.WAITING,
    Order.START: Phase.WAITING,
    Order.RESUME: Phase.WAITING,
}


def _apply_to_process(state: JobState, order: Order, now: float) -> JobState:
    if state.phase is Phase.STOPPING:  # the process ends anyway; the phase after it may change
        return replace(state, then=_PHASE_AFTER[order])
    if order in (Order.START, Order.RESUME):
        return state
    return _moved(state, Phase.STOPPING, now, then=_PHASE_AFTER[order], asked=False)


def _resumed(file: JobFile, state: JobState, now: float) -> JobState:
    if state.then is Phase.FINISHED:
        return _moved(state, Phase.FINISHED, now, then=None)
    if state.then is None:  # the pause cut its run short: it goes on at once
        return _run_now(state, now)
    due_s = state.due_s
    if file.trigger.cron is not None and due_s is not None and due_s < now:
        due_s = _first_due(file, now)  # skip the times during the pause
    return _moved(state, Phase.WAITING, now, then=None, due_s=due_s)


def _run_now(state: JobState, now: float) -> JobState:
    state = _moved(state, Phase.WAITING, now, then=None, due_s=now, forced=True)
    return replace(state, failures=0, silent_kills=0, sentence="")


def after_launch(file: JobFile, state: JobState, now: float) -> JobState:
    """Returns the state after the start of the process."""
    due_s = file.trigger.next_time(now) if file.trigger.cron is not None else None
    return _moved(state, Phase.RUNNING, now, started_s=now, due_s=due_s, forced=False, asked=False)


def after_exit(
    file: JobFile, state: JobState, kind: ExitKind, sentence: str, now: float, chance: float
) -> JobState:
    """Returns the state after the end of the process.

    ``chance`` is a random number from 0 to 1.
    """
    if state.phase is Phase.STOPPING and state.then is not Phase.BACKOFF:
        return _exit_by_order(file, state, kind, now)
    if kind is ExitKind.FINISHED and file.trigger.finite:
        return _after_finish(file, state, now)
    if state.phase is Phase.STOPPING:
        kind, sentence = ExitKind.HUNG, state.sentence
    return _after_failure(
        file, state, kind, sentence or _UNEXPECTED_EXITS.get(kind, str(kind)), now, chance
    )


def after_interruption(file: JobFile, state: JobState, now: float) -> JobState:
    """Returns the state after the end of a running process for a reason outside its job.

    That is no failure. The job goes on after the first pause, so that no fault makes it start all
    the time.
    """
    return _moved(state, Phase.WAITING, now, due_s=now + file.restart.initial, forced=True)


def after_refusal(file: JobFile, state: JobState, sentence: str, now: float) -> JobState:
    """Returns the state of a due job that can't be started now. That is no failure either.

    Its pauses grow as after failures. Those so far tell how long the next one is.
    """
    since_s = state.since_s if state.refusal else now
    pause_s = file.restart.initial + (now - since_s) * (file.restart.factor - 1)
    due_s = now + min(file.restart.max, pause_s)
    state = _moved(state, Phase.WAITING, since_s, due_s=due_s, forced=True)
    return replace(state, refusal=sentence)


def after_reading(file: JobFile, state: JobState, now: float) -> JobState:
    """Returns the state of a job whose file could not be read until now."""
    is_done = state.phase is Phase.FINISHED and file.trigger.availableNow and not file.after
    if state.phase in (Phase.WAITING, Phase.FINISHED) and not is_done:
        return initial_state(file, now, state)
    return replace(state, refusal="")


_UNEXPECTED_EXITS = {
    ExitKind.FINISHED: "it ended, and was not to end",
    ExitKind.STOPPED: "it was stopped, and not by its supervisor",
}


def _exit_by_order(file: JobFile, state: JobState, kind: ExitKind, now: float) -> JobState:
    then = state.then
    if kind is ExitKind.FINISHED and file.trigger.finite:  # it finished before the SIGTERM
        state = _after_finish(file, replace(state, then=None), now)
        if then is Phase.PAUSED:
            return _moved(state, Phase.PAUSED, now, then=state.phase)
        if then is Phase.RUNNING:
            return state
    if then in (Phase.WAITING, Phase.RUNNING):
        return _run_now(state, now)
    assert then is not None
    return _moved(state, then, now, then=None, due_s=None, failures=0, queued=False)


def _after_finish(file: JobFile, state: JobState, now: float) -> JobState:
    queued = state.queued
    state = replace(state, finished_s=now, failures=0, silent_kills=0, sentence="")
    state = replace(state, queued=False)
    if file.trigger.cron is not None:
        due_s = now if queued else file.trigger.next_time(now)
        return _moved(state, Phase.WAITING, now, due_s=due_s)
    if file.after:
        return _moved(state, Phase.WAITING, now, due_s=None)
    return _moved(state, Phase.FINISHED, now, due_s=None)


def _after_failure(
    file: JobFile, state: JobState, kind: ExitKind, sentence: str, now: float, chance: float
) -> JobState:
    failures = 1 if _was_healthy(file, state, now) else state.failures + 1
    state = replace(state, failures=failures, sentence=sentence, then=None)
    attempts = file.restart.attempts
    if kind.needs_a_person or (attempts is not None and failures > attempts):
        return _moved(state, Phase.FAILED, now, due_s=None)
    return _moved(state, Phase.BACKOFF, now, due_s=now + file.restart.pause_s(failures, chance))


def _was_healthy(file: JobFile, state: JobState, now: float) -> bool:
    return state.started_s is not None and now - state.started_s >= file.restart.resetAfter


def tick(file: JobFile, state: JobState, facts: Facts) -> tuple[JobState, Action | None]:
    """Returns the state and the action that is due now. ``after_launch`` confirms a launch."""
    if state.phase is Phase.RUNNING:
        return _tick_running(file, state, facts)
    if state.phase is Phase.STOPPING:
        return _tick_stopping(file, state, facts)
    if state.phase in (Phase.WAITING, Phase.BACKOFF):
        return _tick_waiting(_bounded_backoff(file, state, facts.now), facts)
    return state, None


def _tick_waiting(state: JobState, facts: Facts) -> tuple[JobState, Action | None]:
    if not _is_due(state, facts):
        return replace(state, ready_s=None), None
    if facts.has_room:
        return state, Action.LAUNCH
    return replace(state, ready_s=state.ready_s or facts.now), None


def jobs_ahead(name: str, states: Mapping[str, JobState]) -> int:
    """Returns how many jobs get room before this one. Jobs that an order starts come first.

    A job that is not ready yet comes after all others of its kind.
    """
    turn = _turn(name, states[name])
    ready = (other for other in states if states[other].ready_s is not None)
    return sum(_turn(other, states[other]) < turn for other in ready)


def _turn(name: str, state: JobState) -> tuple[bool, float, str]:
    return not state.forced, math.inf if state.ready_s is None else state.ready_s, name


def upstream_finished(file: JobFile, state: JobState, others: Mapping[str, JobState]) -> bool:
    """Returns whether the jobs in ``after`` have finished.

    A job whose runs end by themselves needs finishes since its own last start. For other jobs, one
    finish is enough.
    """
    since_s = state.started_s if file.trigger.finite and state.started_s is not None else 0.0
    finishes = (others[name].finished_s if name in others else None for name in file.after)
    return all(at is not None and at > since_s for at in finishes)


def _is_due(state: JobState, facts: Facts) -> bool:
    may_run = facts.upstream_finished or state.forced or state.phase is Phase.BACKOFF
    return facts.has_file and may_run and (state.due_s is None or state.due_s <= facts.now)


def _bounded_backoff(file: JobFile, state: JobState, now: float) -> JobState:
    """Shorten a back-off that grew because somebody set the clock back."""
    latest = now + file.restart.max * (1 + file.restart.jitter)
    if state.phase is Phase.BACKOFF and state.due_s is not None and state.due_s > latest:
        return replace(state, due_s=latest)
    return state


def _tick_running(file: JobFile, state: JobState, facts: Facts) -> tuple[JobState, Action | None]:
    now = facts.now
    if state.failures and _was_healthy(file, state, now):
        state = replace(state, failures=0, sentence="")
    if file.trigger.cron is not None and state.due_s is not None and state.due_s <= now:
        state = replace(
            state, due_s=file.trigger.next_time(now), queued=file.trigger.overlap == "queue"
        )
    if facts.has_committed or (facts.is_idle and _was_healthy(file, state, now)):
        state = replace(state, silent_kills=0)
    limit_s = file.health.noProgress
    if limit_s is not None and facts.silent_s > limit_s:
        return _tick_silent(file, state, facts)
    return state, None


def _tick_silent(file: JobFile, state: JobState, facts: Facts) -> tuple[JobState, Action | None]:
    """End a run without progress; but not again and again at one micro-batch.

    A micro-batch that takes longer than the limit each time would never end.
    """
    kills = state.silent_kills + 1
    if kills > SILENT_KILLS_MAX:
        return state, None
    last = ": its next run is not killed" if kills == SILENT_KILLS_MAX else ""
    sentence = (
        f"it made no progress for {facts.silent_s:.0f} s "
        f"(kill {kills} of {SILENT_KILLS_MAX} at this micro-batch{last})"
    )
    hung = _moved(state, Phase.STOPPING, facts.now, then=Phase.BACKOFF, asked=False)
    hung = replace(hung, sentence=sentence, silent_kills=kills)
    return _tick_stopping(file, hung, facts)


def _tick_stopping(file: JobFile, state: JobState, facts: Facts) -> tuple[JobState, Action | None]:
    if not state.asked:
        return replace(state, asked=True), Action.END
    late = facts.now - state.since_s > file.stopWithin + _MARGIN_S
    return state, Action.KILL if late else None


def _moved(state: JobState, phase: Phase, now: float, **changes: object) -> JobState:
    state = replace(state, refusal="", ready_s=None)
    return replace(state, phase=phase, since_s=now, **changes)  # type: ignore[arg-type]
