"""A job runs with the files that were validated when it was started, until somebody starts anew."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

import pytest

from kfetch_jobs.config import Job
from kfetch_jobs.config.snapshot import read_snapshot, snapshot_path
from kfetch_jobs.supervise.job_files import project_now
from kfetch_jobs.supervise.job_state import Order, Phase
from kfetch_jobs.supervise.order_reply import OrderReply
from kfetch_jobs.supervise.run_process import command_for_runs
from kfetch_jobs.supervise.status_reader import read_status
from kfetch_jobs.supervise.supervisor import Supervisor
from kfetch_jobs.verbs import running
from tests.kfetch_jobs.commands import Command
from tests.kfetch_jobs.projects import ENVIRON
from tests.kfetch_jobs.stage import CONTINUOUS, COPY_REPORT, UNTIL_TERM, Stage

SLOW = CONTINUOUS + "stopWithin: 100 s\n"


def reply(stage: Stage, supervisor: Supervisor, name: str, order: Order) -> OrderReply:
    with stage.store() as store:
        order_id = store.add_order(name, order, stage.now)
        supervisor.tick(stage.now)
        return OrderReply.from_text(str(store.reply_to(order_id)))


def snapshot(stage: Stage, name: str) -> dict[str, str]:
    texts = read_snapshot(snapshot_path(stage.storage / name))
    return {path.name: text for path, text in texts.items()}


def stop_s(supervisor: Supervisor, name: str) -> float:
    """How long a job may take to stop, by its present rules."""
    return supervisor._jobs[name].file.stopWithin


def test_a_crash_takes_no_half_edited_file(stage: Stage) -> None:
    """The next run after a crash has the project's and the job's files as they were validated, and
    so have the supervisor's rules. ``restart`` takes new files, if they are valid."""
    stage.job("a", CONTINUOUS, UNTIL_TERM)
    project_file = stage.directory / "conf" / "kfetch.yml"
    before = project_file.read_text()
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "a")
        validated = snapshot(stage, "a")
        assert {"kfetch.yml", "a.yml"} == validated.keys()
        stage.job("a", CONTINUOUS + "health: {noProg", UNTIL_TERM)
        project_file.write_text("storage: ../elsewh")
        os.kill(stage.runs("a")[0].pid or 0, signal.SIGKILL)
        stage.until_phase(supervisor, "a", Phase.BACKOFF)
        stage.ahead_s = 400
        stage.until(supervisor, lambda: len(stage.runs("a")) == 2)

        assert validated == snapshot(stage, "a")
        project_file.write_text(before)
        assert 2 == reply(stage, supervisor, "a", Order.RESTART).exit_code
        stage.job("a", SLOW, UNTIL_TERM)
        assert stop_s(supervisor, "a") == 60
        assert "changed since: kfetch restart a" in (
            reply(stage, supervisor, "a", Order.START).message
        )
        assert stop_s(supervisor, "a") == 60
        reply(stage, supervisor, "a", Order.RESTART)
        stage.until(supervisor, lambda: len(stage.runs("a")) == 3)
        assert stop_s(supervisor, "a") == 100
        assert "stopWithin" in snapshot(stage, "a")["a.yml"]


def test_a_takeover_keeps_the_files_of_a_run(stage: Stage) -> None:
    """The next supervisor reads the rules of an adopted run from the files of that run, also if a
    file has a mistake by now. ``stop`` reaches that job."""
    stage.job("a", CONTINUOUS, UNTIL_TERM)
    stage.job("wrong", CONTINUOUS, UNTIL_TERM)
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "a", "wrong")
    stage.job("a", SLOW, UNTIL_TERM)
    stage.job("wrong", CONTINUOUS + "a: 1\n", UNTIL_TERM)
    with stage.supervisor() as supervisor:
        assert [60, 60] == [stop_s(supervisor, name) for name in ("a", "wrong")]
        with stage.store() as store:
            wrong = read_status(stage.project, store, stage.now).jobs[1]
        assert (Phase.RUNNING, True) == (wrong.phase, "a is not known" in wrong.mistake)
        stage.ask("wrong", Order.STOP)
        stage.until_phase(supervisor, "wrong", Phase.STOPPED)
    assert 1 == len({process.pid for process in stage.processes()} & {stage.runs("a")[0].pid})


def test_another_storage_needs_another_supervisor(stage: Stage) -> None:
    """A supervisor's storage has its lock and database, so an order can't change it."""
    stage.job("a", CONTINUOUS, COPY_REPORT.format(kind="config"))
    with stage.supervisor() as supervisor:
        stage.until_phase(supervisor, "a", Phase.FAILED)
        project_file = stage.directory / "conf" / "kfetch.yml"
        project_file.write_text(project_file.read_text().replace("../data", "../elsewhere"))

        assert "names another storage: kfetch down, then kfetch up" in (
            reply(stage, supervisor, "a", Order.START).message
        )


def test_a_run_reads_the_validated_files(
    stage: Stage, kfetch: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The supervisor's command names the copies, and ``kfetch run`` reads them: not the half-edited
    files, and not a renamed one's place. Only their owner may read the copies."""
    jobs: list[Job] = []

    def run(job: Job, term: object) -> None:
        jobs.append(job)
        raise InterruptedError

    monkeypatch.setenv("SERVERS", ENVIRON["SERVERS"])
    monkeypatch.setattr(running, "_run", run)
    stage.job("a", SLOW, UNTIL_TERM)
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "a")
    command = command_for_runs(stage.project)("a", Path("ending.json"))
    (stage.directory / "conf" / "kfetch.yml").write_text("storage: [")
    (stage.directory / "conf" / "jobs" / "a.yml").unlink()
    with pytest.raises(InterruptedError):
        kfetch(*command[command.index("run") :])

    assert [100.0] == [job.file.stopWithin for job in jobs]
    mode = snapshot_path(stage.storage / "a").stat().st_mode
    assert 0o600 == stat.S_IMODE(mode)


def test_a_new_cluster_needs_no_new_supervisor(stage: Stage) -> None:
    """An order reads ``kfetch.yml`` too, and so does the page: a job may name a cluster that has
    come since. A half-edited ``kfetch.yml`` hides no job."""
    stage.job("a", CONTINUOUS, UNTIL_TERM)
    with stage.supervisor() as supervisor, stage.store() as store:
        loaded = stage.project
        project_file = stage.directory / "conf" / "kfetch.yml"
        text = project_file.read_text() + "  other: {bootstrap.servers: 'elsewhere:9092'}\n"
        project_file.write_text(text)
        stage.job("b", CONTINUOUS.replace("cluster: local", "cluster: other"), UNTIL_TERM)
        assert "" == reply(stage, supervisor, "b", Order.START).message
        stage.until_runs(supervisor, "b")
        jobs = read_status(project_now(loaded), store, stage.now).jobs
        assert ["", ""] == [job.mistake for job in jobs]
        project_file.write_text("storage: [")
        assert project_now(loaded) is loaded
