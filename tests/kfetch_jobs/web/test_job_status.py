"""How jobs stand: every state has its word, and every button does something."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kfetch_jobs.progress.history import Batch
from kfetch_jobs.run.kinds import Kind
from kfetch_jobs.supervise import machine
from kfetch_jobs.supervise.machine import Phase, State
from kfetch_jobs.supervise.rules import Rules
from kfetch_jobs.supervise.view import JobView
from kfetch_jobs.web import drawing
from kfetch_jobs.web.job_status import (
    JobStatus,
    Tone,
    headline,
    job_status,
    tone_of_run,
    worst_tone,
)

JOB = JobView(name="clicks", phase=Phase.RUNNING, pulse_s=1.0)


@pytest.mark.parametrize(
    ("job", "tone", "word", "why"),
    [
        (JOB, Tone.GOOD, "running", ()),
        (replace(JOB, unhealthy=("300 s behind",)), Tone.WARN, "degraded", ("300 s behind",)),
        (replace(JOB, pulse_s=None), Tone.IDLE, "starting", ()),
        (replace(JOB, mistake="jobs/x.yml:3: no"), Tone.BAD, "file mistake", ("jobs/x.yml:3: no",)),
        (replace(JOB, enabled=False, phase=None), Tone.IDLE, "disabled", ()),
        (replace(JOB, phase=None), Tone.IDLE, "not seen yet", ()),
        (replace(JOB, phase=Phase.FAILED, error="no disk"), Tone.BAD, "given up", ("no disk",)),
        (replace(JOB, phase=Phase.BACKOFF, error="no disk"), Tone.BAD, "failing", ("no disk",)),
        (replace(JOB, phase=Phase.BACKOFF), Tone.BAD, "failing", ("the job gave no reason",)),
        (replace(JOB, phase=Phase.WAITING, error="before"), Tone.IDLE, "waiting", ()),
        (replace(JOB, phase=Phase.FINISHED), Tone.IDLE, "finished", ()),
        (replace(JOB, phase=Phase.STOPPING), Tone.IDLE, "stopping", ()),
        (replace(JOB, phase=Phase.PAUSED), Tone.HELD, "paused", ()),
        (replace(JOB, phase=Phase.STOPPED), Tone.HELD, "stopped", ()),
    ],
)
def test_what_is_said_of_a_job(job: JobView, tone: Tone, word: str, why: tuple[str, ...]) -> None:
    """What does not work says why; what somebody has held does not alarm anybody."""
    told = job_status(job)

    assert (tone, word, why) == (told.tone, told.word, told.why)


@pytest.mark.parametrize("phase", Phase)
def test_every_button_does_something(phase: Phase) -> None:
    """In each phase the orders that are offered move the job; none is offered twice."""
    rules, state = Rules(finite=False), State(phase=phase, since_s=0.0)
    buttons = job_status(replace(JOB, phase=phase)).buttons

    assert len({button.order for button in buttons}) == len(buttons)
    for button in buttons:
        assert phase is not machine.order(rules, state, button.order, 1.0).phase or (
            phase is Phase.WAITING  # it runs at once instead of later
        )


@pytest.mark.parametrize(
    ("tones", "text", "tone"),
    [
        ([], "No job yet", Tone.GOOD),
        ([Tone.GOOD], "The job is well", Tone.GOOD),
        ([Tone.GOOD, Tone.IDLE], "All 2 jobs are well", Tone.GOOD),
        ([Tone.GOOD, Tone.HELD], "All is well; 1 of 2 jobs is held", Tone.GOOD),
        ([Tone.GOOD, Tone.WARN, Tone.HELD], "1 of 3 jobs needs attention", Tone.WARN),
        ([Tone.BAD, Tone.WARN], "2 of 2 jobs need attention", Tone.BAD),
    ],
)
def test_the_first_sentence(tones: list[Tone], text: str, tone: Tone) -> None:
    """It says how many need somebody, and nothing that changes by itself."""
    statuses = [JobStatus(tone=each, word="") for each in tones]

    assert (text, tone) == (headline(statuses), worst_tone(statuses))


def test_runs_have_tones() -> None:
    """A run that did what it should is calm, one that did not is bad."""
    assert Tone.GOOD is tone_of_run(None)
    assert {Kind.FINISHED, Kind.STOPPED} == {
        kind for kind in Kind if tone_of_run(kind) is Tone.IDLE
    }


def test_a_line_of_little_or_nothing() -> None:
    """One point is no line; what is unknown stays as it was; zeros lie on the ground."""
    assert "" == drawing.sparkline([]) == drawing.sparkline([5.0])
    assert "M0.0 1.0L60.0 1.0L120.0 23.0" == drawing.sparkline([4.0, None, 0.0])
    assert "M0.0 23.0L120.0 23.0" == drawing.sparkline([None, 0.0])


def test_phases_are_as_wide_as_they_took() -> None:
    """In Spark's order, the rest at the end, and never beyond the picture."""
    batch = Batch(
        batch=1,
        started="",
        finished=1.0,
        rows=1,
        seconds=2.0,
        end=1,
        latest=1,
        phases={"addBatch": 1.0, "latestOffset": 0.5, "unheard": 0.25},
    )
    bars = drawing.bars(batch, longest_s=4.0)

    assert [("latestOffset", 0.0, 25.0), ("addBatch", 25.0, 50.0), ("other", 75.0, 25.0)] == [
        (bar.phase, bar.x, bar.width) for bar in bars
    ]
    wild = replace(batch, phases={"addBatch": 1e9, "getBatch": -1.0})
    assert all(bar.x + bar.width <= drawing.BAR_WIDTH for bar in drawing.bars(wild, 0.0))
    assert set(drawing.phases()) >= {bar.phase for bar in bars}
