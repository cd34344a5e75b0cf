"""Data loss: which answers of the brokers mean that a position is lost, and the sentences."""

from __future__ import annotations

import pickle
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch import losses
from kfetch.errors import (
    DataLoss,
    LogTruncated,
    OffsetBeyondLog,
    PartitionGone,
    RecordsExpired,
    TopicRecreated,
)
from kfetch.losses import LogAnswer, ReadPosition, find_loss, warning
from kfetch.model import NO_TOPIC_ID, TopicPartition
from kfetch.offsets import Position

OLD_ID, NEW_ID = UUID(int=1), UUID(int=2)
POSITION = ReadPosition(TopicPartition("t", 0), 5, leader_epoch=3, topic_id=OLD_ID, end=9)

LOSSES: list[tuple[LogAnswer, type[DataLoss], str, dict[str, object]]] = [
    (
        LogAnswer(exists=False),
        PartitionGone,
        "t-0 no longer exists, or is not subscribed any more. The next offset to read was 5",
        {},
    ),
    (
        LogAnswer(topic_id=NEW_ID),
        TopicRecreated,
        f"topic t was deleted and created again (its id was {OLD_ID} and is {NEW_ID}). "
        "Offset 5 of t-0 belongs to the old topic",
        {"topic_id": OLD_ID, "topic_id_now": NEW_ID},
    ),
    (
        LogAnswer(log_start=6),
        RecordsExpired,
        "t-0: offsets 5 to 6 have expired unread. The log starts at 6. Keep records longer "
        "(retention) to prevent this",
        {"log_start_offset": 6},
    ),
    (
        LogAnswer(log_start=20),
        RecordsExpired,
        "t-0: offsets 5 to 9 have expired unread. The log starts at 20. Keep records longer "
        "(retention) to prevent this",
        {"log_start_offset": 20},
    ),
    (
        LogAnswer(diverging=Position(4, 2)),
        LogTruncated,
        "t-0 was truncated at offset 4 (leader epoch 2). The records up to offset 5, of leader "
        "epoch 3, are lost",
        {"end_offset": 4, "diverging_epoch": 2},
    ),
    (
        LogAnswer(log_end=4),
        OffsetBeyondLog,
        "t-0: offset 5 lies past the log end 4. The log was truncated, or startingOffsets lies "
        "past its end",
        {"high_watermark": 4},
    ),
]


@pytest.mark.parametrize(("answer", "kind", "sentence", "attributes"), LOSSES)
def test_losses(
    answer: LogAnswer, kind: type[DataLoss], sentence: str, attributes: dict[str, object]
) -> None:
    """Each kind of loss has one sentence, the same advice, and attributes that survive pickling."""
    loss = find_loss(POSITION, answer)

    assert type(loss) is kind
    assert (
        f"{sentence}. Set failOnDataLoss=false to continue with the remaining records, or use a "
        "new checkpoint"
    ) == loss.message
    position = {"topic": "t", "partition": 0, "offset": 5, "leader_epoch": 3}
    assert position | attributes == loss.where == pickle.loads(pickle.dumps(loss)).where
    assert sentence == loss.what
    assert f"{sentence} (failOnDataLoss=false: the query continues)" == warning(loss)


def test_every_data_loss_has_a_verdict_and_a_sentence() -> None:
    """A class below DataLoss without a row in either table would be a loss that nobody reports."""
    kinds = set(DataLoss.__subclasses__())

    assert kinds == {kind for kind, _ in losses._VERDICTS} == set(losses._SENTENCES)


@pytest.mark.parametrize(
    "answer",
    [
        LogAnswer(),
        LogAnswer(topic_id=OLD_ID),
        LogAnswer(topic_id=NO_TOPIC_ID),
        LogAnswer(log_start=5),
        LogAnswer(diverging=Position(5, 2)),
        LogAnswer(log_end=5),
    ],
)
def test_no_loss(answer: LogAnswer) -> None:
    """A position at the log start, the log end or the end of an epoch is in the log."""
    assert find_loss(POSITION, answer) is None


def test_a_position_without_a_topic_id() -> None:
    """A checkpoint without topic ids says nothing about a topic that was created again."""
    position = POSITION._replace(topic_id=NO_TOPIC_ID)

    assert find_loss(position, LogAnswer(topic_id=NEW_ID)) is None


def test_open_end() -> None:
    """Without an end, all offsets up to the log start have expired."""
    loss = find_loss(POSITION._replace(end=None), LogAnswer(log_start=20))

    assert "offsets 5 to 20 have expired" in str(loss)


def test_an_unknown_epoch_has_a_warning() -> None:
    """The warning names the partition, the offset and the epoch, and says what the query does."""
    assert (
        "t-0: no broker knows leader epoch 3 of the next offset 5, so kfetch cannot tell whether "
        "the log was truncated. The query continues at this offset. If the cluster was restored "
        "from a backup, compare the records"
    ) == losses.unknown_epoch(POSITION)


@given(st.lists(st.tuples(st.floats(0.01, 25), st.booleans()), min_size=1), st.booleans())
def test_absences(looks: list[tuple[float, bool]], joined: bool) -> None:
    """A partition is gone if all looks of ten seconds missed it, without too long a pause."""
    pause_max_s = float("inf") if joined else losses.GONE_AFTER_S
    absences, now, since, last = losses.Absences(pause_max_s=pause_max_s), 0.0, None, 0.0
    for pause, shows in looks:
        now += pause
        if since is None or now - last > pause_max_s:
            since = now
        since = None if shows else since
        last = now
        absences.note([POSITION.tp], [] if shows else [POSITION.tp], now)
        gone = since is not None and now - since >= losses.GONE_AFTER_S

        assert gone == absences.is_gone(POSITION.tp, now)
