"""How a job stands, in a word, a tone and the orders that make sense: pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from kfetch_jobs.run.kinds import Kind
from kfetch_jobs.supervise.machine import Order, Phase
from kfetch_jobs.supervise.view import JobView
from kfetch_jobs.web.units import plural

__all__ = ["Button", "JobStatus", "Tone", "headline", "job_status", "tone_of_run", "worst_tone"]


class Tone(StrEnum):
    """How much it asks of who looks, the most first. The page shows it as shape and colour."""

    BAD = "bad"
    """it does not work, and somebody has to know"""
    WARN = "warn"
    """it works, beyond the limits that its file sets"""
    HELD = "held"
    """somebody has paused or stopped it"""
    IDLE = "idle"
    """there is nothing for it to do now"""
    GOOD = "good"


@dataclass(frozen=True, slots=True)
class Button:
    """An order, as it reads on its button."""

    order: Order
    label: str
    asks: str = ""
    """The question before it is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """What is said of a job first."""

    tone: Tone
    word: str
    why: tuple[str, ...] = ()
    """Why somebody should look; empty for GOOD, HELD and IDLE."""
    buttons: tuple[Button, ...] = ()


_PAUSE = Button(Order.PAUSE, "Pause")
_RESTART = Button(Order.RESTART, "Restart")
_RUN = Button(Order.START, "Run now")
_STOP = Button(
    Order.STOP, "Stop", "Stop it after its micro-batch? It stays ended until somebody starts it."
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
_TONES = {
    Phase.RUNNING: Tone.GOOD,
    Phase.BACKOFF: Tone.BAD,
    Phase.FAILED: Tone.BAD,
    Phase.PAUSED: Tone.HELD,
    Phase.STOPPED: Tone.HELD,
}
_WORDS = {Phase.BACKOFF: "failing", Phase.FAILED: "given up"}


def job_status(job: JobView) -> JobStatus:
    """Of one job."""
    buttons = _BUTTONS[job.phase] if job.phase else ()
    if job.mistake:
        return JobStatus(tone=Tone.BAD, word="file mistake", why=(job.mistake,), buttons=buttons)
    if not job.enabled:
        return JobStatus(tone=Tone.IDLE, word="disabled")
    if job.phase is None:
        return JobStatus(tone=Tone.IDLE, word="not seen yet")
    if job.phase is Phase.RUNNING and job.unhealthy:
        return JobStatus(tone=Tone.WARN, word="degraded", why=job.unhealthy, buttons=buttons)
    if job.phase is Phase.RUNNING and job.pulse_s is None:
        return JobStatus(tone=Tone.IDLE, word="starting", buttons=buttons)
    tone = _TONES.get(job.phase, Tone.IDLE)
    why = (job.error or "it does not say why",) if tone is Tone.BAD else ()
    return JobStatus(
        tone=tone, word=_WORDS.get(job.phase, job.phase.value), why=why, buttons=buttons
    )


def worst_tone(statuses: Sequence[JobStatus]) -> Tone:
    """The tone of all together: that somebody has to look, or that all is well."""
    tones = {one.tone for one in statuses}
    return next((tone for tone in (Tone.BAD, Tone.WARN) if tone in tones), Tone.GOOD)


def headline(statuses: Sequence[JobStatus]) -> str:
    """The first sentence of the page. It changes only when something has happened."""
    need = sum(one.tone in (Tone.BAD, Tone.WARN) for one in statuses)
    number = len(statuses)
    if not number:
        return "No job yet"
    if need:
        verb = "needs" if need == 1 else "need"
        return f"{need:,} of {plural(number, 'job')} {verb} attention"
    held = sum(one.tone is Tone.HELD for one in statuses)
    if held:
        return (
            f"All is well; {held:,} of {plural(number, 'job')} {'is' if held == 1 else 'are'} held"
        )
    return "The job is well" if number == 1 else f"All {number:,} jobs are well"


def tone_of_run(kind: Kind | None) -> Tone:
    """Of one run in the history; None is one that goes on."""
    if kind is None:
        return Tone.GOOD
    return Tone.IDLE if kind.good else Tone.BAD
