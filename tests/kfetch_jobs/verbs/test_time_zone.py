"""One time zone for people: UTC, and its name stands beside each time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfetch_jobs import config
from kfetch_jobs.progress.exit_report import ExitKind
from kfetch_jobs.supervise.job_state import JobState, Phase
from kfetch_jobs.supervise.order_reply import outdated_file_notice
from kfetch_jobs.supervise.store import Store
from kfetch_jobs.util.wording import utc
from kfetch_jobs.verbs.targets import of_duration, of_time
from kfetch_jobs.web.units import clock
from tests.kfetch_jobs.commands import Command
from tests.kfetch_jobs.projects import ENVIRON

AT_S = 1_700_000_000.0
TEXT = "2023-11-14 22:13:20 UTC"


@pytest.fixture(autouse=True)
def new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This machine's own zone is another one."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_options_without_a_zone_are_utc() -> None:
    """A time with a zone means that zone. The plan names UTC."""
    assert AT_S * 1000 == of_time("2023-11-14T22:13:20").timestamp_ms
    assert AT_S * 1000 == of_time("2023-11-14T23:13:20+01:00").timestamp_ms
    assert f"the first record at {TEXT} or later" == str(of_time("2023-11-14T23:13:20+01:00"))
    assert f"the first record at {TEXT} or later" == str(of_duration("1h", AT_S + 3600))


@pytest.mark.parametrize(
    "text", ["1969-12-31T23:59:59.999", "1969-12-31T23:59:59.998", "1066-10-14"]
)
def test_times_before_1970(text: str) -> None:
    """Every record is at that time or later: Kafka is not asked for -1, which means the log end."""
    assert of_time(text).timestamp_ms == 0


def test_history_page_and_notices_name_utc(
    project: Path, kfetch: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The history, the page and the supervisor's notices show the same text for a time."""
    monkeypatch.setenv("SERVERS", ENVIRON["SERVERS"])
    loaded = config.load(project / "conf" / "kfetch.yml", ENVIRON)
    job = loaded.job("clicks")
    job.document.path.write_text("changed: 1")
    state = JobState(phase=Phase.RUNNING, since_s=AT_S, started_s=AT_S)
    with Store.of(loaded.storage) as store:
        run = store.begin({"clicks": state}, AT_S)["clicks"]
        store.end(run, AT_S + 1, ExitKind.FAILED, "no disk")

    assert TEXT == utc(AT_S) == clock(AT_S)
    assert TEXT in kfetch("history")[1]
    assert "batches  records  why" in kfetch("history")[1]  # dead letters are no rows of the table
    assert f"its file of {TEXT}, which" in outdated_file_notice(job, state)
