"""Writing a checkpoint for Spark's connector."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from kfetch.admin import agents, checkpoint_use, to_connector
from kfetch.admin.checkpoint import read_checkpoint, read_lease
from kfetch.errors import CheckpointError, CheckpointInUse
from kfetch.storage.lease_holder import take
from kfetch.storage.open import lease_beside
from kfetch.storage.processes import this_process
from tests.kfetch.admin.checkpoints import (
    ID,
    METADATA,
    QUERY,
    commit,
    contents,
    initial,
    ours,
    plan,
    theirs,
)
from tests.kfetch.admin.cli.test_text import STATUS


@pytest.fixture(autouse=True)
def no_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    """No agent of the machine that runs the tests is asked."""
    monkeypatch.setattr(agents, "find", lambda: [])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A checkpoint of three batches, the last one planned and not done."""
    path = tmp_path / "checkpoint"
    for number in (5, 6, 7):
        plan(path, number, ours(number * 10, number))
    commit(path, 5, 6)
    return path


def lines(path: Path, number: int) -> list[str]:
    return (path / "offsets" / str(number)).read_text().splitlines()


def test_the_last_two_plans_become_the_connectors(path: Path) -> None:
    """Spark reads these two. Older plans, commits and the metadata stay as they are."""
    before = contents(path)

    conversion = to_connector.to_connector(path)

    assert ["v1", METADATA, theirs(60, 6)] == lines(path, 6)
    assert ["v1", METADATA, theirs(70, 7)] == lines(path, 7)
    assert {"offsets/6", "offsets/7"} == {str(file.relative_to(path)) for file in conversion.files}
    assert ("0",) == conversion.sources
    after = contents(path)
    changed = {name for name in before if before[name] != after.get(name)}
    assert {"offsets/6", "offsets/.6.crc", "offsets/7", "offsets/.7.crc"} == changed
    assert {} == {name: after[name] for name in after if name not in before}


def test_checksums_go_with_the_old_text(path: Path) -> None:
    """Hadoop compares a file with its ``.crc``, so no ``.crc`` of the old text stays."""
    to_connector.to_connector(path)

    assert [".5.crc", "5", "6", "7"] == sorted(os.listdir(path / "offsets"))


def test_the_same_batch_is_planned_again(path: Path) -> None:
    """The batch that is not done keeps its start and its end."""
    before = read_checkpoint(path)
    to_connector.to_connector(path)
    after = read_checkpoint(path)

    assert before.pending
    assert after.pending
    for offsets_of in (lambda c: c.start(0), lambda c: c.end(0)):
        assert {tp: p.offset for tp, p in offsets_of(before).positions.items()} == {
            tp: p.offset for tp, p in offsets_of(after).positions.items()
        }


def test_a_backup_has_the_files_of_before(path: Path) -> None:
    """It is beside the checkpoint, where kfetch-jobs keeps its backups too."""
    before = contents(path)

    backup = to_connector.to_connector(path).backup

    assert backup is not None
    assert path.parent / "checkpoint.backups" == backup.parent
    assert before == contents(backup)


def test_a_second_run_has_nothing_to_do(path: Path) -> None:
    """An interrupted command can be repeated. After it, no file is touched."""
    to_connector.to_connector(path)
    before = contents(path)

    assert () == to_connector.to_connector(path).files
    assert before == contents(path)


