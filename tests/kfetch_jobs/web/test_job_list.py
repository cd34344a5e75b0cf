"""The first page of a project with many jobs."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from kfetch_jobs.config import Project
from kfetch_jobs.supervise.job_state import JobState, Phase
from kfetch_jobs.supervise.status import JobStatus
from kfetch_jobs.supervise.store import Store
from kfetch_jobs.web.job_list import MANY, JobList, Wish, calls, job_list
from kfetch_jobs.web.job_status import displayed_status
from kfetch_jobs.web.template_values import JobRow
from tests.kfetch_jobs.pages import Html, browser, loaded
from tests.kfetch_jobs.projects import JOB

RUNS = JobStatus(name="clicks", phase=Phase.RUNNING, pulse_s=1.0, topics=("events",))
WAITS = JobStatus(name="hourly", phase=Phase.WAITING)
FAILED = JobStatus(name="sales", phase=Phase.FAILED, error="job sales failed: no disk")


def row(job: JobStatus) -> JobRow:
    return JobRow(
        job=job, status=displayed_status(job), rate=None, batch_s=None, dead_letters=0,
        lag_line="", rate_line="",
    )  # fmt: skip


def listed(wish: Wish, *jobs: JobStatus) -> JobList:
    return job_list([row(job) for job in jobs], wish)


def names(rows: object) -> list[str]:
    assert isinstance(rows, (list, tuple))
    return [one.job.name for one in rows]


@pytest.mark.parametrize(
    ("text", "found"),
    [("click", ["clicks"]), ("EVENTS", ["clicks"]), ("given", ["sales"]), ("wait", ["hourly"])],
)
def test_the_filter(text: str, found: list[str]) -> None:
    """It looks at the name, the topics and the state, and says how many jobs do not fit."""
    shown = listed(Wish(text), RUNS, WAITS, FAILED)
    assert (found, 2) == (names(shown.shown), shown.hidden)


def test_the_order() -> None:
    """By name unless somebody asks: nobody can click on a row that moves."""
    late = replace(RUNS, name="visits", lag=5)
    jobs = (RUNS, WAITS, FAILED, late)
    assert ["clicks", "hourly", "sales", "visits"] == names(listed(Wish(), *jobs).shown)
    assert "sales" == names(listed(Wish(order="urgent"), *jobs).shown)[0]
    assert "visits" == names(listed(Wish(order="behind"), *jobs).shown)[0]
    assert Wish("", "name") == Wish.of({"order": "no such order"})


def test_waiting_jobs_are_folded() -> None:
    """Among many jobs, those that wait for their next run are apart. A filter shows them."""
    jobs = [RUNS, *(replace(WAITS, name=f"hourly{n}") for n in range(MANY))]
    shown = listed(Wish(), *jobs)
    assert (["clicks"], MANY) == (names(shown.shown), len(shown.waiting))
    assert MANY == len(listed(Wish("hourly"), *jobs).shown)
    assert [] == listed(Wish(), RUNS, WAITS).waiting


def test_equal_causes_are_together() -> None:
    """Each sentence names its own job. Otherwise they say the same."""
    others = [
        replace(FAILED, name=name, error=f"job {name} failed: {cause}")
        for name, cause in (("a", "no disk"), ("b", "no topic"))
    ]
    rows = [row(job) for job in (FAILED, *others, RUNS)]
    assert [["sales", "a"], ["b"]] == [names(call) for call in calls(rows)]


def test_the_page_of_many_jobs(project: Path) -> None:
    """The first page has a filter from a dozen jobs on, folds those that wait, and merges causes.

    The codes of errors lead to their explanations.
    """
    file = project / "conf" / "jobs" / "clicks.yml"
    file.unlink()
    for number in range(MANY):
        text = JOB.replace("${storage}/clicks", f"${{storage}}/job{number:02}")
        (file.parent / f"job{number:02}.yml").write_text(text)
    shop: Project = loaded(project)
    now = time.time()
    with Store.of(shop.storage) as store:
        for number in range(MANY):
            state = JobState(phase=Phase.WAITING, since_s=now, due_s=now + 3600)
            if number < 3:
                sentence = f"job job{number:02} failed: a <b> broke [LOG_TRUNCATED] [NO_CODE]"
                state = JobState(phase=Phase.FAILED, since_s=now, sentence=sentence)
            store.save({f"job{number:02}": state})
    with browser(shop) as client:
        whole = client.get("/").text
        part = client.get("/?find=job05", headers={"HX-Request": "true"}).text
        page = client.get("/explain/LOG_TRUNCATED").text
        assert 404 == client.get("/explain/NO_CODE").status_code
    assert "3 jobs have the same cause" in Html(whole).text
    assert "9 jobs wait for the next run" in Html(whole).text
    assert 'a &lt;b&gt; broke [<a href="/explain/LOG_TRUNCATED">LOG_TRUNCATED</a>]' in whole
    assert "[NO_CODE]" in whole
    assert "job05" in Html(part).text
    assert "11 jobs do not fit the filter" in Html(part).text
    assert "job06" not in Html(part).text
    assert "What to do" in page
