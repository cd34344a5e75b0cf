"""All metrics of a project, collected."""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from kfetch.admin import agents
from kfetch.agent.channel import Status
from kfetch.errors import LogTruncated
from kfetch.fetch.stats import FetchStats
from kfetch.fetch.totals import write_driver_stats, write_stats
from kfetch_jobs import config
from kfetch_jobs.config import Project
from kfetch_jobs.metrics.collect import MetricsCollector
from kfetch_jobs.metrics.table import METRICS
from kfetch_jobs.progress import progress_file as progress
from kfetch_jobs.progress.reports import Pulse, broker_report_path, write_pulse
from kfetch_jobs.supervise.job_state import JobState, Phase
from kfetch_jobs.supervise.status_reader import read_status
from kfetch_jobs.supervise.store import Store, SupervisorRecord
from kfetch_jobs.util.process import start_of
from tests.kfetch.admin.cli.test_text import QUERY, STATUS
from tests.kfetch_jobs.metrics.scrape import BATCH, sample_of, scraped, series_of
from tests.kfetch_jobs.projects import ENVIRON, JOB, PROJECT


@pytest.fixture
def loaded(project: Path) -> Project:
    """A project whose job clicks has files of statistics."""
    file = project / "conf" / "jobs" / "clicks.yml"
    file.write_text(
        JOB.replace("    includeHeaders", "    kfetch.statsDirectory: ../stats\n    includeHeaders")
    )
    return config.load(project / "conf" / "kfetch.yml", ENVIRON)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[Status]:
    """The agents that answer; none unless a test says so."""
    found: list[Status] = []
    monkeypatch.setattr(agents, "find", lambda *_: list(found))
    return found


def _begin(loaded: Project) -> None:
    """A supervisor, and a run of clicks that has said how far it is."""
    now = time.time()
    running = JobState(phase=Phase.RUNNING, since_s=now, failures=2, due_s=now + 9)
    with Store.of(loaded.storage) as store:
        pid, started = 1, 0.0
        store.record_start(
            SupervisorRecord(
                pid=pid, process_started_s=started, environment=None, started_s=now, ended_s=None
            )
        )
        run = store.begin({"clicks": running}, now - 5)["clicks"]
        store.started(run, os.getpid(), now - 5, start_of(os.getpid()))
    (loaded.storage / "clicks").mkdir(parents=True, exist_ok=True)
    pulse = Pulse(at=now, batch=4, lag=5, lag_s=2.5, query=QUERY.stream)
    write_pulse(loaded.storage / "clicks", pulse)


def _lose_broker(loaded: Project) -> None:
    """The driver of clicks reports that it cannot reach a broker."""
    report = broker_report_path(loaded.storage / "clicks", "source")
    report.parent.mkdir()
    entry = {"name": "broker 1 (h:9092)", "since": 1.0, "cause": "refused"}
    report.write_text(json.dumps({"at": time.time(), "unreachable": [entry]}))


@pytest.mark.parametrize("name", ["kfetch.statsDirectory", "kfetch.STATSdirectory"])
def test_the_directory_of_statistics(project: Path, name: str) -> None:
    """The status has a job's own directory, whatever the case of the option's name. The run uses
    the same one: its path starts from the project file's directory. A directory of the cluster is
    not the job's, because it also has the statistics of other jobs."""
    text = JOB.replace("    includeHeaders", f"    {name}: ../stats\n    includeHeaders")
    (project / "conf" / "jobs" / "clicks.yml").write_text(text)
    (project / "conf" / "kfetch.yml").write_text(f"{PROJECT}    kfetch.statsDirectory: all\n")
    loaded = config.load(project / "conf" / "kfetch.yml", ENVIRON)
    with Store.of(loaded.storage) as store:
        (status,) = read_status(loaded, store, time.time()).jobs
    directory = str(project / "conf" / ".." / "stats")
    assert (directory,) == status.statistics
    job = loaded.job("clicks")
    assert [directory] == job.statistics
    assert directory == job.source_options()[name]