def test_an_interrupted_command_goes_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first of two files, kfetch still reads the checkpoint. A repeat does the rest."""
    replaced: list[str] = []
    rename = os.replace

    def full_disk(source: str, target: Path) -> None:
        if replaced:
            raise OSError(28, "No space left on device")
        replaced.append(target.name)
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full_disk)
        with pytest.raises(CheckpointError, match=r"No space left.* The backup is in .*backups/"):
            to_connector.to_connector(path, force=True)

    assert read_checkpoint(path).pending
    assert [] == [
        name
        for name in os.listdir(path / "offsets")
        if name.startswith(".7.") and not name.endswith(".crc")
    ]
    to_connector.to_connector(path, force=True)
    assert [theirs(60, 6), theirs(70, 7)] == [lines(path, 6)[-1], lines(path, 7)[-1]]


OTHER_ID = "00000000000000000000000000000008"


@pytest.mark.parametrize(
    ("is_done", "before", "expected"),
    [
        (False, ours(60, epoch=6), 60),
        (False, ours(60).replace(ID, OTHER_ID), 0),
        (True, ours(60).replace(ID, OTHER_ID), 60),
        (False, ours(60).replace(ID, "0" * 32), 60),
    ],
    ids=["same topic", "created again", "created again, done", "without an id"],
)
def test_a_batch_of_a_topic_that_was_created_again(
    tmp_path: Path, is_done: bool, before: str, expected: int
) -> None:
    """kfetch reads the new topic from its beginning. The connector would begin at the old topic's
    offset, and never read the records before it."""
    plan(tmp_path, 6, before)
    plan(tmp_path, 7, ours(70, 20))
    commit(tmp_path, 6, *([7] if is_done else []))

    to_connector.to_connector(tmp_path)

    assert ["v1", METADATA, theirs(expected)] == lines(tmp_path, 6)
    assert ["v1", METADATA, theirs(70, 20)] == lines(tmp_path, 7)


@pytest.mark.parametrize(("left_id", "expected"), [(ID, theirs(60, 88)), (OTHER_ID, theirs(60))])
def test_a_batch_in_which_a_partition_came_back(
    tmp_path: Path, left_id: str, expected: str
) -> None:
    """kfetch continues where the partition left. The connector would take it for a new one, and
    read its records again."""
    left = {"clicks": {"id": left_id, "partitions": {"1": [88, 3, 9]}}}
    plan(tmp_path, 6, "-", ours(60, left=left), '{"logOffset":1}')
    plan(tmp_path, 7, "-", ours(70, 90), '{"logOffset":2}')
    commit(tmp_path, 6)

    to_connector.to_connector(tmp_path)

    assert ["v1", METADATA, "-", expected, '{"logOffset":1}'] == lines(tmp_path, 6)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_other_sources_keep_their_lines(tmp_path: Path, version: str) -> None:
    """In a query of several sources only kfetch's lines change."""
    texts = [ours(4), "-", '{"logOffset":2}', theirs(9, topic="views"), ours(6, topic="users")]
    names = ["0:", "1:", "files:", "3:", "users:"] if version == "v2" else [""] * 5
    for number in (0, 1):
        together = [name + text for name, text in zip(names, texts, strict=True)]
        plan(tmp_path, number, *together, version=version)
    commit(tmp_path, 0, 1)

    conversion = to_connector.to_connector(tmp_path)

    changed = [theirs(4), *texts[1:4], theirs(6, topic="users")]
    expected = [name + text for name, text in zip(names, changed, strict=True)]
    assert [version, METADATA, *expected] == lines(tmp_path, 1)
    assert (("0", "users") if version == "v2" else ("0", "4")) == conversion.sources


def test_batch_0_that_is_not_done_takes_its_start_along(tmp_path: Path) -> None:
    """Spark logs no start of batch 0. The connector reads it from ``sources/0/0``.

    An older file there is of a start that planned no batch."""
    start = {"clicks": {"0": [7, 0]}}
    plan(tmp_path, 0, ours(9, **{"from": start}))
    initial(tmp_path, "0", theirs(1))

    conversion = to_connector.to_connector(tmp_path)

    assert f"\x00v1\n{theirs(7)}" == (tmp_path / "sources/0/0").read_text()
    assert ["0"] == os.listdir(tmp_path / "sources/0")
    assert ["v1", METADATA, theirs(9)] == lines(tmp_path, 0)
    assert [tmp_path / "sources/0/0", tmp_path / "offsets/0"] == [*conversion.files]


def test_batch_0_that_is_done_needs_no_start(tmp_path: Path) -> None:
    """After batch 0 the connector never asks for the start."""
    plan(tmp_path, 0, ours(9, **{"from": {"clicks": {"0": [7, 0]}}}))
    commit(tmp_path, 0)

    to_connector.to_connector(tmp_path)

    assert not (tmp_path / "sources").exists()
    assert ["v1", METADATA, theirs(9)] == lines(tmp_path, 0)


def test_an_empty_batch_0_starts_where_it_ends(tmp_path: Path) -> None:
    """kfetch's batch 0 has no ``from`` if it is empty, as with ``latest`` and no new record."""
    plan(tmp_path, 0, ours(9))

    to_connector.to_connector(tmp_path)

    assert f"\x00v1\n{theirs(9)}" == (tmp_path / "sources/0/0").read_text()


def test_a_source_whose_first_batch_is_later(tmp_path: Path) -> None:
    """The connector logs no offset while a subscription has no partition. So the first batch of a
    source may be a later one, and its start is in no plan either."""
    start = {"users": {"0": [2, 0]}}
    plan(tmp_path, 3, ours(4), "-")
    plan(tmp_path, 4, ours(5), ours(6, topic="users", **{"from": start}))
    commit(tmp_path, 3)

    to_connector.to_connector(tmp_path)

    assert ["1"] == os.listdir(tmp_path / "sources")
    assert f"\x00v1\n{theirs(2, topic='users')}" == (tmp_path / "sources/1/0").read_text()


