"""``offsets reset``, ``replay`` and ``undo``: what they plan and write, and when they refuse; with
a little Kafka, and checkpoints as Spark writes them. Delta's part is in integration/running.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kfetch.errors import LeaseLost
from kfetch.model import TopicPartition
from kfetch.storage.lease_holder import HeldLease, take
from kfetch.storage.open import lease_beside
from kfetch.storage.processes import this_process
from kfetch_jobs import config
from kfetch_jobs.checkpoints import backup, checkpoint
from kfetch_jobs.errors import JobsError
from kfetch_jobs.offsets import checkpoint_log
from kfetch_jobs.supervise.job_state import JobState, Phase
from kfetch_jobs.supervise.store import Store, SupervisorRecord
from kfetch_jobs.util.files import try_lock
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch_jobs.checkpoints import CHECKPOINT, committed, files, job, offset, planned, stands
from tests.kfetch_jobs.commands import Command
from tests.kfetch_jobs.projects import JOB

MERGE = JOB.replace("format: delta", "mode: merge\n  keys: key\n  latestBy: offset")


Ask = Callable[..., Any]


def to(told: Any) -> list[tuple[int, int]]:
    return [(each["from"], each["to"]) for each in told["partitions"]]


FILE = {"clicks": {"1": 3}}


@pytest.mark.parametrize(
    ("verb", "words", "moves", "again", "skipped"),
    [
        ("reset", ["--to-earliest"], [(6, 1), (4, 0)], 9, 0),
        ("reset", ["--to-latest"], [(6, 10), (4, 4)], 0, 4),
        ("reset", ["--shift-by", "2"], [(6, 8), (4, 4)], 0, 2),
        ("reset", ["--shift-by=-9"], [(6, 1), (4, 0)], 9, 0),
        ("reset", ["--from-file", "file"], [(6, 6), (4, 3)], 1, 0),
        ("reset", ["--to-datetime", "2023-11-14T22:13:20.003+00:00"], [(6, 3), (4, 3)], 4, 0),
        ("reset", ["--to-datetime", "2023-11-14T23:13:20.008+01:00"], [(6, 8), (4, 4)], 0, 2),
        ("reset", ["--by-duration", "1 second"], [(6, 10), (4, 4)], 0, 4),
        ("reset", ["--to-earliest", "--topic", "clicks:1"], [(4, 0)], 4, 0),
        ("replay", ["--to-earliest"], [(6, 2), (4, 0)], 8, 0),
        ("replay", ["--to-earliest", "--margin", "0"], [(6, 1), (4, 0)], 9, 0),
        ("replay", ["--to-earliest", "--margin", "100"], [(6, 6), (4, 0)], 4, 0),
        ("replay", ["--shift-by", "2"], [(6, 6), (4, 4)], 0, 0),
        ("replay", ["--to-datetime", "2023-11-14T22:13:20.008+00:00"], [(6, 6), (4, 4)], 0, 0),
        ("replay", ["--shift-by=-1", "--topic", "clicks:0"], [(6, 5)], 1, 0),
    ],
)
def test_what_is_planned(
    kafka: LittleKafka,
    asked: Ask,
    verb: str,
    words: list[str],
    moves: list[tuple[int, int]],
    again: int,
    skipped: int,
) -> None:
    """From where to where, and how many offsets come again or are skipped; within the log, and a
    replay never ahead. Nothing is changed."""
    kafka.log(TopicPartition("clicks", 0)).start = 1
    Path("file").write_text(json.dumps(FILE))
    before = files()
    told = asked(verb, *words)

    assert (moves, again, skipped, False) == (
        to(told),
        told["again"],
        told["skipped"],
        told["executed"],
    )
    assert before == files()


@pytest.mark.parametrize(
    ("shift", "rows"), [("2", "rows of offsets that the job has yet to read, if"), ("-2", "these")]
)
def test_which_rows_a_plan_deletes(
    kafka: LittleKafka, kfetch: Command, shift: str, rows: str
) -> None:
    """If no partition moves back, the table has rows to delete only if the job has read on, as in
    an unfinished micro-batch."""
    out = kfetch("offsets", "replay", "clicks", f"--shift-by={shift}")[1]

    (line,) = [one for one in out.splitlines() if "delete" in one]
    assert rows in line
    assert ("no partition moves back" in line) is (shift == "2")


def test_a_move_names_the_next_step(kafka: LittleKafka, kfetch: Command) -> None:
    """A job that has finished, or that nobody supervises, does not run by itself."""
    out = kfetch("offsets", "reset", "clicks", "--to-earliest", "--execute")[1]

    assert "kfetch resume clicks, if it is paused, or kfetch start clicks" in out


def test_a_reset_is_a_micro_batch_of_its_own(kafka: LittleKafka, asked: Ask) -> None:
    """The next run goes on where it says, under a number that no batch has had; the partition that
    was not meant keeps its epoch, and undone the checkpoint is what it was, to the byte."""
    kafka.elect(TopicPartition("clicks", 0), 1)
    before = files()
    told = asked("reset", "--shift-by=-2", "--topic", "clicks:0", "--execute")

    assert (8, [(6, 4)]) == (told["batch"], to(told))
    assert {TopicPartition("clicks", 0): (4, 1), TopicPartition("clicks", 1): (4, 0)} == stands()
    read = checkpoint.read_checkpoint(CHECKPOINT)
    assert (8, 8) == (read.planned.number if read.planned else None, read.committed)

    assert not asked("undo")["executed"]
    assert 8 == checkpoint.read_checkpoint(CHECKPOINT).committed
    assert asked("undo", "--execute")["executed"]
    assert before == files()
    assert "there is no move of its offsets to undo" in asked("undo", "--execute", code=1)


def test_a_power_cut(
    kafka: LittleKafka, asked: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The backup with its record is on the disk before a move changes anything. So is the
    name of the new micro-batch's plan before that of its commit. An undo is noted as done when the
    disk has removed the micro-batch."""
    synced: list[Path] = []
    fsync = os.fsync

    def note(handle: int) -> None:
        synced.append(Path(f"/proc/self/fd/{handle}").readlink())
        fsync(handle)

    def remove(file: Path, missing_ok: bool = False) -> None:
        synced.append(Path("removed") / file.name)
        unlink(file, missing_ok)

    unlink = Path.unlink
    monkeypatch.setattr(os, "fsync", note)
    monkeypatch.setattr(Path, "unlink", remove)
    asked("reset", "--to-earliest", "--execute")

    here = CHECKPOINT.resolve()
    (made,) = here.with_name("checkpoint.backups").iterdir()
    plan, commit = (synced.index(here / log) for log in ("offsets", "commits"))
    first = {*made.rglob("*"), made, made.parent, made.parent.parent}
    assert set() == first - {*synced[:plan]}
    assert plan < commit
    assert made in synced[commit:]

    synced.clear()
    asked("undo", "--execute")
    removed = synced.index(Path("removed/8"))
    logs = [synced.index(here / log, removed) for log in ("offsets", "commits")]
    assert made in synced[max(logs) :]


