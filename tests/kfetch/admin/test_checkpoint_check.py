"""A checkpoint compared with the logs of a cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kfetch import losses
from kfetch.admin import sources
from kfetch.admin.checkpoint import read_checkpoint
from kfetch.admin.checkpoint_check import SourceCheck, verify
from kfetch.errors import ConnectionLost, OptionError
from kfetch.model import TopicPartition
from kfetch.watch import lookups, position_check
from tests.kfetch.admin.checkpoints import commit, initial, plan, theirs
from tests.kfetch.watch import damage
from tests.kfetch.watch.helpers import T0, fill
from tests.kfetch.wire.little import LittleKafka

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pauses between look-ups."""
    monkeypatch.setattr(position_check, "_STALE_PAUSE_S", 0.0)
    monkeypatch.setattr(lookups, "_STALE_PAUSE_S", 0.0)
    monkeypatch.setattr(losses, "GONE_AFTER_S", 0.0)


@pytest.fixture
def kafka() -> Iterator[LittleKafka]:
    """Topic t with 3 records in t-0 and 1 in t-1, on two nodes."""
    with LittleKafka(2) as running:
        fill(running)
        yield running


def ours(kafka: LittleKafka, *offsets: int, **more: object) -> str:
    """kfetch's offset of t, as of now."""
    partitions = {str(n): [offset, 0] for n, offset in enumerate(offsets)}
    topics = {"t": {"id": kafka.topics["t"].topic_id.hex, "partitions": partitions}}
    return json.dumps({"version": 1, "topics": topics, **more})


def checked(
    kafka: LittleKafka, path: Path, only: str | None = None, **options: str
) -> list[SourceCheck]:
    servers = {"kafka.bootstrap.servers": kafka.bootstrap}
    return verify(read_checkpoint(path), servers | options, only)


def test_offsets_that_fit(kafka: LittleKafka, tmp_path: Path) -> None:
    """The logs have both offsets, and two records are behind the next start."""
    plan(tmp_path, 0, ours(kafka, 1, 1))
    commit(tmp_path, 0)

    (check,) = checked(kafka, tmp_path)

    assert ("0", 2, 2, (), ()) == (
        check.name,
        check.partitions,
        check.behind,
        check.findings,
        check.notes,
    )


@pytest.mark.parametrize(
    ("harm", "code", "place"),
    [
        (damage.recreated, "TOPIC_RECREATED", ("t", 0)),
        (damage.regrown, "TOPIC_RECREATED", ("t", 0)),
        (damage.deleted, "PARTITION_GONE", ("t", 0)),
        (damage.shrunk, "PARTITION_GONE", ("t", 1)),
        (damage.expired, "RECORDS_EXPIRED", ("t", 0)),
        (damage.truncated, "LOG_TRUNCATED", ("t", 0)),
        (damage.beyond, "LOG_TRUNCATED", ("t", 0)),
    ],
)
@pytest.mark.parametrize("is_pending", [False, True])
def test_every_kind_of_loss_is_found(
    kafka: LittleKafka,
    tmp_path: Path,
    harm: Callable[[LittleKafka], None],
    code: str,
    place: tuple[str, int],
    is_pending: bool,
) -> None:
    """Each has the code that a query's start would end with, its place, and what to do."""
    plan(tmp_path, 0, ours(kafka, 3, 1))
    plan(tmp_path, 1, ours(kafka, 3, 1))
    commit(tmp_path, *([0] if is_pending else [0, 1]))
    harm(kafka)

    (check,) = checked(kafka, tmp_path)

    first = check.findings[0]
    assert (code, *place) == (first.code, first.topic, first.partition)
    assert "Set failOnDataLoss=false to continue" in first.sentence


def test_a_partition_without_a_leader(kafka: LittleKafka, tmp_path: Path) -> None:
    """Nobody can tell what its log has."""
    plan(tmp_path, 0, ours(kafka, 3, 1))
    commit(tmp_path, 0)
    kafka.elect(T0, None)

    (check,) = checked(kafka, tmp_path)

    assert ["t-0 has no leader: start its brokers, or wait for an election"] == [
        finding.sentence for finding in check.findings
    ]


def test_offsets_of_the_connector_prove_less(kafka: LittleKafka, tmp_path: Path) -> None:
    """They have neither ids nor epochs, so a re-created and grown topic looks sound. A note says
    so."""
    plan(tmp_path, 0, theirs(3, 1, topic="t"))
    commit(tmp_path, 0)
    damage.regrown(kafka)
    kafka.log(TopicPartition("t", 1)).append(b"new")

    (check,) = checked(kafka, tmp_path)

    assert () == check.findings
    assert "The checkpoint has no id of t. So this check can't see whether" in check.notes[0]


