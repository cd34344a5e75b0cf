"""The command line around projects and supervisors: what is printed, and exit codes."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from kfetch import cli
from kfetch_jobs.errors import JobsError
from kfetch_jobs.supervise import tail
from kfetch_jobs.supervise.lock import lock_file, office
from kfetch_jobs.supervise.log import log_file
from kfetch_jobs.supervise.machine import Phase, State
from kfetch_jobs.supervise.store import Store
from kfetch_jobs.util.files import claimed
from kfetch_jobs.util.plural import counted
from kfetch_jobs.verbs import text
from kfetch_jobs.web.serve import listening
from tests.kfetch_jobs.commands import Told
from tests.kfetch_jobs.projects import JOB


def test_a_new_project_is_right(kfetch: Told, shop: Path) -> None:
    """What ``init`` wrote validates; its schemas are there, and its .gitignore covers its data."""
    assert (0, "1 job, no mistakes: clicks\n", "") == kfetch("validate")
    assert {"job.json", "project.json", "environment.json"} == {
        path.name for path in (shop / "schema").iterdir()
    }
    assert ".kfetch/" in (shop / ".gitignore").read_text().splitlines()
    assert 2 == kfetch("init", str(shop))[0]


def test_validate_tells_all(kfetch: Told, shop: Path) -> None:
    """Every mistake is a line on stderr, or an element of JSON; the exit code is 2."""
    file = shop / "jobs" / "clicks.yml"
    file.write_text(file.read_text() + "a: 1\nb: 2\n")
    code, _, said = kfetch("validate")
    assert 2 == code
    assert 2 == said.count("kfetch: jobs/clicks.yml:")

    code, out, _ = kfetch("validate", "--json")
    assert (2, 2) == (code, len(json.loads(out)["mistakes"]))


def test_an_environment_must_have_its_variables(
    kfetch: Told, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--env chooses a file of env/."""
    monkeypatch.delenv("KFETCH_BOOTSTRAP", raising=False)

    assert 0 == kfetch("validate")[0]
    assert (
        "env/prod.yml:8: the environment variable KFETCH_BOOTSTRAP"
        in kfetch("validate", "--env", "prod")[2]
    )


def test_without_a_supervisor(kfetch: Told, shop: Path) -> None:
    """Jobs are listed, all is not well (3), orders wait, there is nothing to end, no job is made
    up, and there is no history."""
    assert "clicks" in kfetch("list")[1]
    assert ["clicks"] == [job["name"] for job in json.loads(kfetch("list", "--json")[1])]
    code, out, _ = kfetch("status", "--json")
    assert (3, None) == (code, json.loads(out)["supervisor"])
    assert "no supervisor runs" in kfetch("status")[1]
    assert "the next kfetch up does it" in kfetch("stop", "clicks")[1]
    assert (0, '{"ended": 0}\n', "") == kfetch("down", "--json")
    assert (2, "", "kfetch: there is no job click: did you mean clicks?\n") == kfetch(
        "start", "click"
    )
    assert (0, "[]\n", "") == kfetch("history", "--json")
    for words, writer in (
        ((), "kfetch up writes it"),
        (("clicks",), "kfetch up writes it; kfetch run prints to its own terminal"),
        (("clicks", "--spark"), "a run writes it"),
    ):
        code, _, said = kfetch("logs", *words)
        assert code == 1
        assert "there is no log" in said
        assert said.endswith(f".log yet: {writer}\n")


@pytest.mark.parametrize(
    ("phase", "about"),
    [
        (Phase.WAITING, "not supervised: kfetch up"),
        (Phase.RUNNING, "not supervised: kfetch up"),
        (Phase.BACKOFF, "failed 2 times in a row: no disk; not supervised: kfetch up"),
        (Phase.FINISHED, "no disk"),
    ],
)
def test_a_job_that_nobody_supervises(kfetch: Told, shop: Path, phase: Phase, about: str) -> None:
    """Status says so of each job that was to go on, instead of what it waits for."""
    with Store.of(shop / ".kfetch" / "storage") as store:
        store.save(
            {"clicks": State(phase=phase, since_s=0.0, due_s=0.0, failures=2, sentence="no disk")}
        )

    assert kfetch("status")[1].rstrip().endswith(f"  {about}")


BROKEN = """
import sys

def traced(frame, event, argument):
    if frame.f_code.co_name == "write" and frame.f_code.co_filename.endswith("address_file.py"):
        raise RuntimeError("a bug")

sys.setprofile(traced)
"""
"""A supervisor with this ends between its taking office and its word about the page."""


