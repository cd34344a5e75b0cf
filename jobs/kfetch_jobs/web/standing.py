"""How a job stands, in a word, a tone and the orders that make sense: pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from kfetch_jobs.run.exit_kind import ExitKind
from kfetch_jobs.supervise.state_machine import Order, Phase
from kfetch_jobs.supervise.status import JobStatus
from kfetch_jobs.web.units import plural

__all__ = ["Button", "Standing", "Tone", "headline", "standing", "tone_of_run", "worst"]


class Tone(StrEnum):
    """How much it asks of who looks, the most first. The page shows it as shape and colour."""

    BAD = "bad"
    """it does not work, and somebody has to know"""
    WARN = "warn"
    """it works, beyond the limits that its file sets"""
    HELD = "held"
    """somebody has paused or stopped it"""
    CALM = "calm"
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
class Standing:
    """What is said of a job first."""

    tone: Tone
    word: str
    why: tuple[str, ...] = ()
    """Why somebody should look; empty for GOOD, HELD and CALM."""
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


def standing(job: JobStatus) -> Standing:
    """Of one job."""
    buttons = _BUTTONS[job.phase] if job.phase else ()
    if job.mistake:
        return Standing(tone=Tone.BAD, word="file mistake", why=(job.mistake,), buttons=buttons)
    if not job.enabled:
        return Standing(tone=Tone.CALM, word="disabled")
    if job.phase is None:
        return Standing(tone=Tone.CALM, word="not seen yet")
    if job.phase is Phase.RUNNING and job.unhealthy:
        return Standing(tone=Tone.WARN, word="degraded", why=job.unhealthy, buttons=buttons)
    if job.phase is Phase.RUNNING and job.pulse_s is None:
        return Standing(tone=Tone.CALM, word="starting", buttons=buttons)
    tone = _TONES.get(job.phase, Tone.CALM)
    why = (job.error or "it does not say why",) if tone is Tone.BAD else ()
    return Standing(
        tone=tone, word=_WORDS.get(job.phase, job.phase.value), why=why, buttons=buttons
    )


def worst(standings: Sequence[Standing]) -> Tone:
    """The tone of all together: that somebody has to look, or that all is well."""
    tones = {one.tone for one in standings}
    return next((tone for tone in (Tone.BAD, Tone.WARN) if tone in tones), Tone.GOOD)


def headline(standings: Sequence[Standing]) -> str:
    """The first sentence of the page. It changes only when something has happened."""
    need = sum(one.tone in (Tone.BAD, Tone.WARN) for one in standings)
    number = len(standings)
    if not number:
        return "No job yet"
    if need:
        verb = "needs" if need == 1 else "need"
        return f"{need:,} of {plural(number, 'job')} {verb} attention"
    held = sum(one.tone is Tone.HELD for one in standings)
    if held:
        return (
            f"All is well; {held:,} of {plural(number, 'job')} {'is' if held == 1 else 'are'} held"
        )
    return "The job is well" if number == 1 else f"All {number:,} jobs are well"


def tone_of_run(kind: ExitKind | None) -> Tone:
    """Of one run in the history; None is one that goes on."""
    if kind is None:
        return Tone.GOOD
    return Tone.CALM if kind.succeeded else Tone.BAD
