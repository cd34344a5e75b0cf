"""Jobs whose file is gone, renamed or disabled while they run: nobody overlooks them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kfetch_jobs.errors import ConfigError
from kfetch_jobs.progress.exit_report import ExitKind
from kfetch_jobs.supervise import control
from kfetch_jobs.supervise.job_state import Order, Phase
from kfetch_jobs.supervise.order_reply import OrderReply
from kfetch_jobs.supervise.status import JobStatus
from kfetch_jobs.supervise.status_reader import read_status
from kfetch_jobs.supervise.supervisor import Supervisor
from kfetch_jobs.web.job_status import Tone, displayed_status
from tests.kfetch_jobs.stage import CONTINUOUS, COPY_REPORT, ONCE, PATIENCE_S, UNTIL_TERM, Stage

SHARED = CONTINUOUS.replace("${storage}/clicks/table", "${storage}/shared")
HOURLY = CONTINUOUS.replace("processingTime: 2s", 'cron: "0 * * * *"')


def file_of(stage: Stage, name: str) -> Path:
    return stage.directory / "conf" / "jobs" / f"{name}.yml"


def shown(stage: Stage) -> dict[str, JobStatus]:
    with stage.store() as store:
        return {job.name: job for job in read_status(stage.project, store, stage.now).jobs}


def reply(stage: Stage, supervisor: Supervisor, name: str, order: Order) -> OrderReply:
    with stage.store() as store:
        order_id = store.add_order(name, order, stage.now)
        supervisor.tick(stage.now)
        return OrderReply.from_text(str(store.reply_to(order_id)))


def test_a_renamed_job_is_shown_and_stopped(stage: Stage) -> None:
    """It runs on under its old name. ``status`` shows it as unhealthy, with what to do, and
    ``stop`` ends it; then it is gone. No other order reaches it."""
    stage.job("old", CONTINUOUS, UNTIL_TERM)
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "old")
        os.rename(file_of(stage, "old"), file_of(stage, "new"))
        old = shown(stage)["old"]

        assert (True, Phase.RUNNING) == (old.orphan, old.phase)
        assert ("its file is gone, and it still runs: kfetch stop old",) == old.unhealthy
        with stage.store() as store:
            for order in (Order.PAUSE, Order.START, Order.RESTART):
                with pytest.raises(ConfigError, match="job old has no file any more: kfetch stop"):
                    control.give_order(stage.project, store, ["old"], order)
            with pytest.raises(ConfigError, match="there is no job odd: did you mean old"):
                control.give_order(stage.project, store, ["odd"], Order.STOP)
        assert "" == reply(stage, supervisor, "old", Order.STOP).message
        stage.until_phase(supervisor, "old", Phase.STOPPED)
        assert ["new"] == list(shown(stage))
    assert [] == stage.processes()


def test_no_second_writer_beside_a_renamed_job(stage: Stage) -> None:
    """The new name would write the same records to the same table under another checkpoint. So it
    starts only when the old one has ended."""
    stage.job("old", SHARED, UNTIL_TERM)
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "old")
        file_of(stage, "old").unlink()
        stage.job("new", SHARED.replace("SELECT *", "SELECT key"), UNTIL_TERM)
        refused = reply(stage, supervisor, "new", Order.START)

        assert (1, True) == (
            refused.exit_code,
            refused.message.endswith(
                "job old, which still runs though its file is gone, writes records of the same "
                "source to the same table: kfetch stop old first"
            ),
        )
        assert [] == stage.runs("new")
        stage.ask("old", Order.STOP)
        stage.until_phase(supervisor, "old", Phase.STOPPED)
        assert "" == reply(stage, supervisor, "new", Order.START).message
        stage.until_runs(supervisor, "new")


def test_a_renamed_job_does_not_write_its_rows_again(stage: Stage) -> None:
    """``start`` and ``up`` refuse the new name until it has the old checkpoint. They leave no
    directory in the way of the rename."""
    stage.job("new", SHARED, UNTIL_TERM)
    storage = stage.project.storage
    log = storage / "shared" / "_delta_log"
    offsets = storage / "old" / "checkpoint" / "offsets"
    for directory in (log, offsets):
        directory.mkdir(parents=True)
    planned = json.dumps({"clicks": {"0": 5}})
    (offsets / "0").write_text(f"v1\n{{}}\n{planned}")
    (storage / "old/checkpoint/metadata").write_text('{"id":"q1"}')
    (log / f"{0:020}.json").write_text('{"txn":{"appId":"q1","version":0}}')

    with stage.supervisor() as supervisor:
        refused = reply(stage, supervisor, "new", Order.START)

        assert "job old, whose file is gone, has written topic clicks" in refused.message
        assert f"rename {storage / 'old'} to {storage / 'new'}" in refused.message
        assert [] == stage.runs("new")
        assert not (storage / "new").exists()
        (storage / "old").rename(storage / "new")
        assert "" == reply(stage, supervisor, "new", Order.START).message
        stage.until_runs(supervisor, "new")


def test_a_copied_job_is_refused(stage: Stage) -> None:
    """Two jobs with the same source, transform and table write each row twice: a mistake in the
    project, and a refused order while a supervisor runs."""
    stage.job("first", SHARED, UNTIL_TERM)
    with stage.supervisor() as supervisor:
        stage.job("second", SHARED, UNTIL_TERM)
        refused = reply(stage, supervisor, "second", Order.START)

        sentence = "job first writes the same rows of the same source to this table: "
        assert refused.message.startswith(f"conf/jobs/second.yml:9: {sentence}")
        assert [refused.message] == stage.project.jobs_and_mistakes()[1]
        stage.job("second", SHARED.replace("SELECT *", "SELECT key"), UNTIL_TERM)
        assert [] == stage.project.jobs_and_mistakes()[1]


@pytest.mark.parametrize("living", ["first", "second", ""])
def test_a_copied_job_after_a_kill(stage: Stage, living: str) -> None:
    """A new supervisor starts one writer of the same rows: the one that still runs, else the first.
    A mistake in a third file changes nothing."""
    names = ["first", "second"]
    if living:
        stage.job(living, SHARED, UNTIL_TERM)
    with stage.supervisor() as supervisor:
        if living:
            stage.until_runs(supervisor, living)
    for name in names:
        stage.job(name, SHARED, UNTIL_TERM)
    stage.job("third", CONTINUOUS + "a: 1\n", UNTIL_TERM)
    writer = living or "first"
    (other,) = {*names} - {writer}
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, writer)
        assert [1, 0] == [len(stage.runs(name)) for name in (writer, other)]
        refused = reply(stage, supervisor, other, Order.START).message
        assert f"job {writer} writes the same rows of the same source to this table" in refused


def test_a_held_job_takes_no_place_after_a_kill(stage: Stage) -> None:
    """Only an order starts it, and the supervisor checks that order."""
    stage.job("first", SHARED, UNTIL_TERM)
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "first")
        stage.ask("first", Order.STOP)
        stage.until_phase(supervisor, "first", Phase.STOPPED)
    stage.job("second", SHARED, UNTIL_TERM)
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "second")
        assert Phase.STOPPED is stage.phase("first")


def test_a_stopped_job_refuses_no_other_one(stage: Stage) -> None:
    """A stopped, disabled job writes nothing, so another job may write its rows. An order to start
    it again is checked itself."""
    stage.job("old", SHARED, UNTIL_TERM)
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "old")
        stage.ask("old", Order.STOP)
        stage.until_phase(supervisor, "old", Phase.STOPPED)
        stage.job("old", SHARED + "enabled: false\n", UNTIL_TERM)
        stage.job("new", SHARED, UNTIL_TERM)
        assert "" == reply(stage, supervisor, "new", Order.START).message
        stage.until_runs(supervisor, "new")
        stage.job("old", SHARED, UNTIL_TERM)

        refused = reply(stage, supervisor, "old", Order.START)
        assert "job new writes the same rows of the same source to this table" in refused.message


def test_a_job_without_a_file_is_not_started_again(stage: Stage) -> None:
    """Neither a cron time nor the end of a back-off runs it, until its file is back."""
    stage.job("hourly", HOURLY, UNTIL_TERM)
    stage.job("failing", CONTINUOUS, COPY_REPORT.format(kind="failed"))
    with stage.supervisor() as supervisor:
        stage.until_phase(supervisor, "failing", Phase.BACKOFF)
        for name in ("hourly", "failing"):
            file_of(stage, name).unlink()
        stage.ahead_s = 4000
        supervisor.tick(stage.now)
        supervisor.tick(stage.now)

        assert [0, 1] == [len(stage.runs(name)) for name in ("hourly", "failing")]
        assert ("its file is gone, and no run of it starts: kfetch stop hourly",) == (
            shown(stage)["hourly"].unhealthy
        )
        file_of(stage, "hourly").write_text(HOURLY)
        stage.until_runs(supervisor, "hourly")
    with stage.supervisor():
        assert ["hourly"] == list(shown(stage))


@pytest.mark.parametrize("deleted", [True, False])
def test_a_job_after_one_that_does_not_exist(stage: Stage, deleted: bool) -> None:
    """It never starts, so it is unhealthy, with the sentence of ``validate``. The other job was
    deleted, or there was none, and a mistake ended no supervisor after a kill."""
    stage.job("first", ONCE, COPY_REPORT.format(kind="finished"))
    if deleted:
        stage.job("second", f"{ONCE}after: first\n", UNTIL_TERM)
    with stage.supervisor() as supervisor:
        supervisor.tick(stage.now)
    os.rename(file_of(stage, "first"), file_of(stage, "fist"))
    stage.job("second", f"{ONCE}after: first\n", UNTIL_TERM)
    sentence = "conf/jobs/second.yml:13: after names first, and there is no such job: "
    sentence += "this job never starts: did you mean "
    with stage.supervisor() as supervisor:
        for _ in range(2):
            supervisor.tick(stage.now)
            second = shown(stage)["second"]
            assert (Phase.WAITING, (f"{sentence}fist?",)) == (second.phase, second.unhealthy)
            assert [*second.unhealthy] == stage.project.jobs_and_mistakes()[1][:1]
        stage.job("second", f"{ONCE}after: first\nenabled: false\n", UNTIL_TERM)
        (disabled,) = shown(stage)["second"].unhealthy
        assert disabled.startswith("its file disables it")


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (ONCE + "enabled: false\n", "and that job is disabled: this job never starts"),
        (CONTINUOUS, "and that job (every 2 seconds) does not end: this job never starts"),
    ],
)
def test_a_job_after_one_that_never_finishes(stage: Stage, first: str, why: str) -> None:
    """It never starts, so it is unhealthy, with the sentence of ``validate``, unless it is
    disabled, too."""
    with stage.supervisor():
        pass
    stage.job("first", first, UNTIL_TERM)
    stage.job("second", f"{ONCE}after: first\n", UNTIL_TERM)
    with stage.supervisor() as supervisor:
        supervisor.tick(stage.now)
        second = shown(stage)["second"]
        assert why in second.unhealthy[0]
        assert [*second.unhealthy] == stage.project.jobs_and_mistakes()[1]
        assert (Tone.WARN, second.unhealthy) == (
            displayed_status(second).tone,
            displayed_status(second).why,
        )
    stage.job("second", f"{ONCE}after: first\nenabled: false\n", UNTIL_TERM)
    assert not any("is disabled:" in one for one in stage.project.jobs_and_mistakes()[1])


def test_a_disabled_job_that_still_runs(stage: Stage) -> None:
    """``status`` says so. An order to run it on is refused, ``stop`` ends it."""
    stage.job("a", CONTINUOUS, UNTIL_TERM)
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "a")
        stage.job("a", CONTINUOUS + "enabled: false\n", UNTIL_TERM)
        a = shown(stage)["a"]

        assert ("its file disables it, and it still runs: kfetch stop a",) == a.unhealthy
        assert "job a is disabled in its file: enabled: false" in (
            reply(stage, supervisor, "a", Order.RESTART).message
        )
        stage.ask("a", Order.STOP)
        stage.until_phase(supervisor, "a", Phase.STOPPED)
        assert () == shown(stage)["a"].unhealthy


def test_a_disabled_job_that_waits_for_its_time(stage: Stage) -> None:
    """The supervisor still starts it: ``status`` says so, until ``stop``. Without a supervisor
    nobody starts it."""
    stage.job("hourly", HOURLY, UNTIL_TERM)
    stage.job("failing", CONTINUOUS, COPY_REPORT.format(kind="failed"))
    sentence = "its file disables it, and the supervisor still starts it: kfetch stop"
    with stage.supervisor() as supervisor:
        stage.until_phase(supervisor, "failing", Phase.BACKOFF)
        stage.job("hourly", HOURLY + "enabled: false\n", UNTIL_TERM)
        stage.job("failing", CONTINUOUS + "enabled: false\n", UNTIL_TERM)
        for name in ("hourly", "failing"):
            assert (f"{sentence} {name}",) == shown(stage)[name].unhealthy
        stage.ask("hourly", Order.STOP)
        stage.until_phase(supervisor, "hourly", Phase.STOPPED)
        assert () == shown(stage)["hourly"].unhealthy
        stage.change("UPDATE supervisor SET process_started_s = 0")
        assert () == shown(stage)["failing"].unhealthy


def test_down_reaches_what_a_killed_supervisor_left(stage: Stage) -> None:
    """Also a job whose file is gone; without a supervisor, ``status`` names ``down``."""
    stage.job("old", CONTINUOUS, UNTIL_TERM)
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "old")
    file_of(stage, "old").unlink()
    with stage.store() as store:
        stage.change("UPDATE supervisor SET process_started_s = 0")
        assert ("its file is gone, and it still runs: kfetch down",) == shown(stage)[
            "old"
        ].unhealthy
        assert 1 == control.shut_down(stage.project, store, timeout_s=PATIENCE_S)
        assert {} == shown(stage)
    assert [ExitKind.STOPPED] == [run.kind for run in stage.runs("old")]
    assert [] == stage.processes()