def test_what_keeps_a_supervisor_from_coming_up(kfetch: Told, shop: Path) -> None:
    """A mistake is told by the command that starts it in the background, with its code."""
    file = shop / "jobs" / "clicks.yml"
    file.write_text(file.read_text() + "enabld: true\n")

    assert (
        2,
        "",
        "kfetch: jobs/clicks.yml:33: the key enabld is not known: did you mean enabled?\n",
    ) == (kfetch("up", "--detach"))


def test_a_supervisor_that_ends_at_once(
    kfetch: Told, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for the page of a supervisor that is gone; what it said last is told."""
    (shop / "sitecustomize.py").write_text(BROKEN)
    monkeypatch.setenv("PYTHONPATH", str(shop))
    code, out, said = kfetch("up", "--detach", "--listen", "none")

    assert (1, "") == (code, out)
    assert "the supervisor did not come up: RuntimeError: a bug" in said


def test_an_address_without_a_token(kfetch: Told, shop: Path) -> None:
    """A supervisor that others could ask does not come up, and the storage stays free."""
    code, _, said = kfetch("up", "--quiet", "--listen", "0.0.0.0:0")

    assert code == 2
    assert "needs a token" in said
    with claimed(lock_file(shop / ".kfetch" / "storage")) as free:
        assert free


def test_a_second_supervisor(kfetch: Told, shop: Path) -> None:
    """It is refused before it asks for an address, which the first one has; and the log, which is
    the first one's, has no word of it."""
    storage = shop / ".kfetch" / "storage"
    with office(storage), listening("127.0.0.1:0") as (bound, _, _):
        assert bound is not None
        taken = f"127.0.0.1:{bound.getsockname()[1]}"
        code, _, said = kfetch("up", "--quiet", "--listen", taken)

    assert 1 == code
    assert f"has a supervisor (process {os.getpid()}): end that one first" in said
    assert "" == log_file(storage).read_text()


def test_a_newer_database_is_refused(kfetch: Told, shop: Path) -> None:
    """What a newer kfetch has written is not touched."""
    with Store.of(shop / ".kfetch" / "storage") as store:
        store._db.execute("PRAGMA user_version = 2")
    code, _, said = kfetch("status")

    assert code == 1
    assert "is of version 2, and this kfetch knows 1: update kfetch" in said


@pytest.mark.parametrize(
    "verb",
    [
        *("init", "validate", "schema", "run", "up", "down", "start", "stop", "restart"),
        *("pause", "resume", "list", "status", "history", "logs"),
        *("plan", "lag", "offsets show", "doctor"),
    ],
)
def test_every_verb_teaches(kfetch: Told, verb: str) -> None:
    """The help of each verb has an example that can be pasted."""
    assert f" kfetch {verb}" in kfetch(*verb.split(), "--help")[1].split("Example:")[1]


def test_the_end_of_a_log(tmp_path: Path) -> None:
    """The last lines, and those that come, also in a log that begins anew."""
    path = tmp_path / "run.log"
    with pytest.raises(JobsError, match="there is no log"):
        tail.last(path, 1)
    path.write_text("one\ntwo\nthree\n")
    assert ["two", "three"] == tail.last(path, 2)
    assert ["one", "2 and 3"] == tail.last(
        path, 2, lambda text: text.replace("two\nthree", "2 and 3")
    )

    lines = tail.added(path)
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
    """A line whose beginning is out of reach is not shown in part, and that is told."""
    path = tmp_path / "run.log"
    path.write_text("")
    assert [] == tail.last(path, 9)
    path.write_text("x" * ((1 << 20) + 1))
    assert ["(its last line is longer than 1 MiB)"] == tail.last(path, 9)


def test_logs_tell_no_secret(kfetch: Told, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a job takes as a secret from a file is shown as its file has it."""
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


def test_the_shell_completes(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the scripts of --install-completion ask for: the verbs that begin so."""
    asked = {"_KFETCH_COMPLETE": "complete_bash", "COMP_WORDS": "kfetch res", "COMP_CWORD": "1"}
    for name, value in asked.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.argv", ["kfetch"])
    with pytest.raises(SystemExit):
        cli.main()

    assert ["restart", "resume"] == capfd.readouterr().out.split()


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0.4, "0 s"), (59, "59 s"), (61, "1 min 1 s"), (7260, "2 h 1 min"), (90_000, "1 d 1 h")],
)
def test_durations(seconds: float, told: str) -> None:
    """Two units are enough for people."""
    assert told == text.duration(seconds)


@pytest.mark.parametrize(
    ("number", "told"), [(0, "0 jobs were"), (1, "1 job was"), (2000, "2,000 jobs were")]
)
def test_how_many(number: int, told: str) -> None:
    """One of something is one."""
    assert told == counted(number, "job was", "jobs were")