@pytest.mark.parametrize(
    ("starting", "is_found"),
    [(None, True), ("latest", True), ("earliest", True), ('{"t":{"0":1,"1":0}}', False)],
)
def test_an_unfinished_first_batch_of_the_connector(
    kafka: LittleKafka, tmp_path: Path, starting: str | None, is_found: bool
) -> None:
    """kfetch refuses such a start unless startingOffsets is fixed. So the check has a finding, and
    the finding names the option with the batch's own start."""
    plan(tmp_path, 0, theirs(3, 1, topic="t"))
    initial(tmp_path, "0", theirs(1, 0, topic="t"))
    options = {"subscribe": "t"} | ({"startingOffsets": starting} if starting else {})

    (check,) = checked(kafka, tmp_path, **options)

    assert is_found == bool(check.findings)
    for finding in check.findings:
        assert ("CHECKPOINT_UNUSABLE", "t", 0) == (finding.code, finding.topic, finding.partition)
        assert "Let the connector finish the batch, or start kfetch" in finding.sentence
        assert finding.sentence.endswith('startingOffsets={"t":{"0":1,"1":0}}')


@pytest.mark.parametrize(
    ("starting", "is_found"),
    [
        ({"startingOffsets": "earliest"}, True),
        ({"startingTimestamp": "1"}, True),
        ({"startingOffsets": '{"t":{"0":0,"1":-2}}'}, True),
        ({"startingOffsets": '{"t":{"0":1,"1":0}}'}, False),
    ],
)
def test_an_unfinished_first_batch_whose_start_is_lost(
    kafka: LittleKafka, tmp_path: Path, starting: dict[str, str], is_found: bool
) -> None:
    """Without the connector's file of the start, only fixed offsets surely are that start. The
    finding names no start."""
    plan(tmp_path, 0, theirs(3, 1, topic="t"))

    (check,) = checked(kafka, tmp_path, subscribe="t", **starting)

    assert [True] * is_found == [
        one.sentence.endswith("startingOffsets and the offset of each partition")
        for one in check.findings
    ]


@pytest.mark.parametrize("is_planned", [False, True])
@pytest.mark.parametrize(
    ("start", "option"), [("{}", "earliest"), (theirs(2, topic="t"), theirs(2, topic="t"))]
)
def test_a_source_without_an_offset_of_the_connector(
    kafka: LittleKafka, tmp_path: Path, is_planned: bool, start: str, option: str
) -> None:
    """kfetch would start it at the log end, behind records that the connector would read."""
    if is_planned:
        plan(tmp_path, 0, "-")
        commit(tmp_path, 0)
    initial(tmp_path, "0", start)

    (check,) = checked(kafka, tmp_path)

    assert [True] == [one.sentence.endswith(f"={option}") for one in check.findings]
    assert not checked(kafka, tmp_path, startingOffsets=option)[0].findings
    later_at_the_end = '{"t":{"0":2},"*":"latest"}'
    assert checked(kafka, tmp_path, startingOffsets=later_at_the_end)[0].findings


def test_a_subscription_shows_new_partitions(kafka: LittleKafka, tmp_path: Path) -> None:
    """With the query's own subscription the check sees what the next start adds."""
    plan(tmp_path, 0, ours(kafka, 3))
    commit(tmp_path, 0)

    (alone,) = checked(kafka, tmp_path)
    (check,) = checked(kafka, tmp_path, subscribe="t")

    assert () == alone.notes
    assert ("The next start reads t-1 from the log start: the checkpoint lacks it",) == check.notes


def test_positions_of_partitions_that_left(kafka: LittleKafka, tmp_path: Path) -> None:
    """They are no finding: a note says when kfetch continues there."""
    left = {"views": {"id": "00" * 16, "partitions": {"0": [88, 3, 9]}}}
    plan(tmp_path, 0, ours(kafka, 3, 1, left=left))
    commit(tmp_path, 0)

    (check,) = checked(kafka, tmp_path)

    assert () == check.findings
    assert check.notes[0].startswith("views left the query. kfetch has kept its last position")


def test_sources_are_checked_one_by_one(kafka: LittleKafka, tmp_path: Path) -> None:
    """Sources that are not Kafka are left out, and ``only`` names one."""
    plan(tmp_path, 0, '{"logOffset":0}', ours(kafka, 3, 1), "-", theirs(9, topic="t"))
    commit(tmp_path, 0)

    assert ["1", "3"] == [check.name for check in checked(kafka, tmp_path)]
    assert ["3"] == [check.name for check in checked(kafka, tmp_path, only="3")]
    with pytest.raises(OptionError, match="no source 0 with offsets of Kafka: its sources are: 1"):
        checked(kafka, tmp_path, only="0")


def test_brokers_that_do_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is that of the connection, as in ``kfetch check``, at the end of a look-up."""
    monkeypatch.setattr(sources, "LOOKUP_TIMEOUT_S", 0.5)
    plan(tmp_path, 0, theirs(3, topic="t"))

    with pytest.raises(ConnectionLost):
        verify(read_checkpoint(tmp_path), {"kafka.bootstrap.servers": "127.0.0.1:1"})
