"""The page, the status and the metrics of a host that leads, and of one that waits."""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from kfetch.fetch.stats import FetchStats
from kfetch.fetch.totals import write_driver_stats, write_stats
from kfetch.storage.lease import Holder, taken
from kfetch.storage.processes import this_process
from kfetch_jobs import config
from kfetch_jobs.config import Project
from kfetch_jobs.errors import JobsError
from kfetch_jobs.metrics.collect import MetricsCollector
from kfetch_jobs.offsets.execution import jobs_at_rest
from kfetch_jobs.progress.batch import Batch
from kfetch_jobs.progress.exit_report import ExitKind
from kfetch_jobs.progress.progress_file import append_entry
from kfetch_jobs.supervise.job_state import JobState, Phase
from kfetch_jobs.supervise.leadership import Shared, term_file
from kfetch_jobs.supervise.shared_state import WaitingHost
from kfetch_jobs.supervise.status_reader import read_status
from kfetch_jobs.supervise.store import Store, SupervisorRecord
from tests.kfetch_jobs.commands import Command
from tests.kfetch_jobs.metrics.scrape import sample_of, scraped
from tests.kfetch_jobs.pages import Html, browser
from tests.kfetch_jobs.projects import ENVIRON, JOB, PROJECT

AWAY = replace(this_process("kfetch up, storage /srv"), host="node-a", pid=12, machine="another")


