"""What a supervisor tells Prometheus: counted exactly, bounded, and whatever else is broken."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from kfetch.agent.channel import Status
from kfetch.errors import LogTruncated
from kfetch.fetch.stats import FetchStats, write
from kfetch.watch.report import Report
from kfetch_jobs import config
from kfetch_jobs.config import Project
from kfetch_jobs.looks import agents
from kfetch_jobs.metrics.batches import BatchMetrics
from kfetch_jobs.metrics.collect import CollectedMetrics, MetricsCollector
from kfetch_jobs.metrics.growth import GrowingSums
from kfetch_jobs.metrics.runs import RunMetrics
from kfetch_jobs.metrics.table import METRICS, SampleSet
from kfetch_jobs.progress import history as progress
from kfetch_jobs.progress.history import Batch
from kfetch_jobs.run.kinds import Kind
from kfetch_jobs.supervise.machine import Phase, State
from kfetch_jobs.supervise.store import Incumbent, Store
from tests.kfetch_jobs.looks.test_agents import QUERY, STATUS
from tests.kfetch_jobs.projects import ENVIRON, JOB

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]

BATCH = Batch(
    batch=1,
    started="2026-01-01T00:00:00.000Z",
    finished=1.0,
    rows=10,
    seconds=0.3,
    end=10,
    latest=15,
    phases={"addBatch": 0.2},
)


def scraped(taken: CollectedMetrics) -> Samples:
    """What Prometheus reads of a look."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(taken)
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def of(told: Samples, name: str, **labels: str) -> float | None:
    """One sample of the job clicks, or None."""
    if name.startswith("kfetch_job"):
        labels["job_name"] = labels.get("job_name", "clicks")
    return told.get((name, tuple(sorted(labels.items()))))


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


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.booleans()), max_size=30),
)
@settings(max_examples=50)
def test_sums_only_grow(steps: list[tuple[str, int, bool]]) -> None:
    """What parts add is counted once, though they begin anew with less than they had."""
    growth, now, added = GrowingSums(), Counter[str](), 0
    for part, more, anew in steps:
        anew = anew and more < now[part]
        now[part] = more if anew else now[part] + more
        added += more
        growth.update("g", part, {"n": now[part]})

        assert added == growth.sums("g").get("n", 0)


def test_sums_begin_where_they_are_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was before does not count; of too many parts the oldest is forgotten."""
    monkeypatch.setattr("kfetch_jobs.metrics.growth._PARTS_MAX", 2)
    growth = GrowingSums()
    growth.update("g", "a", {"n": 100})
    growth.reset()
    growth.update("g", "a", {"n": 103})
    assert {"n": 3} == growth.sums("g")

    for part in "bc":
        growth.update("g", part, {"n": 0})
    assert 2 == len(growth._last)


def test_each_batch_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through full files, unfinished lines and damage, from those on that come after the start."""
    monkeypatch.setattr(progress, "_BYTES_MAX", 1500)
    path = tmp_path / "a" / "progress.jsonl"
    path.parent.mkdir()
    progress.append(path, BATCH)
    batches, aside = BatchMetrics(tmp_path), 0
    for number in range(40):
        progress.append(path, replace(BATCH, seconds=0.01 * number, dead_letters=number % 2))
        aside += not path.exists()
        if number % 3 == 0:
            batches.update()
    with path.open("a") as file:
        file.write('{"batch": 1}\n{"batch": 2, "ro')
    batches.update()
    assert aside >= 3
    assert 1 == batches.damaged
    with path.open("a") as file:
        file.write('ws": 3\n')
    progress.append(path, BATCH)
    batches.update()
    batches.update()

    samples = SampleSet()
    batches.add_samples(samples, "a")
    told = scraped(CollectedMetrics(samples.families()))
    name = "kfetch_job_batch_duration_seconds"
    assert 410 == of(told, "kfetch_job_rows_total", job_name="a")
    assert 20 == of(told, "kfetch_job_dead_letters_total", job_name="a")
    assert [6, 11, 41, 41] == [
        of(told, f"{name}_bucket", job_name="a", le=le) for le in ("0.05", "0.1", "0.5", "+Inf")
    ]
    assert 41 == of(told, f"{name}_count", job_name="a")
    assert pytest.approx(7.8 + 0.3) == of(told, f"{name}_sum", job_name="a")
    phases = "kfetch_job_batch_phase_seconds_total"
    assert pytest.approx(41 * 0.2) == of(told, phases, job_name="a", phase="addBatch")


def test_each_run_counts_once(tmp_path: Path) -> None:
    """Runs begin and end in any order; one that began before the start counts when it ends."""
    state = State(phase=Phase.RUNNING, since_s=0.0)
    with Store(tmp_path / "kfetch.db") as store:
        store.end(store.begin("a", state, 1.0), 2.0, Kind.FAILED)
        long = store.begin("a", state, 1.0)
        runs = RunMetrics(store)
        for _ in range(3):
            store.end(store.begin("a", state, 1.0), 2.0, Kind.FAILED)
            runs.update(store)
            runs.update(store)
        store.end(long, 3.0, Kind.STOPPED)
        runs.update(store)
        runs.update(store)
    samples = SampleSet()
    runs.add_samples(samples, "a")
    told = scraped(CollectedMetrics(samples.families()))

    assert 3 == of(told, "kfetch_job_runs_started_total", job_name="a")
    ended = "kfetch_job_runs_ended_total"
    assert [3, 1, 0] == [
        of(told, ended, job_name="a", kind=kind) for kind in ("failed", "stopped", "hung")
    ]
    assert set() == runs._begun == runs._ended


