"""A job's status on the page: a word, a tone, reasons and buttons; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from kfetch_jobs.progress.exit_report import ExitKind
from kfetch_jobs.supervise.job_state import Order, Phase
from kfetch_jobs.supervise.status import JobStatus
from kfetch_jobs.util.wording import counted


class Tone(StrEnum):
    """How urgent a job is, the most urgent first. The page shows it as shape and colour."""

    BAD = "bad"
    """It does not work."""
    WARN = "warn"
    """It works, but beyond the limits of its file."""
    HELD = "held"
    """Somebody has paused or stopped it."""
    IDLE = "idle"
    """It has nothing to do now."""
    GOOD = "good"


@dataclass(frozen=True, slots=True)
class Button:
    """A button for an order."""

    order: Order
    label: str
    asks: str = ""
    """The question that the page asks first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplayedStatus:
    """What the page shows first of a job."""

    tone: Tone
    word: str
    why: tuple[str, ...] = ()
    """The reasons, for BAD and WARN only."""
    buttons: tuple[Button, ...] = ()


_PAUSE = Button(Order.PAUSE, "Pause")
_RESTART = Button(Order.RESTART, "Restart")
_RUN = Button(Order.START, "Run now")
_STOP = Button(
    Order.STOP, "Stop", "Stop it after its micro-batch? It stays stopped until somebody starts it."
)

_BUTTONS = {
    Phase.RUNNING: (_PAUSE, _RESTART, _STOP),
    Phase.STOPPING: (),
    Phase.WAITING: (_RUN, _PAUSE, _STOP),
    Phase.BACKOFF: (Button(Order.START, "Try now"), _PAUSE, _STOP),
    Phase.FINISHED: (_RUN,),
    Phase.FAILED: (Button(Order.START, "Try again"),),
    Phase.PAUSED: (Button(Order.RESUME, "Resume"), _STOP),
    Phase.STOPPED: (Button(Order.START, "Start"),),
}
_TONES: dict[Phase | None, Tone] = {
    Phase.RUNNING: Tone.GOOD,
    Phase.BACKOFF: Tone.BAD,
    Phase.FAILED: Tone.BAD,
    Phase.PAUSED: Tone.HELD,
    Phase.STOPPED: Tone.HELD,
}
_UNWANTED = {
    Phase.RUNNING: (_STOP,),
    Phase.WAITING: (_STOP,),
    Phase.BACKOFF: (_STOP,),
}
"""Buttons for a job whose file is gone or disables it: nothing but an end."""
_WORDS = {Phase.BACKOFF: "failing", Phase.FAILED: "given up"}


def displayed_status(job: JobStatus) -> DisplayedStatus:
    """Returns the status of a job."""
    buttons = _BUTTONS[job.phase] if job.phase else ()
    if job.mistake:
        return DisplayedStatus(
            tone=Tone.BAD, word="file mistake", why=(job.mistake,), buttons=buttons
        )
    if job.orphan or (not job.enabled and job.unhealthy):
        word = "no file" if job.orphan else _disabled_word(job)
        stop = _UNWANTED.get(job.phase, ()) if job.phase else ()
        return DisplayedStatus(tone=Tone.WARN, word=word, why=job.unhealthy, buttons=stop)
    if not job.enabled:
        return DisplayedStatus(tone=Tone.IDLE, word="disabled")
    tone, why = _TONES.get(job.phase, Tone.IDLE), job.unhealthy
    if tone is Tone.BAD:  # the word says that it failed
        others = (one for one in why if not one.endswith(f": {job.error}"))
        why = (job.error or "the job gave no reason", *others)
    elif why:
        tone = Tone.WARN
    elif job.starting:
        tone = Tone.IDLE
    return DisplayedStatus(tone=tone, word=_word(job), why=why, buttons=buttons)


def _word(job: JobStatus) -> str:
    if job.phase is None:
        return "unknown yet"
    if job.phase is Phase.RUNNING and job.unhealthy:
        return "degraded"
    if job.starting:
        return "starting"
    if job.phase is Phase.WAITING and job.queue_place:
        return "waiting for room"
    return _WORDS.get(job.phase, job.phase.value)


def _disabled_word(job: JobStatus) -> str:
    waits = job.phase in (Phase.WAITING, Phase.BACKOFF)
    return "disabled, but starts" if waits else "disabled, but runs"


def worst_tone(statuses: Sequence[DisplayedStatus]) -> Tone:
    """Returns BAD or WARN if a job has that tone, and else GOOD."""
    tones = {status.tone for status in statuses}
    return next((tone for tone in (Tone.BAD, Tone.WARN) if tone in tones), Tone.GOOD)


def headline(statuses: Sequence[DisplayedStatus]) -> str:
    """Returns the first sentence of the page. It changes only when a job's status changes."""
    need = sum(status.tone in (Tone.BAD, Tone.WARN) for status in statuses)
    number = len(statuses)
    if not number:
        return "No job yet"
    if need:
        verb = "needs" if need == 1 else "need"
        return f"{need:,} of {counted(number, 'job')} {verb} attention"
    held = sum(status.tone is Tone.HELD for status in statuses)
    if held:
        return (
            f"All is well. {held:,} of {counted(number, 'job')} "
            f"{'is' if held == 1 else 'are'} paused or stopped"
        )
    return "The job is well" if number == 1 else f"All {number:,} jobs are well"


def tone_of_run(kind: ExitKind | None) -> Tone:
    """Returns the tone of a past run. None stands for the running one."""
    if kind is None:
        return Tone.GOOD
    return Tone.IDLE if kind.succeeded else Tone.BAD
