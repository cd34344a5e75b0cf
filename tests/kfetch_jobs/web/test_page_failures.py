"""The page: nothing breaks it, neither missing nor damaged nor large files."""

from __future__ import annotations

import re
import time

import pytest

from kfetch_jobs.config import Project
from kfetch_jobs.progress import progress_file as progress
from kfetch_jobs.progress.exit_report import ExitKind
from kfetch_jobs.progress.partition_lags import summarize
from kfetch_jobs.progress.reports import write_partition_lags
from kfetch_jobs.supervise.job_state import JobState, Phase
from kfetch_jobs.supervise.store import Store
from kfetch_jobs.web import pages
from kfetch_jobs.web.snapshot import Snapshot
from tests.kfetch_jobs.pages import Html, browser, supervised
from tests.kfetch_jobs.progress.test_partition_lags import lag
from tests.kfetch_jobs.projects import JOB
from tests.kfetch_jobs.web.clicks import batch, running


def test_no_job_yet(shop: Project) -> None:
    """An empty project shows how to write a job."""
    (shop.path.parent / "jobs" / "clicks.yml").unlink()
    with Store.of(shop.storage) as store:
        store.end_open_runs(time.time(), "")
    with browser(shop) as client:
        shown = Html(client.get("/").text).text
        assert 404 == client.get("/jobs/clicks").status_code
    assert "No job yet" in shown
    assert "kfetch validate" in shown


def test_a_job_before_its_first_micro_batch(shop: Project) -> None:
    """Each part of the page says that it has nothing yet, and when it will."""
    (shop.path.parent / "jobs" / "orders.yml").write_text(JOB)
    with browser(shop) as client:
        shown = Html(client.get("/jobs/orders").text).text
        points = client.get("/jobs/orders/curves").json()["points"]
        assert [] == client.get("/jobs/orders/partitions").json()["topics"]
        assert "there is no log" in client.get("/jobs/orders/log").text
    assert ["unknown yet" in shown, "None yet. The first one ends" in shown] == [True, True]
    assert {"t": [], "rows_s": [], "lag": [], "batch_s": []} == points


def test_broken_files_break_no_page(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pages answer with a damaged job file, progress, pulse, partitions or database."""
    monkeypatch.setattr("kfetch_jobs.util.cached_value._FRESH_S", 0.0)
    directory = shop.storage / "clicks"
    with (directory / "progress.jsonl").open("ab") as file:
        file.write(b'{"batch": 1}\n\xff\xfe}\n[]\n' + b'{"lag": NaN}\n')
    (directory / "pulse.json").write_text("[]")
    (directory / "partitions.json").write_text("{")
    (shop.path.parent / "jobs" / "broken.yml").write_bytes(b"\xff: [")
    with browser(shop) as client:
        assert "1 of 2 jobs needs attention" in client.get("/").text
        assert "file mistake" in client.get("/jobs/broken").text
        assert 200 == client.get("/jobs/clicks").status_code
        for file in (shop.storage / ".supervisor").glob("kfetch.db*"):
            file.write_bytes(b"no database" * 1000)
        for path in ("/", "/jobs/clicks"):
            answer = client.get(path)
            assert "cannot be used" in Html(answer.text).text


def test_answers_are_bounded(shop: Project) -> None:
    """With 10,000 partitions, long errors and many runs, the live part stays small."""
    with Store.of(shop.storage) as store:
        for _ in range(60):
            run = store.begin({"clicks": running(time.time())}, time.time())["clicks"]
            store.end(run, time.time(), ExitKind.FAILED, "x" * 500)
    many = [lag(clicks=list(range(10_000)))]
    write_partition_lags(shop.storage / "clicks", summarize(many, time.time()))
    (shop.storage / "clicks" / "run.log").write_text("y" * 300_000 + "\nlast\n")
    with browser(shop) as client:
        part = client.get("/jobs/clicks", headers={"HX-Request": "true"}).text
        cells = client.get("/jobs/clicks/partitions").content
        assert len(client.get("/jobs/clicks/log").text) < 10_000
    assert len(part) < 60_000
    assert "9,999 of 10,000 behind" in Html(part).text
    assert len(cells) < 200_000


def test_a_long_history_takes_several_looks(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the file is read to its end, the page shows no old micro-batch as the newest."""
    monkeypatch.setattr("kfetch_jobs.util.cached_value._FRESH_S", 0.0)
    monkeypatch.setattr("kfetch_jobs.web.snapshot._SNAPSHOT_BYTES", 600)
    monkeypatch.setattr("kfetch_jobs.web.snapshot._FILE_BYTES_MIN", 600)
    monkeypatch.setattr("kfetch_jobs.progress.follower._SOME_BYTES", 100)
    path = shop.storage / "clicks" / "progress.jsonl"
    for number in range(3, 20):
        progress.append_entry(path.parent, batch(number, time.time()))
    with browser(shop) as client:
        first = Html(client.get("/jobs/clicks").text).text
        assert client.get("/jobs/clicks/curves").json()["reading"]
        looks = 0
        while "reads its history now" in Html(client.get("/jobs/clicks").text).text:
            looks += 1
            assert looks < 40
        last = Html(client.get("/jobs/clicks").text).text
    assert "kfetch reads its history now" in first
    assert looks > 2
    assert "600 records" in last


def test_a_bug_is_a_sentence(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """People get a page, programs a line. The log has the traceback, and the response has not."""
    with browser(shop) as client:
        monkeypatch.setattr(pages.template_values, "job_rows", lambda *_: 1 / 0)
        answer = client.get("/")
        assert (500, True) == (answer.status_code, "log has the reason" in Html(answer.text).text)
        assert "ZeroDivisionError" not in answer.text
        assert "Content-Security-Policy" in answer.headers
        plain = client.get("/nowhere", headers={"Accept": "*/*"})
        assert (404, "Not Found\n") == (plain.status_code, plain.text)


def test_before_the_first_look(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a snapshot the first page says so. It shows the age of an old one."""
    monkeypatch.setattr(pages.CachedValue, "get", lambda *_: Snapshot(at=time.time() - 20))
    with browser(shop) as client:
        shown = Html(client.get("/").text).text
        assert 404 == client.get("/jobs/clicks").status_code
    assert "Reading the project" in shown
    assert re.search("These figures are [2-5][0-9] s old", shown)


def test_a_supervisor_that_hangs_is_told(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the loop has not stepped for a while, the page says so, because orders would wait."""
    with supervised(shop), browser(shop) as client:
        assert "The supervisor has run for" in client.get("/").text
        assert "has done nothing" not in client.get("/").text
        monkeypatch.setattr(pages, "STUCK_S", float("-inf"))  # whatever the clock does
        assert "has done nothing" in client.get("/").text


def test_a_job_whose_file_is_gone(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both pages show it, say what to do, and offer its end alone."""
    monkeypatch.setattr("kfetch_jobs.supervise.status_reader.supervisor_alive", lambda _: True)
    (shop.path.parent / "jobs" / "clicks.yml").unlink()
    with supervised(shop), Store.of(shop.storage) as store:
        state = JobState(phase=Phase.WAITING, since_s=1.0, due_s=2.0)
        store.save({"clicks": state})
        store.end_open_runs(time.time(), "")
        with browser(shop) as client:
            for address in ("/", "/jobs/clicks"):
                text = client.get(address).text
                assert "its file is gone, and no run of it starts: kfetch stop clicks" in text
                assert ["stop"] == re.findall(r'action="/jobs/clicks/(\w+)"', text)
