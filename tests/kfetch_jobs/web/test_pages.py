"""The page: what it says of jobs, that nothing breaks it, and that nothing gets through as HTML."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from kfetch.admin import agents
from kfetch_jobs.config import Project
from kfetch_jobs.progress import progress_file as progress
from kfetch_jobs.progress.batch import Batch
from kfetch_jobs.run import partition_lags
from kfetch_jobs.run.exit_kind import ExitKind
from kfetch_jobs.run.unreachable import broker_report_path
from kfetch_jobs.supervise.state_machine import JobState, Phase
from kfetch_jobs.supervise.store import Store
from kfetch_jobs.util.disk_space import DiskSpace
from kfetch_jobs.util.files import write_json
from kfetch_jobs.web import pages
from kfetch_jobs.web.snapshot import Snapshot
from tests.kfetch.cli.test_text import QUERY, STATUS
from tests.kfetch_jobs.pages import Html, browser, loaded, supervised
from tests.kfetch_jobs.projects import ENVIRON, JOB
from tests.kfetch_jobs.run.test_partition_lags import lag

EVIL = (
    "<script>alert(1)</script>\"'><img src=x onerror=alert(1)> &amp; \x00 \udcff ${x} {{191*977}}"
)


@pytest.fixture
def shop(project: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with the job clicks, which has read two micro-batches; one agent reads for it."""
    status = replace(STATUS, queries=(replace(QUERY, stream="8a04"),))
    monkeypatch.setattr(agents, "find", lambda *_: [status])
    found, now = loaded(project), time.time()
    directory = found.storage / "clicks"
    directory.mkdir(parents=True)
    for number in (1, 2):
        progress.append_batch(directory / "progress.jsonl", batch(number, now - 20 + 5 * number))
    with Store.of(found.storage) as store:
        run = store.begin("clicks", running(now), now - 90)
        store.started(run, 4711, now - 90, "")
    pulse = {"at": now, "batch": 2, "lag": 1234, "lag_s": 5.0, "query": "8a04"}
    write_json(directory / "pulse.json", pulse)
    partition_lags.write(partition_lags.partitions_path(directory), [lag(clicks=[0, 1234])], now)
    return found


def running(now: float) -> JobState:
    return JobState(phase=Phase.RUNNING, since_s=now - 90, started_s=now - 90)


def batch(number: int, finished: float) -> Batch:
    return Batch(
        batch=number,
        started="",
        finished=finished,
        rows=600,
        seconds=0.5,
        end=1,
        latest=1235,
        phases={"addBatch": 0.3},
    )


def stands(project: Project, **state: object) -> None:
    """The job clicks is in another state."""
    with Store.of(project.storage) as store:
        for run in store.open_runs():
            sentence = str(state.get("sentence", ""))
            store.end(run.id, time.time(), ExitKind.FAILED, sentence, batches=2, rows=1200)
        store.save({"clicks": JobState(since_s=time.time() - 30, **state)})  # type: ignore[arg-type]


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
        "goes on",
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
    told = replace(batch(3, time.time()), dead_letters=12)
    progress.append_batch(shop.storage / "clicks" / "progress.jsonl", told)
    with browser(shop) as client:
        first, own = (Html(client.get(page).text).text for page in pages)
    assert "12 dead letters" in first
    last = "12 records of the last 3 micro-batches could not be decoded"
    assert f"{last} and went to the dead letters, /dead" in own
    assert "Dead letters Behind after" in own
    assert " 600 12 1,234 500" in own

    progress.append_undone(shop.storage / "clicks" / "progress.jsonl", 3)
    with browser(shop) as client:
        for page in pages:
            text = Html(client.get(page).text).text
            assert "dead letter" not in text.lower().replace("dead letters /dead", "")


