"""The status of a job on the page."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kfetch_jobs.progress.exit_report import ExitKind
from kfetch_jobs.supervise import state_machine as machine
from kfetch_jobs.supervise.job_state import JobState, Phase
from kfetch_jobs.supervise.status import JobStatus
from kfetch_jobs.web.job_status import (
    DisplayedStatus,
    Tone,
    displayed_status,
    headline,
    tone_of_run,
    worst_tone,
)
from tests.kfetch_jobs.supervise.job_files import job_file

JOB = JobStatus(name="clicks", phase=Phase.RUNNING, pid=7, pulse_s=1.0)


@pytest.mark.parametrize("phase", [None, *Phase])
@pytest.mark.parametrize("enabled", [True, False])
def test_the_page_and_the_status_have_one_rule(phase: Phase | None, enabled: bool) -> None:
    """A job with problems needs attention on the page, in each phase, and all of them are there."""
    job = replace(JOB, phase=phase, enabled=enabled, unhealthy=("a move has not ended", "disk"))
    status = displayed_status(job)

    assert status.tone in (Tone.BAD, Tone.WARN)
    assert {*job.unhealthy} <= {*status.why}


@pytest.mark.parametrize(
    ("job", "tone", "word", "why"),
    [
        (JOB, Tone.GOOD, "running", ()),
        (replace(JOB, unhealthy=("300 s behind",)), Tone.WARN, "degraded", ("300 s behind",)),
        (replace(JOB, pulse_s=None), Tone.IDLE, "starting", ()),
        (replace(JOB, mistake="jobs/x.yml:3: no"), Tone.BAD, "file mistake", ("jobs/x.yml:3: no",)),
        (replace(JOB, enabled=False, phase=None), Tone.IDLE, "disabled", ()),
        (
            replace(JOB, enabled=False, unhealthy=("it still runs",)),
            *(Tone.WARN, "disabled, but runs", ("it still runs",)),
        ),
        (
            replace(JOB, enabled=False, phase=Phase.WAITING, unhealthy=("still starts",)),
            *(Tone.WARN, "disabled, but starts", ("still starts",)),
        ),
        (replace(JOB, orphan=True, unhealthy=("gone",)), Tone.WARN, "no file", ("gone",)),
        (replace(JOB, orphan=True, pulse_s=None), Tone.WARN, "no file", ()),
        (replace(JOB, phase=None), Tone.IDLE, "unknown yet", ()),
        (replace(JOB, phase=Phase.FAILED, error="no disk"), Tone.BAD, "given up", ("no disk",)),
        (replace(JOB, phase=Phase.BACKOFF, error="no disk"), Tone.BAD, "failing", ("no disk",)),
        (
            replace(JOB, phase=Phase.BACKOFF, error="no disk", queue_place=2),
            *(Tone.BAD, "failing", ("no disk",)),
        ),
        (replace(JOB, phase=Phase.BACKOFF), Tone.BAD, "failing", ("the job gave no reason",)),
        (replace(JOB, phase=Phase.WAITING, error="before"), Tone.IDLE, "waiting", ()),
        (
            replace(JOB, phase=Phase.WAITING, queue_place=2),
            *(Tone.IDLE, "waiting for room", ()),
        ),
        (
            replace(JOB, phase=Phase.WAITING, queue_place=2, unhealthy=("no room",)),
            *(Tone.WARN, "waiting for room", ("no room",)),
        ),
        (
            replace(JOB, phase=Phase.FAILED, error="no", unhealthy=("given up: no", "disk full")),
            *(Tone.BAD, "given up", ("no", "disk full")),
        ),
        (
            replace(JOB, phase=Phase.BACKOFF, unhealthy=("it can't start: no", "failed 1 time: ")),
            *(Tone.BAD, "failing", ("the job gave no reason", "it can't start: no")),
        ),
        (replace(JOB, phase=Phase.FINISHED), Tone.IDLE, "finished", ()),
        (replace(JOB, phase=Phase.STOPPING), Tone.IDLE, "stopping", ()),
        (replace(JOB, phase=Phase.PAUSED), Tone.HELD, "paused", ()),
        (replace(JOB, phase=Phase.STOPPED), Tone.HELD, "stopped", ()),
    ],
)
def test_what_is_said_of_a_job(job: JobStatus, tone: Tone, word: str, why: tuple[str, ...]) -> None:
    """A job that fails has its reason. A paused or stopped job raises no alarm."""
    told = displayed_status(job)

    assert (tone, word, why) == (told.tone, told.word, told.why)


@pytest.mark.parametrize("phase", Phase)
def test_every_button_does_something(phase: Phase) -> None:
    """In each phase every button changes the job's phase. No button is there twice."""
    file, state = job_file("continuous"), JobState(phase=phase, since_s=0.0)
    buttons = displayed_status(replace(JOB, phase=phase)).buttons

    assert len({button.order for button in buttons}) == len(buttons)
    for button in buttons:
        assert phase is not machine.apply_order(file, state, button.order, 1.0).phase or (
            phase is Phase.WAITING  # it runs at once instead of later
        )


@pytest.mark.parametrize(
    ("tones", "text", "tone"),
    [
        ([], "No job yet", Tone.GOOD),
        ([Tone.GOOD], "The job is well", Tone.GOOD),
        ([Tone.GOOD, Tone.IDLE], "All 2 jobs are well", Tone.GOOD),
        ([Tone.GOOD, Tone.HELD], "All is well. 1 of 2 jobs is paused or stopped", Tone.GOOD),
        ([Tone.GOOD, Tone.WARN, Tone.HELD], "1 of 3 jobs needs attention", Tone.WARN),
        ([Tone.BAD, Tone.WARN], "2 of 2 jobs need attention", Tone.BAD),
    ],
)
def test_the_first_sentence(tones: list[Tone], text: str, tone: Tone) -> None:
    """The headline counts jobs that need attention. It has nothing that changes by itself."""
    statuses = [DisplayedStatus(tone=each, word="") for each in tones]

    assert (text, tone) == (headline(statuses), worst_tone(statuses))


def test_runs_have_tones() -> None:
    """A run that ended well is idle, any other is bad."""
    assert Tone.GOOD is tone_of_run(None)
    assert {ExitKind.FINISHED, ExitKind.STOPPED} == {
        kind for kind in ExitKind if tone_of_run(kind) is Tone.IDLE
    }
