"""``kfetch status``, ``history`` and ``logs``."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kfetch_jobs.errors import JobsError
from kfetch_jobs.progress.batch import Batch
from kfetch_jobs.progress.progress_file import append_entry
from kfetch_jobs.progress.reports import Pulse, broker_report_path, write_pulse
from kfetch_jobs.supervise import log_tail, status_reader
from kfetch_jobs.supervise.job_state import JobState, Phase
from kfetch_jobs.supervise.status import JobStatus
from kfetch_jobs.supervise.store import Store
from kfetch_jobs.util.disk_space import DiskSpace
from kfetch_jobs.util.process import start_of
from kfetch_jobs.verbs import status as status_verb
from kfetch_jobs.verbs.status import _about
from tests.kfetch_jobs.commands import Command
from tests.kfetch_jobs.projects import JOB
from tests.kfetch_jobs.stage import change_database

DEAD = "its process has ended, and no supervisor has recorded how"


@pytest.mark.parametrize(
    ("phase", "about"),
    [
        (Phase.WAITING, "not supervised: kfetch up"),
        (Phase.RUNNING, f"{DEAD}; not supervised: kfetch up"),
        (Phase.STOPPING, f"{DEAD}; not supervised: kfetch up"),
        (Phase.BACKOFF, "failed 2 times in a row: no disk; not supervised: kfetch up"),
        (Phase.FINISHED, "no disk"),
    ],
)
def test_a_job_that_nobody_supervises(
    kfetch: Command, shop: Path, phase: Phase, about: str
) -> None:
    """Without a supervisor, status says so for each job with a next step. It does not call a job
    running that has no process."""
    with Store.of(shop / ".kfetch" / "storage") as store:
        store.save(
            {
                "clicks": JobState(
                    phase=phase, since_s=0.0, due_s=0.0, failures=2, sentence="no disk"
                )
            }
        )

    assert kfetch("status")[1].rstrip().endswith(f"  {about}")


def _status_of(
    kfetch: Command, shop: Path, pulse: Pulse | None, finished: float = 1.0
) -> tuple[list[str], dict[str, Any]]:
    """The row of a running job, and its JSON."""
    directory = shop / ".kfetch" / "storage" / "clicks"
    directory.mkdir(parents=True, exist_ok=True)
    append_entry(
        directory,
        Batch(batch=41, started="", finished=finished, rows=1, seconds=1.0, end=1, latest=1),
    )
    if pulse is not None:
        write_pulse(directory, pulse)
    with Store.of(shop / ".kfetch" / "storage") as store:
        state = JobState(phase=Phase.RUNNING, since_s=50.0, started_s=50.0)
        run = store.begin({"clicks": state}, 50.0)["clicks"]
        store.started(run, os.getpid(), 0.0, start_of(os.getpid()))
    rows = kfetch("status")[1].splitlines()
    cells = next(row for row in rows if row.startswith("clicks")).split("  ")
    (job,) = json.loads(kfetch("status", "--json")[1])["jobs"]
    return [cell.strip() for cell in cells if cell.strip()], job


def test_a_job_whose_spark_starts(kfetch: Command, shop: Path) -> None:
    """Until the query has started, status says so, and shows the last micro-batch."""
    cells, job = _status_of(kfetch, shop, None)

    assert ["clicks", "starting", "41"] == [*cells[:2], cells[3]]
    assert ("running", True, None, 41) == (
        job["phase"],
        job["starting"],
        job["batch"],
        job["last_batch"],
    )


def test_an_idle_job_after_its_resume(kfetch: Command, shop: Path) -> None:
    """A job without a new micro-batch shows its last one, and that its lag is not known yet."""
    cells, job = _status_of(kfetch, shop, Pulse(at=60.0, batch=None))

    assert ["clicks", "running", "41", "?"] == [*cells[:2], *cells[3:5]]
    assert not job["starting"]


@pytest.mark.parametrize("start", ["", "another boot/1"])
def test_a_run_whose_process_is_dead(kfetch: Command, shop: Path, start: str) -> None:
    """Nobody records its end while no supervisor runs. So status does not measure its pulse and its
    lag, and says that the process has ended. The process may have died before its pid was known."""
    _status_of(kfetch, shop, Pulse(at=60.0, batch=41, lag=9))
    with Store.of(shop / ".kfetch" / "storage") as store:
        assert store.open_runs()
        change_database(shop / ".kfetch" / "storage", "UPDATE process_starts SET start = ?", start)
        if not start:
            change_database(shop / ".kfetch" / "storage", "UPDATE runs SET pid = NULL")
    code, out, _ = kfetch("status", "--json")
    (job,) = json.loads(out)["jobs"]

    assert (3, [DEAD], None) == (code, job["unhealthy"], job["pid"])
    assert "starting" not in kfetch("status")[1]


def test_an_unknown_lag_is_explained() -> None:
    """A healthy job with ``?`` says when its lag is known. A known lag needs no words."""
    waits = JobStatus(name="clicks", phase=Phase.RUNNING, pulse_s=60.0)

    told = "how far it is behind is known after this run's first micro-batch"
    assert told == _about(waits, 61.0, supervised=True)
    assert "" == _about(replace(waits, lag=3), 61.0, supervised=True)


@pytest.mark.parametrize(
    "unknown", [{"orphan": True}, {"mistake": "jobs/clicks.yml:3: no"}, {"pid": None}]
)
def test_a_running_job_without_a_valid_file(unknown: dict[str, Any]) -> None:
    """Without its file nobody knows its progress, so status does not say that the job starts. Nor
    does it say so without a process."""
    starting = JobStatus(name="clicks", phase=Phase.RUNNING, pid=7)
    assert starting.starting
    assert not replace(starting, **unknown).starting


def test_a_broker_that_is_away(kfetch: Command, shop: Path) -> None:
    """Status names it with its time, and calls no lag known that nobody knows."""
    entry = {"name": "broker 1 (h:9092)", "since": 70.0, "cause": "connection refused"}
    report = broker_report_path(shop / ".kfetch" / "storage" / "clicks", "source")
    report.parent.mkdir(parents=True)
    report.write_text(json.dumps({"at": 71.0, "unreachable": [entry]}))
    cells, job = _status_of(kfetch, shop, Pulse(at=80.0, batch=41, lag=0))

    sentence = "broker 1 (h:9092) unreachable since 1970-01-01 00:01:10 UTC: connection refused"
    assert "?" == cells[4]
    assert sentence in job["unhealthy"]
    assert [{"name": "broker 1 (h:9092)", "since_at": 70.0, "cause": "connection refused"}] == job[
        "unreachable"
    ]
    assert 0 == job["lag"]


BACKLOG = {"behind": 3000, "behind_since": 90.0, "planned": 2000, "planned_at": 80.0, "end": 2}


@pytest.mark.parametrize(
    ("changes", "at", "lag", "lag_s", "cell"),
    [
        ({}, 100.0, 5000, 20.0, "5,000"),
        ({"end": 1}, 100.0, 3000, 10.0, "3,000"),
        ({"end": 1, "behind": 0, "behind_since": None}, 100.0, 0, 0.0, "0"),
        ({}, 80.0, 5000, 20.0, "at least 5,000, 20 s ago"),
        ({"end": 1, "behind": 0, "behind_since": None}, 80.0, 0, 0.0, "?"),
    ],
    ids=["it runs", "it is committed", "nothing waits", "old", "old, and nothing waited"],
)
def test_the_lag_while_a_micro_batch_runs(
    kfetch: Command,
    shop: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    at: float,
    lag: int,
    lag_s: float,
    cell: str,
) -> None:
    """The lag comes from the log ends that the driver sees, and counts the running micro-batch.

    A number whose log ends are old is a lower bound, and says how old it is.
    """
    monkeypatch.setattr(status_verb.time, "time", lambda: 100.0)
    report = broker_report_path(shop / ".kfetch" / "storage" / "clicks", "source")
    report.parent.mkdir(parents=True)
    report.write_text(json.dumps({"at": at, "unreachable": [], "backlog": BACKLOG | changes}))
    cells, job = _status_of(kfetch, shop, Pulse(at=98.0, batch=41, lag=0), finished=60.0)

    assert (cell, lag, lag_s) == (cells[4], job["lag"], job["lag_s"])
    assert (at, at < 90) == (job["lag_seen_at"], job["lag_at_least"])


def test_lag_limits_hold_while_a_micro_batch_runs(kfetch: Command, shop: Path) -> None:
    """``health.lagRecords`` counts what came since the last micro-batch."""
    file = shop / "jobs" / "clicks.yml"
    file.write_text(file.read_text().replace("lagSeconds: 300", "lagRecords: 4000"))
    report = broker_report_path(shop / ".kfetch" / "storage" / "clicks", "source")
    report.parent.mkdir(parents=True)
    report.write_text(json.dumps({"at": 99.0, "unreachable": [], "backlog": BACKLOG}))
    _, job = _status_of(kfetch, shop, Pulse(at=98.0, batch=41, lag=0))

    assert "5,000 records behind, more than 4,000" in job["unhealthy"]


@pytest.mark.parametrize(
    ("at", "unhealthy"),
    [
        (95.0, []),
        (60.0, ["its lag is unknown for 40 s, more than 30"]),
        (
            140.0,
            ["its lag is unknown: somebody has set the clock back, and no report came since"],
        ),
    ],
)
def test_a_driver_that_hangs_is_not_well(
    kfetch: Command,
    shop: Path,
    monkeypatch: pytest.MonkeyPatch,
    at: float,
    unhealthy: list[str],
) -> None:
    """Nothing waited when the driver looked last. Since then, records may have come: after
    ``health.lagSeconds`` status no longer says that all is well. So it is with a report of the
    future, if no other one comes."""
    monkeypatch.setattr(status_verb.time, "time", lambda: 100.0)
    file = shop / "jobs" / "clicks.yml"
    file.write_text(file.read_text().replace("lagSeconds: 300", "lagSeconds: 30"))
    report = broker_report_path(shop / ".kfetch" / "storage" / "clicks", "source")
    report.parent.mkdir(parents=True)
    nothing = BACKLOG | {"end": 1, "behind": 0, "behind_since": None}
    report.write_text(json.dumps({"at": at, "unreachable": [], "backlog": nothing}))
    _, job = _status_of(kfetch, shop, Pulse(at=98.0, batch=41, lag=0), finished=60.0)

    assert unhealthy == [one for one in job["unhealthy"] if "lag" in one]


def test_a_broker_with_a_wrong_certificate(kfetch: Command, shop: Path) -> None:
    """Status names the option as the project's file does."""
    cause = "h:9092 has an unknown certificate: set kafka.ssl.truststore.location"
    entry = {"name": "broker 1 (h:9092)", "since": 70.0, "cause": cause}
    report = broker_report_path(shop / ".kfetch" / "storage" / "clicks", "source")
    report.parent.mkdir(parents=True)
    report.write_text(json.dumps({"at": 71.0, "unreachable": [entry]}))
    _, job = _status_of(kfetch, shop, Pulse(at=80.0, batch=41, lag=0))

    assert job["unreachable"][0]["cause"].endswith("certificate: set ssl.truststore.location")