def test_a_broker_that_is_away(shop: Project) -> None:
    """Both pages name it and its time. They do not say that the job has read all."""
    pulse = {"at": time.time(), "batch": 1, "lag": 0, "lag_s": 0.0, "query": "q"}
    (shop.storage / "clicks" / "pulse.json").write_text(json.dumps(pulse))
    report = broker_report_path(shop.storage / "clicks", "source")
    report.parent.mkdir()
    entry = {"name": "broker 1 (h:9092)", "since": time.time() - 20, "cause": "refused"}
    report.write_text(json.dumps({"at": time.time(), "unreachable": [entry]}))
    with browser(shop) as client:
        for page in ("/", "/jobs/clicks"):
            shown = Html(client.get(page).text).text
            assert "broker 1 (h:9092) unreachable since 2" in shown
            assert "not known: a broker is away" in shown
            assert "has read all" not in shown


def test_the_space_for_its_checkpoint(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job's page shows the free space, and calls for attention before the disk is full."""
    space = DiskSpace(free_bytes=1 << 30, size_bytes=100 << 30)
    monkeypatch.setattr("kfetch_jobs.supervise.status_reader.read_disk_space", lambda _: space)
    with browser(shop) as client:
        assert "1 of 1 job needs attention" in Html(client.get("/").text).text
        shown = Html(client.get("/jobs/clicks").text).text
    assert "checkpoint: 1.00 GiB free of 100 GiB" in shown
    assert "degraded" in shown


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
        ({"phase": Phase.STOPPED, "sentence": "before"}, ("Before this it failed", "before")),
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
        each in shown for each in (*told, "It does not run. Its next run opens", "was 1,234, ")
    )


