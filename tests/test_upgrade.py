"""Files that commit 61ec925 wrote, before the packages got their names: this code goes on."""

from __future__ import annotations

import json
import re
import shutil
import time
from pathlib import Path

import pytest

from kfetch.model import TopicPartition
from kfetch.offsets import Position, from_json
from kfetch_jobs import config
from kfetch_jobs.checkpoints import checkpoint
from kfetch_jobs.config import Project
from kfetch_jobs.kafka import state
from kfetch_jobs.progress.exit_report import ExitKind
from kfetch_jobs.progress.progress_file import last_batch
from kfetch_jobs.progress.reports import read_pulse
from kfetch_jobs.supervise.job_state import Order, Phase
from kfetch_jobs.supervise.status_reader import read_status
from kfetch_jobs.supervise.store import Run, Store, SupervisorRecord
from kfetch_jobs.supervise.supervisor import Supervisor
from kfetch_jobs.supervise.supervisor_lock import hold_supervisor_lock

UPGRADE = Path(__file__).parent / "vectors" / "upgrade"
QUERY = UPGRADE / "query" / "checkpoint"
LOGGED = sorted(UPGRADE.glob("**/checkpoint/offsets/[0-9]*"))
HISTORY = [
    ("broken", ExitKind.FAILED),
    ("clicks", ExitKind.STOPPED),
    ("daily", ExitKind.FINISHED),
    ("broken", ExitKind.FAILED),
    ("clicks", None),
]
"""The runs in the database, sorted by when they began. The last one has no end."""
PATIENCE_S = 60.0


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A copy of the project, with its storage."""
    shutil.copytree(UPGRADE / "project", tmp_path / "project")
    return config.load(tmp_path / "project" / "kfetch.yml", {"KFETCH_STORAGE": "storage"})


@pytest.mark.parametrize("file", LOGGED, ids=lambda file: f"{file.parents[2].name}-{file.name}")
def test_an_offset_loses_its_sessions_alone(file: Path) -> None:
    """An offset of the old checkpoint, read and written again, is the same JSON byte for byte,
    without the watch sessions."""
    logged = file.read_text().splitlines()[-1]
    expected = re.sub(r', "sessions": \{.*\}\}$', "}", logged)

    assert expected == json.dumps(from_json(json.loads(logged)).to_json())


def test_some_old_offsets_hold_sessions() -> None:
    """The old checkpoint covers both forms: offsets with watch sessions and offsets without."""
    with_sessions = ["sessions" in json.loads(f.read_text().splitlines()[-1]) for f in LOGGED]

    assert {False, True} == set(with_sessions)


def test_the_next_offset_has_no_sessions() -> None:
    """The first offset that moves on the old checkpoint has no sessions, and nothing else is
    new."""
    logged = json.loads((QUERY / "offsets" / "3").read_text().splitlines()[-1])
    start = from_json(logged)
    moved = {TopicPartition("clicks", 1): Position(30, 0)}
    end = start.with_moved(moved, topic_ids=start.topic_ids)

    del logged["sessions"]
    logged["topics"]["clicks"]["partitions"]["1"] = [30, 0]
    assert json.dumps(logged) == json.dumps(end.to_json())


def test_the_reader_knows_where_a_query_stopped() -> None:
    """The checkpoint's reader finds the micro-batch without a commit and the offsets before it."""
    found = checkpoint.read_checkpoint(QUERY)
    start, end = found.start(0), found.end(0)

    assert (2, True) == (found.committed, found.pending)
    assert found.query == json.loads((QUERY / "metadata").read_text())["id"]
    assert start is not None
    assert end is not None
    assert {TopicPartition("clicks", n): (20, 0) for n in range(3)} == start.positions
    assert {TopicPartition("clicks", n): (28, 0) for n in range(3)} == end.positions
    assert {"clicks"} == set(start.topic_ids)
    assert start.topic_ids == end.topic_ids


def test_a_broker_directory_is_known() -> None:
    """The state of a stopped broker is read: its cluster id and its one node."""
    found = state.load(UPGRADE / "broker")

    assert found is not None
    meta = (UPGRADE / "broker" / "node-1" / "data" / "meta.properties").read_text()
    assert f"cluster.id={found.cluster_id}" in meta.splitlines()
    assert [(1, None)] == [(node.node_id, node.pid) for node in found.nodes]