@pytest.fixture
def shared(project: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with the job clicks, whose state several hosts share. A supervisor runs here."""
    monkeypatch.setenv("SERVERS", ENVIRON["SERVERS"])
    more = "sharedState: ../data/state\nsharedDirectories: [../data]\n"
    (project / "conf" / "kfetch.yml").write_text(more + PROJECT)
    loaded = config.load(project / "conf" / "kfetch.yml", ENVIRON)
    with Store.of(loaded.storage) as store:
        store.record_start(SupervisorRecord.of_this_process(None, time.time()))
    return loaded


def leads(project: Project, holder: Holder, phase: Phase) -> None:
    """Make a process the leader. One host waits."""
    shared = files(project)
    now = time.time()
    lease = taken(None, holder, 30.0, now - 90)
    before = shared.lease.read()
    shared.lease.write(lease.content(), before.token if before else None)
    if holder.purpose == shared.purpose:
        term_file(project.storage).end_in(30.0)
    host = WaitingHost(place="c", host="node-c", pid=77, since_s=now - 30, seen_s=now)
    shared.change_inbox(lambda inbox: inbox.with_waiting(host))
    with Store.of(project.storage) as store:
        store.save({"clicks": JobState(phase=phase, since_s=now - 60, started_s=now - 60)})


def files(project: Project) -> Shared:
    shared = Shared.of(project)
    assert shared is not None
    return shared


def lease_is_from(project: Project, written_s: float) -> None:
    """Let the store have written the leader's lease at another time."""
    [version] = (project.path.parent / "../data/state/leader.lease").glob("[0-9]*")
    os.utime(version, (written_s, written_s))


def samples(project: Project) -> dict[str, float]:
    collected = MetricsCollector(project, time.time).collect_now().collect()
    return {one.name: one.value for family in collected for one in family.samples}


def test_a_host_that_waits(shared: Project, kfetch: Command) -> None:
    """It says who leads and who waits, shows the leader's phases, and finds no fault with a job of
    which it has no pulse. It exports no metrics of jobs, which the leader does."""
    leads(shared, AWAY, Phase.RUNNING)

    code, said, _ = kfetch("status")
    assert 0 == code
    assert "waits for the lead" in said
    assert "host node-a leads since " in said
    assert "process 77 on host node-c waits since " in said
    document = json.loads(kfetch("status", "--json")[1])
    assert (False, "node-a", 12) == (
        document["lead"]["here"],
        document["lead"]["leader"]["host"],
        document["lead"]["leader"]["pid"],
    )
    assert ["node-c"] == [one["host"] for one in document["lead"]["waiting"]]
    [job] = document["jobs"]
    assert ("running", True, False, []) == (
        job["phase"], job["elsewhere"], job["starting"], job["unhealthy"],
    )  # fmt: skip
    with browser(shared) as client:
        page = Html(client.get("/").text).text
        assert "Another host runs these jobs" in page
        assert "host node-a leads since" in page
        assert (
            "the page of the host that leads knows it" in Html(client.get("/jobs/clicks").text).text
        )
    values = samples(shared)
    assert 0 == values["kfetch_supervisor_leads"]
    assert "kfetch_job_enabled" not in values


@pytest.mark.parametrize(("gap_s", "scraped_before"), [(60.0, True), (0.0, False)])
def test_counters_of_a_host_that_takes_over(
    shared: Project, monkeypatch: pytest.MonkeyPatch, gap_s: float, scraped_before: bool
) -> None:
    """They count nothing of the time in which another host led: it counts its runs itself. The
    statistics may be files of both hosts. If nobody scraped for long, they begin now."""
    monkeypatch.setattr("kfetch_jobs.metrics.collect._GAP_S", gap_s)
    statistics = shared.path.parent.parent / "stats"
    job = shared.path.parent / "jobs" / "clicks.yml"
    job.write_text(
        JOB.replace("    includeHe", "    kfetch.statsDirectory: ../stats\n    includeHe")
    )
    leads(shared, AWAY, Phase.RUNNING)
    collector = MetricsCollector(shared, time.time)

    def work() -> None:
        with Store.of(shared.storage) as store:
            run = store.begin({"clicks": JobState(phase=Phase.RUNNING, since_s=1.0)}, 1.0)["clicks"]
            store.end(run, 2.0, ExitKind.FINISHED)
        name = uuid.uuid4().hex
        write_stats(str(statistics), name, FetchStats(records=7))
        write_driver_stats(str(statistics), name, FetchStats(), {"LogTruncated": 1})

    work()
    if scraped_before:
        collector.collect_now()
    leads(shared, this_process(files(shared).purpose), Phase.RUNNING)
    if not scraped_before:
        collector.collect_now()
    work()
    told = scraped(collector.collect_now())
    assert 1 == sample_of(told, "kfetch_job_runs_started_total")
    assert 1 == sample_of(told, "kfetch_job_runs_ended_total", kind="finished")
    assert 7 == sample_of(told, "kfetch_job_fetch_records_total", reader="executor")
    assert 1 == sample_of(told, "kfetch_job_losses_total", kind="LogTruncated")


def test_a_host_that_leads(shared: Project, kfetch: Command) -> None:
    """It says so, and looks at its jobs as without other hosts."""
    leads(shared, this_process(files(shared).purpose), Phase.RUNNING)

    said = kfetch("status")[1]
    assert re.search(r": supervised for \S+ \S+ by process \d+\n", said)
    assert "this host leads since " in said
    with browser(shared) as client:
        assert "this host leads since" in Html(client.get("/").text).text
    values = samples(shared)
    assert (1, 1) == (values["kfetch_supervisor_leads"], values["kfetch_job_enabled"])


@pytest.mark.parametrize("is_own", [True, False])
def test_a_clock_ahead_of_the_store(shared: Project, kfetch: Command, is_own: bool) -> None:
    """A leader leads although the clocks of host and store differ by minutes."""
    leads(shared, this_process(files(shared).purpose) if is_own else AWAY, Phase.RUNNING)
    lease_is_from(shared, time.time() - 200)

    said = kfetch("status")[1]
    assert ("this host" if is_own else "host node-a") + " leads since " in said
    assert "no supervisor leads" not in said


def test_a_supervisor_that_is_frozen(shared: Project, kfetch: Command) -> None:
    """Its own host says so as soon as the lease is over."""
    leads(shared, this_process(files(shared).purpose), Phase.RUNNING)
    term_file(shared.storage).close()
    lease_is_from(shared, time.time() - 60)

    code, said, _ = kfetch("status")
    assert 3 == code
    assert "no supervisor leads, because the lease of" in said


def test_nobody_leads(shared: Project, kfetch: Command) -> None:
    """That is unhealthy, and the status says what follows."""
    code, said, _ = kfetch("status")
    assert 3 == code
    assert "no supervisor leads: start one with kfetch up" in said
    values = samples(shared)
    assert 0 == values["kfetch_supervisor_leads"]
    assert "kfetch_job_enabled" not in values


def test_a_leader_that_is_dead(shared: Project, kfetch: Command) -> None:
    """Nobody names it as leading once its lease is over. An order waits for the next leader."""
    leads(shared, AWAY, Phase.RUNNING)
    files(shared).say_waiting_no_more()
    lease_is_from(shared, 1000.0)

    code, said, _ = kfetch("status")
    assert 3 == code
    assert (
        "no supervisor leads, because the lease of process 12 on host node-a is over since "
        "1970-01-01 00:17:20 UTC: one that waits takes over" in said
    )
    assert "leads since" not in said
    assert "kfetch_job_enabled" not in samples(shared)
    assert 1040.0 == json.loads(kfetch("status", "--json")[1])["lead"]["leader"]["over_at"]
    code, said, _ = kfetch("stop", "clicks")
    assert (0, "no supervisor leads: the next leader does it (stop clicks)\n") == (code, said)


@pytest.mark.parametrize("is_led", [True, False])
def test_progress_of_a_host_that_waits(shared: Project, is_led: bool) -> None:
    """Its own micro-batches are old ones, so it shows none, also while the lead changes hands."""
    if is_led:
        leads(shared, AWAY, Phase.RUNNING)
    job = shared.job("clicks")
    batch = Batch(
        batch=7, started="", finished=time.time(), rows=1, seconds=1.0, end=1, latest=1,
        run_batches=7, run_rows=1,
    )  # fmt: skip
    job.directory.mkdir(parents=True, exist_ok=True)
    append_entry(job.directory, batch)
    with Store.of(shared.storage) as store:
        [status] = read_status(shared, store, time.time()).jobs
    assert (True, None) == (status.elsewhere, status.last_batch)


def test_failures_elsewhere_are_unhealthy(shared: Project, kfetch: Command) -> None:
    """A job that the leader has given up is unhealthy on each host."""
    leads(shared, AWAY, Phase.FAILED)

    code, said, _ = kfetch("status")
    assert 3 == code
    assert "given up" in said


def test_a_state_that_cannot_be_reached(shared: Project, kfetch: Command) -> None:
    """The status says so and shows what this host knows. An order is refused, because nobody knows
    who would carry it out."""
    leads(shared, AWAY, Phase.RUNNING)
    text = shared.path.read_text().replace("../data/state", "s3a://lake/state")
    keys = "  spark.hadoop.fs.s3a.access.key: a\n  spark.hadoop.fs.s3a.secret.key: b\n"
    endpoint = f"  spark.hadoop.fs.s3a.endpoint: http://127.0.0.1:1\n{keys}"
    shared.path.write_text(text.replace("spark:\n", f"spark:\n{endpoint}"))

    code, said, _ = kfetch("status")
    assert 3 == code
    assert "nobody knows who leads: s3a://lake/state/leader.lease can't be read" in said
    assert "waits for the lead" in said
    term_file(shared.storage).end_in(30.0)
    assert "supervised for" in kfetch("status")[1]
    code, _, said = kfetch("pause", "clicks")
    assert 1 == code
    assert "nobody knows who leads" in said


def test_moves_of_offsets(shared: Project) -> None:
    """A move of offsets is refused while a leader elsewhere would start the job."""
    leads(shared, AWAY, Phase.WAITING)
    with Store.of(shared.storage) as store:
        store.record_end(time.time())
    job = shared.job("clicks")
    refused = pytest.raises(JobsError, match="is waiting, and its supervisor would start it")
    with refused, jobs_at_rest(shared, job):
        raise AssertionError