def test_no_undo_after_a_run(kafka: LittleKafka, asked: Ask) -> None:
    """The sentence says which move it is, how to go on, and where the earlier offsets are."""
    asked("reset", "--to-earliest", "--execute")
    planned(9, offset(kafka, 10, 4))
    committed(9)
    before = files()
    said = asked("undo", "--execute", code=1)

    assert "job clicks has run since a kfetch offsets reset, and kfetch undoes a move only" in said
    assert "move the job with kfetch offsets reset or replay; kfetch checkpoint show " in said
    assert before == files()


def test_moves_are_undone_one_after_the_other(kafka: LittleKafka, asked: Ask) -> None:
    """The last one first."""
    before = files()
    asked("reset", "--to-earliest", "--execute")
    asked("reset", "--to-latest", "--execute")
    asked("undo", "--execute")
    assert (0, 0) == stands()[TopicPartition("clicks", 0)]
    asked("undo", "--execute")
    assert before == files()


def test_offsets_that_were_shown_are_a_file(
    kafka: LittleKafka, kfetch: Command, asked: Ask
) -> None:
    """What ``offsets show --json`` printed brings a job back there; not to another topic of the
    same name."""
    Path("file").write_text(kfetch("offsets", "show", "clicks", "--json")[1])
    asked("reset", "--to-earliest", "--execute")
    assert [(0, 6), (0, 4)] == to(asked("reset", "--from-file", "file", "--execute"))

    told = json.loads(Path("file").read_text())
    told["sources"][0]["topics"]["clicks"] = "f" * 32
    Path("file").write_text(json.dumps(told))
    said = asked("reset", "--from-file", "file", code=1)
    assert "belong to an earlier topic clicks (id ffff" in said


