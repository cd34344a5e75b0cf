"""``kfetch status``, ``history`` and ``logs``."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from kfetch_jobs.errors import JobsError
from kfetch_jobs.supervise import log_tail
from kfetch_jobs.supervise.state_machine import JobState, Phase
from kfetch_jobs.supervise.store import Store
from tests.kfetch_jobs.commands import Command
from tests.kfetch_jobs.projects import JOB


@pytest.mark.parametrize(
    ("phase", "about"),
    [
        (Phase.WAITING, "not supervised: kfetch up"),
        (Phase.RUNNING, "not supervised: kfetch up"),
        (Phase.BACKOFF, "failed 2 times in a row: no disk; not supervised: kfetch up"),
        (Phase.FINISHED, "no disk"),
    ],
)
def test_a_job_that_nobody_supervises(
    kfetch: Command, shop: Path, phase: Phase, about: str
) -> None:
    """Without a supervisor, status says so for each job with a next step."""
    with Store.of(shop / ".kfetch" / "storage") as store:
        store.save(
            {
                "clicks": JobState(
                    phase=phase, since_s=0.0, due_s=0.0, failures=2, sentence="no disk"
                )
            }
        )

    assert kfetch("status")[1].rstrip().endswith(f"  {about}")


def test_a_newer_database_is_refused(kfetch: Command, shop: Path) -> None:
    """kfetch changes no database of a newer version."""
    with Store.of(shop / ".kfetch" / "storage") as store:
        store._db.execute("PRAGMA user_version = 2")
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
    reading.join(10)
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