def _begin(loaded: Project) -> None:
    """A supervisor, and a run of clicks that has said how far it is."""
    now = time.time()
    running = State(phase=Phase.RUNNING, since_s=now, failures=2, due_s=now + 9)
    with Store.of(loaded.storage) as store:
        pid, started = 1, 0.0
        store.take_office(
            Incumbent(
                pid=pid, process_started_s=started, environment=None, started_s=now, ended_s=None
            )
        )
        store.begin("clicks", running, now - 5)
    told = {"at": now, "batch": 4, "lag": 5, "lag_s": 2.5, "query": QUERY.stream}
    (loaded.storage / "clicks").mkdir(parents=True, exist_ok=True)
    (loaded.storage / "clicks" / "pulse.json").write_text(json.dumps(told))


def test_every_metric_is_told(
    loaded: Project, answers: list[Status], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every row of the table has samples with its labels, and nothing else is there; the job's
    own figures are right, and what was before the supervisor does not count."""
    monkeypatch.setattr("kfetch_jobs.supervise.view.alive", lambda incumbent: True)
    _begin(loaded)
    stats = tmp_path / "stats"
    write(str(stats), "old", FetchStats(records=1000))
    look = MetricsCollector(loaded, lambda: 12.0)
    write(str(stats), "new", FetchStats(records=7, sessions_lost=1, reply_bytes=99))
    Report(str(stats), "q").write(FetchStats(full_requests=3), {LogTruncated.__name__: 2})
    progress.append(loaded.storage / "clicks" / "progress.jsonl", BATCH)
    answers.append(STATUS)
    told = scraped(look.collect_now())

    names = {name for entry in METRICS.values() for name in entry.samples}
    assert names == {name for name, _ in told}
    expected = {
        name: {*entry.labels, *(["le"] if name.endswith("_bucket") else [])}
        for entry in METRICS.values()
        for name in entry.samples
    }
    assert all({label for label, _ in labels} == expected[name] for name, labels in told)
    for name, labels, value in (
        ("kfetch_job_lag_offsets", {}, 5),
        ("kfetch_job_state", {"state": "running"}, 1),
        ("kfetch_job_state", {"state": "failed"}, 0),
        ("kfetch_job_consecutive_failures", {}, 2),
        ("kfetch_job_rows_total", {}, 10),
        ("kfetch_job_fetch_records_total", {"reader": "executor"}, 7),
        ("kfetch_job_fetch_response_bytes_total", {"reader": "executor"}, 99),
        ("kfetch_job_fetch_session_events_total", {"reader": "executor", "event": "lost"}, 1),
        ("kfetch_job_fetch_requests_total", {"reader": "driver", "type": "full"}, 3),
        ("kfetch_job_losses_total", {"kind": "LogTruncated"}, 2),
        ("kfetch_job_agent_memory_used_bytes", {}, 3 << 20),
        ("kfetch_job_fetch_session_partitions", {"broker": "broker 1 (h:9092)"}, 12),
        ("kfetch_supervisor_last_step_time_seconds", {}, 12),
    ):
        assert value == of(told, name, **labels), name
    assert of(told, "kfetch_job_lag_seconds") == pytest.approx(2.5, abs=1)


def test_without_files_agents_tell_totals(project: Path, answers: list[Status]) -> None:
    """An agent's totals count from the first look on, and those of its successor too."""
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

    assert 250 == of(told, "kfetch_job_fetch_records_total", reader="executor")
    assert None is of(told, "kfetch_job_fetch_records_total", reader="driver")


def test_what_is_broken_costs_itself_alone(loaded: Project, answers: list[Status]) -> None:
    """A job file with a mistake, files of statistics that are none, and then a database that is
    none: the rest is told, and what failed is counted."""
    _begin(loaded)
    jobs = loaded.path.parent / "jobs"
    (jobs / "wrong.yml").write_text("source: [\n")
    (jobs / "b\udcff.yml").write_text(JOB)
    stats = loaded.path.parent.parent / "stats"
    look = MetricsCollector(loaded, time.time)
    stats.mkdir()
    for number, text in enumerate(["{", "[]", '{"records": "many"}', '{"records": 3}']):
        (stats / f"{number}.json").write_text(text)
    (loaded.storage / "clicks" / "progress.jsonl").write_text("null}\n[]\n")
    told = scraped(look.collect_now())
    assert 0 == of(told, "kfetch_job_file_valid", job_name="wrong")
    assert 0 == of(told, "kfetch_job_file_valid", job_name=r"b\udcff")
    assert 1 == of(told, "kfetch_job_file_valid")
    assert 3 == of(told, "kfetch_job_fetch_records_total", reader="executor")
    assert 0 == of(told, "kfetch_metrics_collection_errors_total", part="jobs")
    assert 1 == of(told, "kfetch_metrics_collection_errors_total", part="batches")

    for file in (loaded.storage / ".supervisor").glob("kfetch.db*"):
        file.write_bytes(b"no database" * 1000)
    told = scraped(look.collect_now())
    assert 1 == of(told, "kfetch_metrics_collection_errors_total", part="jobs")
    assert 1 == of(told, "kfetch_metrics_collection_errors_total", part="runs")
    assert 3 == of(told, "kfetch_job_fetch_records_total", reader="executor")