def test_a_new_partition_of_an_unfinished_batch_is_shown(
    kafka: LittleKafka, kfetch: Command, asked: Ask
) -> None:
    """It has no committed offset. A reset to the shown offsets leaves it where it is."""
    kafka.create("other", 1)
    kafka.topics["clicks"].logs += kafka.topics["other"].logs
    kafka.log(TopicPartition("clicks", 2)).append(b"n", b"n")
    planned(8, offset(kafka, 6, 4, 2))
    shown = kfetch("offsets", "show", "clicks", "--json")[1]
    assert [6, 4, None] == [
        each["committed"] for each in json.loads(shown)["sources"][0]["partitions"]
    ]
    Path("file").write_text(shown)

    words = ["--from-file", "file", "--execute", "--give-up-batch"]
    assert [(6, 6), (4, 4), (0, 0)] == to(asked("reset", *words))


def test_a_batch_without_its_commit(kafka: LittleKafka, asked: Ask) -> None:
    """Its rows may be in the table: an append's reset refuses, unless told. A merge writes them
    once more."""
    planned(8, offset(kafka, 9, 4))
    said = asked("reset", "--to-latest", "--execute", code=2)
    assert "micro-batch 8 was planned, and its end is not noted" in said
    assert 8 == asked("reset", "--to-latest")["given_up"]
    assert 9 == asked("reset", "--to-latest", "--execute", "--give-up-batch")["batch"]

    planned(10, offset(kafka, 10, 4))
    assert [str(Path("data/clicks/table").resolve())] == asked("reset", "--to-earliest")["tables"]
    job(MERGE)
    assert [] == asked("reset", "--to-earliest")["tables"]
    assert [(10, 0), (4, 0)] == to(asked("replay", "--to-earliest", "--execute"))
    assert 11 == checkpoint.read_checkpoint(CHECKPOINT).committed


def test_past_a_loss(kafka: LittleKafka, asked: Ask, kfetch: Command) -> None:
    """A replay can't read lost records. A reset moves past them, also to a topic that was created
    again, and forgets partitions that no longer exist."""
    kafka.create("clicks", 1)[0].append(b"n", b"n", b"n")
    assert "a replay can't read lost records: " in asked("replay", "--to-earliest", code=1)

    kafka.topics["clicks"].logs.append(kafka.create("other")[0])
    said = asked("reset", "--to-earliest", "--topic", "clicks:0", code=1)
    assert "so its offsets in the checkpoint are invalid" in said
    kafka.topics["clicks"].logs.pop()
    assert "clicks-1 no longer exists" in kfetch("offsets", "reset", "clicks", "--to-latest")[1]
    told = asked("reset", "--to-latest", "--execute")
    assert ([(0, 3)], 3) == (to(told), told["skipped"])
    assert [{"topic": "clicks", "partition": 1}] == told["dropped"]
    assert {TopicPartition("clicks", 0): (3, 0)} == stands()
    assert 0 == kfetch("plan", "clicks")[0]


def test_a_partition_that_is_away(kafka: LittleKafka, asked: Ask) -> None:
    """A reset keeps the position of a partition that is away, for the day when it returns."""
    kafka.topics["clicks"].logs.pop()
    told = asked("reset", "--to-latest", "--execute")
    end = checkpoint.read_checkpoint(CHECKPOINT).end(0)

    assert [{"topic": "clicks", "partition": 1}] == told["dropped"]
    assert end is not None
    assert {TopicPartition("clicks", 1): (4, 0)} == {
        tp: last.position for tp, last in end.left.items()
    }


def test_a_new_partition(kafka: LittleKafka, asked: Ask) -> None:
    """A reset places it, too; a replay leaves it to the next run, which begins at its start."""
    kafka.create("other", 1)
    kafka.topics["clicks"].logs += kafka.topics["other"].logs
    kafka.log(TopicPartition("clicks", 2)).append(b"n", b"n")

    assert [(6, 0), (4, 0)] == to(asked("replay", "--to-earliest"))
    assert [(6, 10), (4, 4), (0, 2)] == to(asked("reset", "--to-latest", "--execute"))
    assert (2, 0) == stands()[TopicPartition("clicks", 2)]


def never_ran(kafka: LittleKafka) -> None:
    for file in files():
        Path(file).unlink()


def keeps_state(kafka: LittleKafka) -> None:
    (CHECKPOINT / "state" / "0").mkdir(parents=True)


def without_leader(kafka: LittleKafka) -> None:
    kafka.elect(TopicPartition("clicks", 0), None)


def remote(kafka: LittleKafka) -> None:
    job(JOB + "checkpoint: viewfs://name/x\n")


def another_query(kafka: LittleKafka) -> None:
    backup.create_backup(checkpoint.read_checkpoint(CHECKPOINT), "reset", 8, (), 1.0)
    (CHECKPOINT / "metadata").write_text('{"id": "q-2"}')