def test_every_metric_is_told(
    loaded: Project, answers: list[Status], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every row of the table has samples with its labels, and nothing else is there; the job's
    own figures are right, and what was before the supervisor does not count."""
    monkeypatch.setattr(
        "kfetch_jobs.supervise.status_reader.supervisor_alive", lambda incumbent: True
    )
    _begin(loaded)
    stats = tmp_path / "stats"
    write_stats(str(stats), "old", FetchStats(records=1000))
    look = MetricsCollector(loaded, lambda: 12.0)
    write_stats(
        str(stats),
        "new",
        FetchStats(
            records=7,
            sessions_lost=1,
            reply_bytes=99,
            other_rack_bytes=33,
            undecoded=3,
            undecoded_kinds={"t": {"value: field id is no INT": 3}},
            unknown_fields={"t": {"value.new": 2}},
        ),
    )
    losses = {LogTruncated.__name__: 2}
    write_driver_stats(str(stats), "q", FetchStats(full_requests=3), losses)
    progress.append_entry(loaded.storage / "clicks", BATCH)
    answers.append(STATUS)
    _lose_broker(loaded)
    told = scraped(look.collect_now())

    names = {name for entry in METRICS.values() for name in series_of(entry)}
    assert names == {name for name, _ in told}
    expected = {
        name: {*entry.labels, *(["le"] if name.endswith("_bucket") else [])}
        for entry in METRICS.values()
        for name in series_of(entry)
    }
    assert all({label for label, _ in labels} == expected[name] for name, labels in told)
    for name, labels, value in (
        ("kfetch_job_lag_offsets", {}, 5),
        ("kfetch_job_state", {"state": "running"}, 1),
        ("kfetch_job_state", {"state": "failed"}, 0),
        ("kfetch_job_consecutive_failures", {}, 2),
        ("kfetch_job_unreachable_brokers", {}, 1),
        ("kfetch_job_healthy", {}, 0),
        ("kfetch_job_rows_total", {}, 10),
        ("kfetch_job_fetch_records_total", {"reader": "executor"}, 7),
        ("kfetch_job_fetch_response_bytes_total", {"reader": "executor"}, 99),
        ("kfetch_job_fetch_other_rack_bytes_total", {"reader": "executor"}, 33),
        ("kfetch_job_fetch_undecoded_records_total", {"reader": "executor"}, 3),
        (
            "kfetch_job_fetch_undecoded_kinds_total",
            {"topic": "t", "kind": "value: field id is no INT"},
            3,
        ),
        ("kfetch_job_fetch_unknown_fields_total", {"topic": "t", "field": "value.new"}, 2),
        ("kfetch_job_fetch_session_events_total", {"reader": "executor", "event": "lost"}, 1),
        ("kfetch_job_fetch_requests_total", {"reader": "driver", "type": "full"}, 3),
        ("kfetch_job_losses_total", {"kind": "LogTruncated"}, 2),
        ("kfetch_job_agent_memory_used_bytes", {}, 3 << 20),
        ("kfetch_job_fetch_session_partitions", {"broker": "broker 1 (h:9092)"}, 12),
        ("kfetch_supervisor_last_step_time_seconds", {}, 12),
    ):
        assert value == sample_of(told, name, **labels), name
    assert sample_of(told, "kfetch_job_lag_seconds") == pytest.approx(2.5, abs=1)


@pytest.mark.usefixtures("answers")
@pytest.mark.parametrize("lag", [0, 5])
def test_a_lag_that_nobody_knows(loaded: Project, lag: int) -> None:
    """If a broker is unreachable, a lag of 0 says nothing, so it is absent. Else an alert that
    waits for a lag would end."""
    _begin(loaded)
    write_pulse(loaded.storage / "clicks", Pulse(at=time.time(), batch=4, lag=lag))
    _lose_broker(loaded)

    told = scraped(MetricsCollector(loaded, time.time).collect_now())
    assert (lag or None) == sample_of(told, "kfetch_job_lag_offsets")
    assert (lag > 0) == (sample_of(told, "kfetch_job_lag_seconds") is not None)


def test_without_files_agents_tell_totals(project: Path, answers: list[Status]) -> None:
    """An agent's totals count from the first update on, and those of its successor too."""
    loaded = config.load(project / "conf" / "kfetch.yml", ENVIRON)
    _begin(loaded)
    answers.append(STATUS)
    look = MetricsCollector(loaded, time.time)
    later = replace(QUERY, totals=replace(QUERY.totals, records=1200))
    answers[:] = [replace(STATUS, queries=(later, replace(later, stream="another's")))]
    look.collect_now()
    successor = replace(QUERY, totals=FetchStats(records=50))
    answers[:] = [replace(STATUS, pid=10, queries=(successor,))]
    told = scraped(look.collect_now())

    assert 250 == sample_of(told, "kfetch_job_fetch_records_total", reader="executor")
    assert None is sample_of(told, "kfetch_job_fetch_records_total", reader="driver")


@pytest.mark.usefixtures("answers")
def test_many_files_of_statistics(
    loaded: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With more files than it reads, it reads the newest. Counters stay when old files go."""
    monkeypatch.setattr("kfetch_jobs.metrics.fetches._FILES_MAX", 2)
    _begin(loaded)

    def written(run: int) -> None:
        write_stats(str(tmp_path / "stats"), f"run-{run}", FetchStats(records=7))
        write_driver_stats(str(tmp_path / "stats"), f"run-{run}", FetchStats(), {"LogTruncated": 1})
        for path in (tmp_path / "stats").rglob(f"run-{run}-*"):
            os.utime(path, (1e9 + run, 1e9 + run))

    for run in range(20):
        written(run)
    collector = MetricsCollector(loaded, time.time)
    for run in range(20, 25):
        written(run)
        for old in range(-run, 0):  # a file system may list the files in any order
            written(old)
        told = scraped(collector.collect_now())
        assert 7 * (run - 19) == sample_of(
            told, "kfetch_job_fetch_records_total", reader="executor"
        )
        assert run - 19 == sample_of(told, "kfetch_job_losses_total", kind="LogTruncated")
    shutil.rmtree(tmp_path / "stats")
    told = scraped(collector.collect_now())
    assert 35 == sample_of(told, "kfetch_job_fetch_records_total", reader="executor")
    assert 5 == sample_of(told, "kfetch_job_losses_total", kind="LogTruncated")


@pytest.mark.usefixtures("answers")
def test_a_directory_without_end(
    loaded: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scrape looks at a limited number of files."""
    monkeypatch.setattr("kfetch_jobs.metrics.fetches._LOOKED_AT_MAX", 3)
    _begin(loaded)
    collector = MetricsCollector(loaded, time.time)
    for run in range(5):
        write_stats(str(tmp_path / "stats"), f"run-{run}", FetchStats(records=7))
    told = scraped(collector.collect_now())

    assert 21 == sample_of(told, "kfetch_job_fetch_records_total", reader="executor")


@pytest.mark.usefixtures("answers")
def test_names_from_before_take_no_place(loaded: Project, tmp_path: Path) -> None:
    """A run may have 20 names from before the supervisor. One that grows has its sample."""
    _begin(loaded)
    stats, old = str(tmp_path / "stats"), {f"value.{n}": 5 for n in range(20)}
    write_stats(stats, "run", FetchStats(unknown_fields={"t": old}))
    collector = MetricsCollector(loaded, time.time)
    write_stats(stats, "run", FetchStats(records=1, unknown_fields={"t": old}))
    collector.collect_now()
    write_stats(stats, "another", FetchStats(unknown_fields={"t": {"new": 7}}))
    told = scraped(collector.collect_now())

    assert 7 == sample_of(told, "kfetch_job_fetch_unknown_fields_total", topic="t", field="new")


@pytest.mark.usefixtures("answers")
def test_names_that_producers_choose(loaded: Project, tmp_path: Path) -> None:
    """The names of all runs together have the limit of one run. Further ones count as ``other``.
    No sample falls, whichever names a later run brings first."""
    _begin(loaded)
    collector = MetricsCollector(loaded, time.time)
    seen: dict[str, float] = {}
    for run in range(4):
        fields = {f"value.{run}-{n}": 1 for n in range(20)} | {"value.new": 1}
        write_stats(str(tmp_path / "stats"), f"run-{run}", FetchStats(unknown_fields={"t": fields}))
        told = scraped(collector.collect_now())
        name = "kfetch_job_fetch_unknown_fields_total"
        now = {dict(key[1])["field"]: value for key, value in told.items() if key[0] == name}

        assert (21, 21 * (run + 1)) == (len(now), sum(now.values()))
        assert all(now[field] >= value for field, value in seen.items())
        seen = now


def test_what_is_broken_costs_itself_alone(loaded: Project, answers: list[Status]) -> None:
    """With a wrong job file, wrong files of statistics and then a wrong database, the other
    samples are there, and the errors are counted."""
    _begin(loaded)
    jobs = loaded.path.parent / "jobs"
    (jobs / "wrong.yml").write_text("source: [\n")
    (jobs / "b\udcff.yml").write_text(JOB)  # it names no job
    stats = loaded.path.parent.parent / "stats"
    look = MetricsCollector(loaded, time.time)
    stats.mkdir()
    for number, text in enumerate(["{", "[]", '{"records": "many"}', '{"records": 3}']):
        (stats / f"{number}.json").write_text(text)
    (loaded.storage / "clicks" / "progress.jsonl").write_text("null}\n[]\n")
    told = scraped(look.collect_now())
    assert 0 == sample_of(told, "kfetch_job_file_valid", job_name="wrong")
    assert None is sample_of(told, "kfetch_job_file_valid", job_name=r"b\udcff")
    assert 1 == sample_of(told, "kfetch_job_file_valid")
    assert 3 == sample_of(told, "kfetch_job_fetch_records_total", reader="executor")
    assert 0 == sample_of(told, "kfetch_metrics_collection_errors_total", part="jobs")
    assert 1 == sample_of(told, "kfetch_metrics_collection_errors_total", part="batches")

    for file in (loaded.storage / ".supervisor").glob("kfetch.db*"):
        file.write_bytes(b"no database" * 1000)
    told = scraped(look.collect_now())
    assert 1 == sample_of(told, "kfetch_metrics_collection_errors_total", part="jobs")
    assert 1 == sample_of(told, "kfetch_metrics_collection_errors_total", part="runs")
    assert 3 == sample_of(told, "kfetch_job_fetch_records_total", reader="executor")
