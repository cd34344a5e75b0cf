"""The page: what it says of jobs."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace

import pytest

from kfetch.storage.lease import taken
from kfetch.storage.open import lease_beside, stored_path
from kfetch.storage.processes import this_process
from kfetch_jobs.config import Project
from kfetch_jobs.progress import progress_file as progress
from kfetch_jobs.progress.batch import RowsDeleted
from kfetch_jobs.progress.exit_report import ExitKind
from kfetch_jobs.progress.reports import Pulse, broker_report_path, write_pulse
from kfetch_jobs.supervise.job_state import Phase
from kfetch_jobs.util.disk_space import DiskSpace
from kfetch_jobs.web.units import UNKNOWN
from tests.kfetch_jobs.pages import Html, browser, supervised
from tests.kfetch_jobs.projects import JOB
from tests.kfetch_jobs.web.clicks import batch, stands


def test_the_first_page_tells_of_each_job(shop: Project) -> None:
    """A row has state, lag in records and seconds, throughput and duration of a micro-batch. One
    address serves the page and its live part."""
    with browser(shop) as client:
        whole = client.get("/")
        part = client.get("/", headers={"HX-Request": "true"})
    for text in (whole.text, part.text):
        shown = Html(text).text
        for told in ("The job is well", "running", "clicks", "1,234", "waiting 5", "500 ms"):
            assert told in shown
        assert re.search(r"\b(1[89]|20) last minute", shown)
    assert whole.text.startswith("<!doctype html>")
    assert part.text.lstrip().startswith('<div id="state"')


def test_a_job_has_a_page(shop: Project) -> None:
    """The page has micro-batches by phase, sessions per broker and executor, runs, and the
    partitions that are furthest behind."""
    with browser(shop) as client:
        shown = Html(client.get("/jobs/clicks").text).text
    for told in (
        "clicks -1 1,234",
        "1 of 2 behind",
        "addBatch: 300 ms",
        "broker 1 (h:9092) session 77 5 12",
        "agent process 9",
        "still runs",
        "every 2 seconds",
    ):
        assert told in shown, told


def test_dead_letters_are_seen(shop: Project) -> None:
    """Both pages show dead letters while one of the listed micro-batches has some. A job without
    dead letters has no such text."""
    pages = ("/", "/jobs/clicks")
    with browser(shop) as client:
        assert not [
            page for page in pages if "dead letter" in Html(client.get(page).text).text.lower()
        ]

    decoding = JOB.replace("  options:", "  decode: {fields: a INT}\n  options:")
    own_table = decoding.replace("  path:", "  deadLetters: {path: /dead}\n  path:")
    (shop.path.parent / "jobs" / "clicks.yml").write_text(own_table)
    example = "t-0, offset 7: the value does not fit valueSchema: field id is no INT, at byte 6"
    told = replace(batch(3, time.time()), dead_letters=12, dead_letter=example)
    progress.append_entry(shop.storage / "clicks", told)
    with browser(shop) as client:
        first, own = (Html(client.get(page).text).text for page in pages)
    assert "12 dead letters" in first
    last = "kfetch could not decode 12 records of the last 3 micro-batches"
    assert f"{last}. Look at the dead letters: /dead The newest: {example}" in own
    assert "Dead letters Behind after" in own
    assert " 600 12 1,234 500" in own

    progress.append_entry(shop.storage / "clicks", RowsDeleted(undone_from=3, move=5))
    with browser(shop) as client:
        for page in pages:
            text = Html(client.get(page).text).text
            assert "dead letter" not in text.lower().replace("dead letters /dead", "")
            assert example not in text


def test_a_broker_that_is_away(shop: Project) -> None:
    """Both pages name it and its time. They do not say that nothing is left to read.

    The job is degraded since the outage, and not since its start.
    """
    write_pulse(shop.storage / "clicks", Pulse(at=time.time(), batch=1, lag=0, query="q"))
    report = broker_report_path(shop.storage / "clicks", "source")
    report.parent.mkdir()
    entry = {"name": "broker 1 (h:9092)", "since": time.time() - 20, "cause": "refused"}
    report.write_text(json.dumps({"at": time.time(), "unreachable": [entry]}))
    with browser(shop) as client:
        for page in ("/", "/jobs/clicks"):
            shown = Html(client.get(page).text).text
            assert "broker 1 (h:9092) unreachable since 2" in shown
            shown_line = " ".join(shown.split())
            assert f"{UNKNOWN} unknown: a broker does not answer" in shown_line
            degraded = re.search(r"degraded for (\d+) s", shown_line)
            assert degraded
            assert 20 <= int(degraded[1]) < 80
            assert "nothing left to read" not in shown


def test_an_idle_job(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without reads, agents end. The page does not suspect other machines then. A state that goes
    on has its duration."""
    monkeypatch.setattr("kfetch.admin.agents.find", lambda *_: [])
    with browser(shop) as client:
        busy = Html(client.get("/jobs/clicks").text).text
    monkeypatch.setattr("kfetch_jobs.web.snapshot.Observer.rate", lambda *_: 0.0)
    with browser(shop) as client:
        idle = Html(client.get("/jobs/clicks").text).text
    assert "Do its executors run on other machines" in busy
    assert "Do its executors run on other machines" not in idle
    assert "An idle agent ends after a minute" in idle
    assert "running for 1" in " ".join(idle.split())