def test_a_database_shows_its_past(project: Project) -> None:
    """The old database has all runs, every job's phase, the waiting order and the supervisor."""
    with Store.of(project.storage) as store:
        assert HISTORY == [(run.job, run.kind) for run in store.runs_after(0)]
        assert {"broken": Phase.FAILED, "clicks": Phase.RUNNING, "daily": Phase.FINISHED} == {
            name: found.phase for name, found in store.states().items()
        }
        assert [("daily", Order.PAUSE)] == [(one.job, one.order) for one in store.waiting_orders()]
        assert store.reply_to(1) is not None
        last = store.last_supervisor()
        assert last is not None
        assert last.ended_s is None
        shown = read_status(project, store, last.started_s)
        failed = store.history("broken", 1)[0]

    assert [""] * 3 == [job.mistake for job in shown.jobs]
    assert failed.sentence.startswith("job broken failed: the till is empty")
    assert (0, 0) == (failed.batches, failed.rows)


def test_a_database_takes_new_rows(project: Project) -> None:
    """Runs, orders and the supervisor are written to the old database, and its ids go on."""
    with Store.of(project.storage) as store:
        states = store.states()
        run = store.begin({"clicks": states["clicks"]}, 2e9)["clicks"]
        store.started(run, 4711, 2e9, "boot/1")
        store.end(run, 2e9 + 1, ExitKind.FINISHED, batches=3, rows=30, states=states)
        order = store.add_order("clicks", Order.STOP, 2e9)
        store.record_reply(order, "done")
        store.record_start(
            SupervisorRecord(
                pid=1, process_started_s=2e9, environment=None, started_s=2e9, ended_s=None
            )
        )
        store.record_end(2e9)

    with Store.of(project.storage) as store:
        written = store.history("clicks", 1)[0]
        assert (len(HISTORY) + 1, ExitKind.FINISHED, 30) == (written.id, written.kind, written.rows)
        assert len(HISTORY) + 1 == len(store.runs_after(0))
        assert (3, "done") == (order, store.reply_to(order))
        assert states == store.states()
        incumbent = store.last_supervisor()
        assert incumbent is not None
        assert (1, 2e9) == (incumbent.pid, incumbent.ended_s)


def test_reports_of_an_old_run_count(project: Project) -> None:
    """The old run's pulse and history are read: a supervisor may adopt such a run."""
    directory = project.storage / "clicks"
    pulse, last = read_pulse(directory), last_batch(directory)

    assert pulse is not None
    assert last is not None
    assert checkpoint.read_checkpoint(directory / "checkpoint").query == pulse.query
    assert (pulse.batch, pulse.lag) == (last.batch, last.lag)


def test_a_supervisor_takes_over(project: Project) -> None:
    """A supervisor on the old database notes the end of the open run, takes the waiting order, and
    starts the job again after a pause."""

    def command(job: str, word: Path) -> list[str]:
        text = json.dumps({"kind": "finished"})
        return ["/bin/sh", "-c", 'printf %s "$1" > "$2"', "sh", text, str(word)]

    with hold_supervisor_lock(project.storage), Supervisor.start(project, command) as supervisor:
        supervisor.tick(time.time())
        with Store.of(project.storage) as store:
            first = {name: found.phase for name, found in store.states().items()}
            waiting = store.waiting_orders()
        deadline = time.monotonic() + PATIENCE_S
        while last_runs(project)[-1].kind is not ExitKind.FINISHED:
            assert time.monotonic() < deadline
            supervisor.tick(time.time() + 60)
            time.sleep(0.01)

    assert {"broken": Phase.FAILED, "clicks": Phase.BACKOFF, "daily": Phase.PAUSED} == first
    assert [] == waiting
    assert [("clicks", ExitKind.KILLED), ("clicks", ExitKind.FINISHED)] == [
        (run.job, run.kind) for run in last_runs(project)
    ]


def last_runs(project: Project) -> list[Run]:
    """The run that the old supervisor left open, and all later ones."""
    with Store.of(project.storage) as store:
        return store.runs_after(len(HISTORY) - 1)