@pytest.mark.parametrize(
    "text",
    [
        '{"at": 49.0, "unreachable": [{"name": "b", "since": 49.0, "cause": "c"}]}',
        '{"at": 71.0, "unreachable": [1]}',
        "{",
    ],
)
def test_reports_of_brokers_that_do_not_count(kfetch: Command, shop: Path, text: str) -> None:
    """A report of an earlier run, or a damaged one, says nothing of this run."""
    report = broker_report_path(shop / ".kfetch" / "storage" / "clicks", "source")
    report.parent.mkdir(parents=True)
    report.write_text(text)

    assert [] == _status_of(kfetch, shop, None)[1]["unreachable"]


def test_a_disk_that_is_almost_full(
    kfetch: Command, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status names the checkpoint and its disk, before Spark fails to commit."""
    space = DiskSpace(free_bytes=1 << 30, size_bytes=100 << 30)
    monkeypatch.setattr(status_reader, "read_disk_space", lambda directory: space)
    _, job = _status_of(kfetch, shop, Pulse(at=80.0, batch=41, lag=0))

    checkpoint = shop / ".kfetch" / "storage" / "clicks" / "checkpoint"
    sentence = f"the disk of its checkpoint {checkpoint} has only 1.0 GiB free of 100.0 GiB"
    assert sentence in job["unhealthy"]
    assert {"free_bytes": 1 << 30, "size_bytes": 100 << 30} == job["checkpoint_space"]


def test_moments_have_a_suffix_of_their_own(kfetch: Command, shop: Path) -> None:
    """In JSON, names with _at are moments. The names that they had before stay."""
    _, job = _status_of(kfetch, shop, Pulse(at=60.0, batch=41, lag=3, lag_s=2.0))
    (run,) = json.loads(kfetch("history", "--json")[1])

    assert (50.0, 60.0, None) == (job["since_at"], job["pulse_at"], job["due_at"])
    assert (job["since_s"], job["pulse_s"]) == (job["since_at"], job["pulse_at"])
    assert "lag_at" not in job
    assert (50.0, None) == (run["started_at"], run["ended_at"])


def test_a_newer_database_is_refused(kfetch: Command, shop: Path) -> None:
    """kfetch changes no database of a newer version."""
    storage = shop / ".kfetch" / "storage"
    with Store.of(storage):
        change_database(storage, "PRAGMA user_version = 2")
    code, _, said = kfetch("status")

    assert code == 1
    assert "is of version 2, and this kfetch knows 1: update kfetch" in said


def test_the_end_of_a_log(tmp_path: Path) -> None:
    """``logs`` prints the last lines and follows new ones, also in a log that restarts."""
    path = tmp_path / "run.log"
    with pytest.raises(JobsError, match="there is no log"):
        log_tail.last_lines(path, 1)
    path.write_text("one\ntwo\nthree\n")
    assert ["two", "three"] == log_tail.last_lines(path, 2)
    assert ["one", "2 and 3"] == log_tail.last_lines(
        path, 2, lambda text: text.replace("two\nthree", "2 and 3")
    )

    lines = log_tail.follow_lines(path)
    got: list[str] = []
    reading = threading.Thread(target=lambda: got.extend(next(lines) for _ in range(2)))
    reading.start()
    while reading.is_alive() and not got:  # its place is at the end only once it has begun
        with path.open("a") as file:
            file.write("four\n")
        reading.join(0.05)
    path.unlink()
    path.write_text("anew\n")
    reading.join(60)
    assert "four" == got[0]
    assert got[1] in ("four", "anew")


def test_a_log_of_one_line(tmp_path: Path) -> None:
    """A line whose start is out of reach is left out, and a sentence says so."""
    path = tmp_path / "run.log"
    path.write_text("")
    assert [] == log_tail.last_lines(path, 9)
    path.write_text("x" * ((1 << 20) + 1))
    assert ["(its last line is longer than 1 MiB)"] == log_tail.last_lines(path, 9)


def test_logs_tell_no_secret(
    kfetch: Command, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In place of a secret, the log shows the placeholder of the job's file."""
    (project / "conf" / "key").write_text("swordfish\nof the second line\n")
    file = project / "conf" / "jobs" / "clicks.yml"
    file.write_text(f"{JOB}spark:\n  spark.x: ${{file:../key}}\n")
    monkeypatch.setenv("SERVERS", "127.0.0.1:9092")
    directory = project / "data" / "clicks"
    directory.mkdir(parents=True)
    for name in ("run.log", "spark.log"):
        (directory / name).write_text("x=swordfish\nof the second line, then\n")
    for more in ((), ("--spark",), ("-n", "1")):
        assert "x=${file:../key}, then\n" == kfetch("logs", "clicks", *more)[1]
