"""Moves of a checkpoint on this machine and in a store: the same words, the same results."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kfetch.storage.open import StoredPath, stored_path
from kfetch_jobs import config
from kfetch_jobs.checkpoints import backup
from kfetch_jobs.checkpoints.backup import Stage
from kfetch_jobs.checkpoints.checkpoint import read_checkpoint
from kfetch_jobs.config import Job
from kfetch_jobs.errors import ConfigError, JobsError
from kfetch_jobs.offsets import checkpoint_log
from kfetch_jobs.run import start_checks
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch_jobs.checkpoints import CHECKPOINT, job
from tests.kfetch_jobs.projects import JOB
from tests.store import Store

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

Ask = Callable[..., Any]


@pytest.fixture(params=["disk", "s3"])
def place(request: pytest.FixtureRequest, project: Path, kafka: LittleKafka) -> StoredPath:
    """The checkpoint of the job ``clicks``, on this machine or in a store."""
    if request.param == "disk":
        return project / CHECKPOINT
    store: Store = request.getfixturevalue("store")
    copy = store.upload(CHECKPOINT, f"{project.name}/ck")
    settings = "".join(f"  {name}: '{value}'\n" for name, value in store.settings.items())
    job(JOB + f"checkpoint: {copy}\nspark:\n{settings}")
    for file in sorted(CHECKPOINT.rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    return copy


def loaded() -> Job:
    return config.load(config.find(Path.cwd())).job("clicks")


def contents(place: StoredPath) -> dict[str, bytes]:
    """The checkpoint's files, by their names below it."""
    return {
        f"{log}/{file.name}": file.read_bytes()
        for log in ("offsets", "commits")
        for file in (place / log).iterdir()
    }


def positions(place: StoredPath) -> list[int]:
    start = read_checkpoint(place).start(0)
    return [at.offset for at in start.positions.values()] if start else []


def test_a_reset_and_its_undo(asked: Ask, place: StoredPath) -> None:
    """The move adds a micro-batch and leaves a backup. The undo brings back what was."""
    before = contents(place)
    assert not asked("reset", "--to-earliest")["executed"]
    assert before == contents(place)

    told = asked("reset", "--to-earliest", "--execute")
    assert (8, [0, 0]) == (told["batch"], positions(place))
    [made] = backup.all_backups(place)
    assert (Stage.DONE, before) == (made.stage, contents(made.path))

    assert asked("undo", "--execute")["executed"]
    assert (before, [6, 4]) == (contents(place), positions(place))
    assert Stage.UNDONE is backup.all_backups(place)[0].stage
    assert "no move of its offsets to undo" in asked("undo", "--execute", code=1)


def test_the_next_moves(asked: Ask, place: StoredPath) -> None:
    """Each move begins where the one before ended."""
    for shift, expected in ((1, [7, 4]), (1, [8, 4]), (-2, [6, 2])):
        asked("reset", f"--shift-by={shift}", "--execute")
        assert expected == positions(place)
    assert [8, 9, 10] == [each.batch for each in backup.all_backups(place)]


def test_old_backups_go(place: StoredPath, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the newest ones stay. Within a second, moves by one micro-batch have one each."""
    monkeypatch.setattr(backup, "KEPT_MAX", 2)
    for now_s in (1.0, 1.25, 1.5, 1.75):
        backup.create_backup(read_checkpoint(place), "reset", 8, (), now_s)
    assert [1.5, 1.75] == [each.at_s for each in backup.all_backups(place)]


def test_a_clock_that_was_set_back(place: StoredPath, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last move is still the last one, and its backup is not the oldest, which goes first."""
    monkeypatch.setattr(backup, "KEPT_MAX", 2)
    before = read_checkpoint(place)
    for batch, now_s in ((8, 43_200.0), (9, 39_600.0), (10, 39_601.0)):
        backup.create_backup(before, "reset", batch, (), now_s).record_stage(Stage.DONE)
        last = backup.last_move(place)
        assert last is not None
        assert batch == last.batch
    assert [9, 10] == [each.batch for each in backup.all_backups(place)]


def test_an_interrupted_move(asked: Ask, place: StoredPath) -> None:
    """The job does not run, and no other move begins, until an undo."""
    asked("reset", "--to-latest", "--execute")
    backup.all_backups(place)[-1].record_stage(Stage.BEGUN)
    with pytest.raises(ConfigError, match="was interrupted"):
        backup.check_no_interrupted_move(loaded())
    assert "was interrupted" in asked("reset", "--to-earliest", "--execute", code=2)
    asked("undo", "--execute")
    backup.check_no_interrupted_move(loaded())


def test_somebody_else_writes(place: StoredPath) -> None:
    """A micro-batch that is there is never overwritten."""
    checkpoint = read_checkpoint(place)
    assert checkpoint.planned is not None
    sources = checkpoint.planned.sources
    checkpoint_log.add_batch(checkpoint, sources, 1.0)
    before = contents(place)
    with pytest.raises(JobsError, match="offsets/8 is there already"):
        checkpoint_log.add_batch(checkpoint, sources, 2.0)
    assert before == contents(place)


def test_state_of_operators(asked: Ask, place: StoredPath, request: pytest.FixtureRequest) -> None:
    """A query with state can't be moved."""
    if isinstance(place, Path):
        (place / "state" / "0").mkdir(parents=True)
    else:
        request.getfixturevalue("store").put(f"{place.key}/state/0/1.delta", b"x")
    assert "keeps state" in asked("reset", "--to-latest", code=1)


def test_a_replay_before_the_next_run(
    asked: Ask, place: StoredPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run looks at the last move of its checkpoint, and asks Kafka about its offsets."""
    asked("reset", "--to-earliest", "--execute")
    [made] = backup.all_backups(place)
    seen: list[object] = []
    monkeypatch.setattr(start_checks, "unreadable", lambda *words: seen.append(words[2]) or [])
    tables = [{"name": "t", "by_name": False, "version": 1}]
    record = json.loads((made.path / "move.json").read_text()) | {"tables": tables}
    (made.path / "move.json").write_text(json.dumps(record))
    start_checks.check_replay(loaded())
    assert [()] == seen


def test_settings_that_cannot_be_followed(project: Path, kafka: LittleKafka) -> None:
    """A run does not depend on kfetch's own client, so it asks for no moves there."""
    provider = "spark.hadoop.fs.s3a.aws.credentials.provider: com.acme.Vault"
    job(JOB + f"checkpoint: s3a://lake/ck\nspark:\n  {provider}\nsingleHost: true\n")
    with pytest.raises(Exception, match="Vault"):
        stored_path("s3a://lake/ck", loaded().spark)
    backup.check_no_interrupted_move(loaded())
    start_checks.check_replay(loaded())