@pytest.mark.parametrize(
    ("prepare", "words", "sentence", "code"),
    [
        (never_ran, ["reset", "--to-latest"], "has not read anything yet", 1),
        (
            keeps_state,
            ["reset", "--to-latest"],
            "in which records that it reads again",
            1,
        ),
        (without_leader, ["reset", "--to-latest"], "clicks-0 has no leader", 1),
        (remote, ["replay", "--to-earliest"], "viewfs://name/x is not on this machine", 1),
        (another_query, ["undo"], "is the checkpoint of another query (q-2)", 1),
        (None, ["reset"], "name one target, not 0", 2),
        (None, ["reset", "--to-latest", "--shift-by", "1"], "not 2", 2),
        (None, ["reset", "--to-datetime", "noon"], "--to-datetime noon is no time", 2),
        (None, ["reset", "--by-duration", "long"], "--by-duration long is no duration", 2),
        (None, ["reset", "--by-duration", "99999999 days"], "is no duration", 2),
        (None, ["reset", "--from-file", "no"], "--from-file no can't be read", 2),
        (None, ["reset", "--from-file", "bad"], "--from-file bad has no offsets", 2),
        (None, ["reset", "--to-latest", "--topic", "click"], "did you mean clicks?", 2),
        (None, ["reset", "--to-latest", "--topic", "clicks:7"], "has no partition 7, the", 2),
        (None, ["reset", "--to-latest", "--topic", "clicks:x"], "write them as in clicks:0,3", 2),
    ],
)
def test_what_can_not_be(
    kafka: LittleKafka,
    asked: Ask,
    prepare: Callable[[LittleKafka], None] | None,
    words: list[str],
    sentence: str,
    code: int,
) -> None:
    """One sentence each, and nothing is changed."""
    Path("bad").write_text('{"clicks": {"0": -3}}')
    if prepare:
        prepare(kafka)
    before = files()

    assert sentence in asked(*words, "--execute" if len(words) > 1 else "--json", code=code)
    assert before == files()


def test_while_the_job_runs(kafka: LittleKafka, asked: Ask) -> None:
    """A plan can be looked at; nothing is done while another has the job's lock."""
    with try_lock(Path("data/clicks/lock")):
        assert 4 == asked("reset", "--to-latest")["skipped"]
        assert "runs here already" in asked("reset", "--to-latest", "--execute", code=1)


def test_while_a_run_of_another_project_holds_the_checkpoint(
    kafka: LittleKafka, asked: Ask
) -> None:
    """The lease beside the checkpoint refuses the move, on any host."""
    before = files()
    with take(lease_beside(CHECKPOINT), this_process("run of job other")):
        said = asked("reset", "--to-latest", "--execute", code=1)
    assert "checkpoint.lease is held by process" in said
    assert before == files()