def test_the_space_for_its_checkpoint(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job's page shows the free space, and calls for attention before the disk is full."""
    space = DiskSpace(free_bytes=1 << 30, size_bytes=100 << 30)
    monkeypatch.setattr("kfetch_jobs.supervise.status_reader.read_disk_space", lambda _: space)
    with browser(shop) as client:
        assert "1 of 1 job needs attention" in Html(client.get("/").text).text
        shown = Html(client.get("/jobs/clicks").text).text
    assert "checkpoint: 1.00 GiB free of 100 GiB" in shown
    assert "degraded" in shown


def test_the_holder_of_its_lease(shop: Project) -> None:
    """A job's page says which process on which host holds its checkpoint, and since when."""
    job = shop.job("clicks")
    path = stored_path(job.checkpoint, job.spark)
    assert path is not None
    holder = replace(this_process("run of job clicks"), host="b", pid=12, machine="another")
    lease = taken(None, holder, 30.0, time.time() - 300)
    with browser(shop) as client:
        before = Html(client.get("/jobs/clicks").text).text
    lease_beside(path).write(lease.content(), None)
    with browser(shop) as client:
        shown = Html(client.get("/jobs/clicks").text).text
    assert "held by" not in before
    assert "held by process 12 on host b (run of job clicks), taken 5 min ago" in shown


def test_figures_for_plots(shop: Project) -> None:
    """Each window has columns of one length, with the ends of runs. Partitions come from the
    job's file."""
    stands(shop, phase=Phase.STOPPED)
    with browser(shop) as client:
        for window in ("15m", "3h", "24h"):
            told = client.get(f"/jobs/clicks/curves?window={window}").json()
            assert 1 == len({len(column) for column in told["points"].values()})
            assert 1234 in told["points"]["lag"]
        assert [ExitKind.FAILED] == [end["kind"] for end in told["ends"]]
        assert 404 == client.get("/jobs/clicks/curves?window=9y").status_code
        topics = client.get("/jobs/clicks/partitions").json()["topics"]
        assert ["clicks", [0, 1], [0, 1234]] == [
            topics[0][name] for name in ("topic", "partitions", "behind")
        ]


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ({"phase": Phase.FAILED, "sentence": "no such topic"}, ("given up", "no such topic")),
        (
            {"phase": Phase.BACKOFF, "failures": 3, "due_s": 90.0, "sentence": "away"},
            ("failing", "away", "3 times in a row", "in 1 min"),
        ),
        ({"phase": Phase.PAUSED}, ("paused", "Resume")),
        (
            {"phase": Phase.WAITING, "due_s": 7300.0},
            ("waiting", "next run in 2 h"),
        ),
        ({"phase": Phase.STOPPED, "sentence": "before"}, ("Earlier it failed", "before")),
    ],
)
def test_a_job_that_does_not_run(shop: Project, state: dict[str, object], told: tuple[str]) -> None:
    """Its page has the full reason and the next step. Its row is on the first page."""
    if isinstance(due_s := state.get("due_s"), float):
        state = state | {"due_s": time.time() + due_s}
    stands(shop, **state)
    with browser(shop) as client:
        shown = Html(client.get("/jobs/clicks").text).text
        Html(client.get("/").text)
    assert all(
        each in shown for each in (*told, "The job does not run. Its next run opens", "was 1,234, ")
    )


def test_a_job_that_waits_for_room(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both pages say so, with its place. After five minutes the job needs attention."""
    monkeypatch.setattr("kfetch_jobs.util.cached_value._FRESH_S", 0.0)
    now = time.time()
    with supervised(shop), browser(shop) as client:
        for ready_s, late in ((now - 60, False), (now - 400, True)):
            stands(shop, phase=Phase.WAITING, due_s=now - 500, ready_s=ready_s)
            for path in ("/", "/jobs/clicks"):
                shown = Html(client.get(path).text).text
                assert "waiting for room" in shown
                assert "place 1 in the queue" in shown
                assert late is ("no room to run for 4" in shown)