def test_what_others_wrote_is_text(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page shows errors, descriptions, topics, phases and logs as text, never as HTML."""
    jobs = shop.path.parent / "jobs"
    (jobs / "clicks.yml").write_text(f"description: {json.dumps(EVIL[:-20])}\n{JOB}")
    (jobs / "<b>x.yml").write_text(JOB)
    (jobs / "broken.yml").write_text(f"{json.dumps(EVIL)}: 1\n")
    stands(shop, phase=Phase.FAILED, sentence=EVIL.replace("\udcff", ""))
    directory = shop.storage / "clicks"
    progress.append_batch(
        directory / "progress.jsonl", replace(batch(3, time.time()), phases={EVIL[:40]: 0.5})
    )
    (directory / "run.log").write_text(EVIL, errors="surrogateescape")
    odd = replace(lag(x=[3]), partitions={})
    partition_lags.write(
        partition_lags.partitions_path(directory), [odd, lag(**{EVIL[:30]: [3]})], 1.0
    )
    with browser(shop) as client:
        for path in ("/", "/jobs/clicks", "/jobs/clicks/log"):
            answer = client.get(path)
            assert 200 == answer.status_code, path
            told = Html(answer.text)
            assert "<script>alert" not in answer.text
            assert "<img" not in answer.text
            assert "186607" not in told.text
        assert "<script>alert(1)</script>" in told.text
        assert "<b>x" in Html(client.get("/").text).text


def test_a_log_tells_no_secret(shop: Project) -> None:
    """In place of a secret from the environment, the log page shows the placeholder of the job's
    file."""
    (shop.storage / "clicks" / "run.log").write_text("options: fs.s3a.secret.key=hunter42, then\n")
    file = shop.path.parent / "jobs" / "clicks.yml"
    file.write_text(f"{JOB}spark:\n  spark.hadoop.fs.s3a.secret.key: ${{env:S3_SECRET}}\n")
    known = replace(shop, environ={**ENVIRON, "S3_SECRET": "hunter42"})
    with browser(known) as client:
        shown = client.get("/jobs/clicks/log").text
        assert "fs.s3a.secret.key=${env:S3_SECRET}, then" in Html(shown).text
        assert "hunter42" not in shown
        file.write_text("no: job")
        assert "kfetch can&#39;t tell which texts are secret" in client.get("/jobs/clicks/log").text


def test_a_log_tells_no_secret_of_several_lines(shop: Project) -> None:
    """This holds for a whole secret, and if the displayed part of the log starts inside one."""
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqh\nkiG9w0BAQEFAASCB\nQ==\n-----END KEY-----"
    (shop.path.parent / "key.pem").write_text(f"{key}\n")
    file = shop.path.parent / "jobs" / "clicks.yml"
    file.write_text(f"{JOB}spark:\n  spark.x: ${{file:../key.pem}}\n")
    log = shop.storage / "clicks" / "run.log"
    with browser(shop) as client:
        log.write_text(f"options: {key}, then\n")
        assert "options: ${file:../key.pem}, then" in Html(client.get("/jobs/clicks/log").text).text
        for begun_at in (25, 45):
            rest = f"{key[begun_at:]}\n"
            log.write_text(key[:begun_at] + rest + "x" * ((1 << 20) - len(rest) - 6) + "\nlast\n")
            shown = client.get("/jobs/clicks/log").text
            assert "last" in Html(shown).text
            assert not [part for part in ("DANB", "gkqh", "w0BA", "ASCB") if part in shown]


def test_no_job_yet(shop: Project) -> None:
    """An empty project shows how to write a job."""
    (shop.path.parent / "jobs" / "clicks.yml").unlink()
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
    assert ["not known yet" in shown, "None yet. The first one ends" in shown] == [True, True]
    assert {"t": [], "rows_s": [], "lag": [], "batch_s": []} == points


def test_broken_files_break_no_page(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pages answer with a damaged job file, progress, pulse, partitions or database."""
    monkeypatch.setattr("kfetch_jobs.util.cached_value._FRESH_S", 0.0)
    directory = shop.storage / "clicks"
    with (directory / "progress.jsonl").open("ab") as file:
        file.write(b'{"batch": 1}\n\xff\xfe}\n[]\n' + b'{"lag": NaN}\n')
    (directory / "pulse.json").write_text("[]")
    partition_lags.partitions_path(directory).write_text("{")
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
            run = store.begin("clicks", running(time.time()), time.time())
            store.end(run, time.time(), ExitKind.FAILED, "x" * 500)
    many = [lag(clicks=list(range(10_000)))]
    partition_lags.write(partition_lags.partitions_path(shop.storage / "clicks"), many, time.time())
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
        progress.append_batch(path, batch(number, time.time()))
    with browser(shop) as client:
        first = Html(client.get("/jobs/clicks").text).text
        assert client.get("/jobs/clicks/curves").json()["reading"]
        looks = 0
        while "being read" in Html(client.get("/jobs/clicks").text).text:
            looks += 1
            assert looks < 40
        last = Html(client.get("/jobs/clicks").text).text
    assert "Its history is being read" in first
    assert looks > 2
    assert "600 rows" in last


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
    assert "These figures are 20 s old" in shown


def test_a_supervisor_that_hangs_is_told(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the loop has not stepped for a while, the page says so, because orders would wait."""
    with supervised(shop), browser(shop) as client:
        assert "Supervised for 1" in client.get("/").text
        assert "stood still" not in client.get("/").text
        monkeypatch.setattr(pages, "_STUCK_S", -1.0)
        assert "stood still" in client.get("/").text


def test_a_job_whose_file_is_gone(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both pages show it, say what to do, and offer its end alone."""
    monkeypatch.setattr("kfetch_jobs.supervise.status_reader.supervisor_alive", lambda _: True)
    (shop.path.parent / "jobs" / "clicks.yml").unlink()
    with supervised(shop), Store.of(shop.storage) as store:
        state = JobState(phase=Phase.WAITING, since_s=1.0, due_s=2.0)
        store.save({"clicks": state})
        with browser(shop) as client:
            for address in ("/", "/jobs/clicks"):
                text = client.get(address).text
                assert "its file is gone, and no run of it starts: kfetch stop clicks" in text
                assert ["stop"] == re.findall(r'action="/jobs/clicks/(\w+)"', text)