@pytest.mark.parametrize("words", [("reset", "--to-latest"), ("undo",)])
def test_a_move_that_slept(
    kafka: LittleKafka, asked: Ask, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """It changes nothing in the checkpoint once another process may have the lease."""
    asked("reset", "--shift-by", "1", "--execute")
    before = files()
    monkeypatch.setattr(HeldLease, "check", _lost)
    assert "another process has taken it" in asked(*words, "--execute", code=1)
    assert before == files()


def _lost(lease: HeldLease) -> None:
    raise LeaseLost(f"this process has lost {lease.file}, because another process has taken it")


@pytest.mark.parametrize(
    ("phase", "code"), [(Phase.WAITING, 1), (Phase.BACKOFF, 1), (Phase.PAUSED, 0)]
)
def test_while_a_supervisor_would_start_it(
    kafka: LittleKafka, asked: Ask, phase: Phase, code: int
) -> None:
    """A pause keeps it from that."""
    import psutil

    me = psutil.Process()
    with Store.of(Path("data").resolve()) as store:
        store.save({"clicks": JobState(phase=phase, since_s=0.0)})
        store.record_start(
            SupervisorRecord(
                pid=me.pid,
                process_started_s=me.create_time(),
                environment=None,
                started_s=0.0,
                ended_s=None,
            )
        )
    said = asked("reset", "--to-latest", "--execute", code=code)
    assert not code or "kfetch pause clicks first" in said


@pytest.mark.parametrize("step", ["add_batch", "remove_batch"])
def test_an_interrupted_move(
    kafka: LittleKafka, asked: Ask, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half done, it keeps the job from running until it is undone."""
    before = files()
    if step == "remove_batch":
        asked("reset", "--to-latest", "--execute")
    with monkeypatch.context() as broken:
        broken.setattr(checkpoint_log, step, interrupted)
        verb = ("reset", "--to-latest") if step == "add_batch" else ("undo",)
        with pytest.raises(OSError, match="power cut"):
            asked(*verb, "--execute")
    the_job = config.load(config.find(Path.cwd())).job("clicks")
    with pytest.raises(JobsError, match=r"was interrupted, .*kfetch offsets undo clicks --execute"):
        backup.check_no_interrupted_move(the_job)

    asked("undo", "--execute")
    backup.check_no_interrupted_move(the_job)
    assert before == files()


def test_an_interrupted_move_of_a_first_batch(
    kafka: LittleKafka, asked: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint without any commit goes back to what it was, too."""
    shutil.rmtree(CHECKPOINT / "commits")
    before = files()
    with monkeypatch.context() as broken:
        broken.setattr(checkpoint_log, "add_batch", interrupted)
        with pytest.raises(OSError, match="power cut"):
            asked("reset", "--to-latest", "--execute", "--give-up-batch")

    asked("undo", "--execute")
    assert before == files()


def interrupted(*_: object) -> None:
    raise OSError("power cut")


def test_status_names_an_interrupted_move(kafka: LittleKafka, kfetch: Command) -> None:
    """The job may look stopped or paused. ``status`` names the move and the next command."""
    assert "undo" not in kfetch("status")[1]
    begun = backup.create_backup(checkpoint.read_checkpoint(CHECKPOINT), "replay", 8, (), 1.0)
    said = "if it no longer runs, kfetch offsets undo clicks --execute"

    for stage, move in (
        (backup.Stage.BEGUN, "a kfetch offsets replay has not ended: "),
        (backup.Stage.UNDOING, "the undoing of a kfetch offsets replay has not ended: "),
    ):
        begun.record_stage(stage)
        code, out, _ = kfetch("status", "--json")
        assert (3, [move + said]) == (code, json.loads(out)["jobs"][0]["unhealthy"])
    begun.record_stage(backup.Stage.DONE)
    assert [] == json.loads(kfetch("status", "--json")[1])["jobs"][0]["unhealthy"]


def test_a_clock_that_was_set_back(kafka: LittleKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """A move that was interrupted keeps the job from running, although an earlier one has a later
    time, and it keeps its own backup."""
    monkeypatch.setattr(backup, "KEPT_MAX", 1)
    before = checkpoint.read_checkpoint(CHECKPOINT)
    backup.create_backup(before, "reset", 8, (), 2000.0).record_stage(backup.Stage.DONE)
    backup.create_backup(before, "replay", 9, (), 1000.0)
    found = backup.interrupted_move(config.load(config.find(Path.cwd())).job("clicks"))

    assert found is not None
    assert (9, backup.Stage.BEGUN) == (found.batch, found.stage)


def test_many_partitions(kafka: LittleKafka, kfetch: Command) -> None:
    """Those that move furthest are shown, and how many are not; --partitions shows all."""
    logs = kafka.create("clicks", 100)
    for each in logs:
        each.append(*[b"a"] * 10)
    logs[99].append(b"b")
    planned(8, offset(kafka, *[10] * 100))
    committed(8)
    out = kfetch("offsets", "reset", "clicks", "--to-earliest")[1].splitlines()

    assert "clicks/table will have these rows twice: kfetch offsets replay" in out[-2]
    assert "  and 80 more: --partitions shows all" in out
    assert "100 of 100 partitions move: the job reads 1,000 offsets again and skips 0" in out
    assert len(out) < 30
    assert 100 < len(
        kfetch("offsets", "reset", "clicks", "--to-earliest", "--partitions")[1].splitlines()
    )


def test_sources_of_one_job(kafka: LittleKafka, asked: Ask) -> None:
    """Each keeps its line in the checkpoint, whatever the order of the file."""
    kafka.create("users")[0].append(b"u", b"v")
    views = "sources:\n  clicks: {cluster: local, subscribe: clicks}\n"
    views += "  users: {cluster: local, subscribe: users}\n"
    job(views + JOB[JOB.index("transform") :])
    planned(8, {"users": {"0": 1}}, offset(kafka, 6, 4))
    committed(8)
    asked("reset", "--to-latest", "--topic", "users", "--execute")

    read = checkpoint.read_checkpoint(CHECKPOINT)
    assert read.planned is not None
    users, clicks = read.planned.sources
    assert users is not None
    assert clicks is not None
    assert ([2], [6, 4]) == (
        [at.offset for at in users.positions.values()],
        [at.offset for at in clicks.positions.values()],
    )