def test_positions_of_partitions_that_left_are_told(tmp_path: Path) -> None:
    """The connector has no place for them."""
    left = {"views": {"id": "00" * 16, "partitions": {"0": [88, 3, 9], "1": [5, 3, 9]}}}
    plan(tmp_path, 0, ours(9, left=left))
    commit(tmp_path, 0)

    assert {"views": 2} == to_connector.to_connector(tmp_path).forgotten


@pytest.mark.parametrize("name", ["checkpoint", "link"])
def test_a_running_job_holds_its_lease(path: Path, name: str) -> None:
    """The command refuses, also with force, and also by a link to the checkpoint."""
    (path.parent / "link").symlink_to(path)
    named = path if name == "checkpoint" else path.parent / "link"
    before = contents(path)
    held = pytest.raises(CheckpointInUse, match=r"is held by process \d+ on host .* \(a run\)")
    with take(lease_beside(path), this_process("a run")), held:
        to_connector.to_connector(named, force=True)

    assert before == contents(path)
    assert to_connector.to_connector(named).files


def test_no_job_starts_meanwhile(path: Path) -> None:
    """A job that has made a lease before finds it held by the command."""
    with take(lease_beside(path), this_process("a run")):
        pass
    held = pytest.raises(CheckpointInUse, match="kfetch checkpoint to-kafka")
    with checkpoint_use.hold_lease(path) as check, held:
        check()
        with take(lease_beside(path), this_process("a run")):
            pass


def test_no_lease_is_made(path: Path) -> None:
    """A checkpoint that no job of kfetch has used stays alone."""
    assert to_connector.to_connector(path).files
    assert read_lease(path) is None


def test_a_lease_that_cannot_be_read(path: Path) -> None:
    """Without the lease nobody knows whether a job runs, so the command changes nothing."""
    Path(f"{path}.lease").touch()
    before = contents(path)
    with pytest.raises(CheckpointError, match=r"lease can't be read: Not a directory"):
        to_connector.to_connector(path, force=True)

    assert before == contents(path)


def test_a_recent_write_may_be_a_running_query(path: Path) -> None:
    """A checkpoint that was written in the last minute is refused, unless with force."""
    os.utime(path / "offsets/7", (time.time() - 12, time.time() - 12))
    before = contents(path)

    with pytest.raises(
        CheckpointInUse, match=r"written [1-5]\d s ago.* --force, or wait for [1-4]?\d s"
    ):
        to_connector.to_connector(path)

    assert before == contents(path)
    assert to_connector.to_connector(path, force=True).files


def test_an_agent_that_reads_for_the_query(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent of this machine names Spark's id of each query, which the checkpoint has too."""
    serving = replace(STATUS.queries[0], stream=QUERY)
    monkeypatch.setattr(agents, "find", lambda: [replace(STATUS, queries=(serving,))])

    with pytest.raises(CheckpointInUse, match="agent 9 of this machine has read for the query"):
        to_connector.to_connector(path)


def test_agents_of_other_queries_do_not_matter(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another query of the same application may run."""
    monkeypatch.setattr(agents, "find", lambda: [STATUS])

    assert to_connector.to_connector(path).files


def test_a_query_that_writes_meanwhile_is_noticed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new plan during the command is a running query's."""
    back_up = to_connector._back_up

    def and_write(directory: Path) -> Path:
        backup = back_up(directory)
        plan(directory, 8, ours(80, 8))
        return backup

    monkeypatch.setattr(to_connector, "_back_up", and_write)

    with pytest.raises(CheckpointInUse, match=r"a query has written .* meanwhile"):
        to_connector.to_connector(path)


def test_a_checkpoint_of_the_connector_stays(tmp_path: Path) -> None:
    """Without a line of kfetch there is nothing to do, also while a query runs."""
    plan(tmp_path, 0, theirs(5))
    before = contents(tmp_path)

    assert () == to_connector.to_connector(tmp_path).files
    assert before == contents(tmp_path)
    assert not Path(f"{tmp_path}.backups").exists()


def test_files_keep_their_mode(path: Path) -> None:
    """The query's user must be able to read the new file."""
    (path / "offsets/7").chmod(0o640)

    to_connector.to_connector(path)

    assert 0o640 == (path / "offsets/7").stat().st_mode & 0o777


def test_quiet_time_is_a_minute() -> None:
    """The documentation says so."""
    assert 60.0 == checkpoint_use.QUIET_S
