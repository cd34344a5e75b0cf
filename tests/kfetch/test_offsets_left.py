"""Partitions that left a query: how long their positions stay in its offsets, and who returns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from kfetch import offsets as module
from kfetch.model import TopicPartition
from kfetch.offsets import LEFT_AGE_MAX_S, LeftPosition, Offsets, Position
from tests.kfetch.test_offsets import ID, T0, T1, U0

NOW_S = 1_795_335_036
AWAY = Offsets(
    positions={U0: Position(1, 0)},
    topic_ids={"u": UUID(int=9)},
    left={T0: LeftPosition(ID, Position(5, 2), NOW_S)},
)


@pytest.mark.parametrize(
    ("partitions", "ids", "expected"),
    [
        ([T0, U0], {"t": ID}, {T0: Position(5, 2)}),
        ([U0], {"t": ID}, {}),
        ([T0], {"t": UUID(int=8)}, {}),
        ([T0], {}, {}),
        ([T1], {"t": ID}, {}),
    ],
)
def test_returning(
    partitions: list[TopicPartition], ids: dict[str, UUID], expected: dict[TopicPartition, Position]
) -> None:
    """A partition that is back under the id of its topic has its last position."""
    returned = AWAY.with_returned(partitions, ids)

    assert {**AWAY.positions, **expected} == returned.positions
    assert AWAY.left == returned.left


def test_leaving() -> None:
    """A partition that leaves is kept with its position, the id of its topic and the time."""
    left = AWAY.left_after({U0: Position(1, 0)}, [], {}, NOW_S + 7)

    assert {**AWAY.left, U0: LeftPosition(UUID(int=9), Position(1, 0), NOW_S + 7)} == left


@pytest.mark.parametrize(
    ("present", "ids", "seconds"),
    [([T0], {"t": ID}, 0), ([], {"t": UUID(int=8)}, 0), ([], {}, LEFT_AGE_MAX_S)],
    ids=["back", "another id", "seven days"],
)
def test_forgetting(present: list[TopicPartition], ids: dict[str, UUID], seconds: int) -> None:
    """A partition that is back, of another topic, or away for seven days is forgotten."""
    assert {} == AWAY.left_after({}, present, ids, NOW_S + seconds)
    assert AWAY.left is AWAY.left_after({}, [], {}, NOW_S + LEFT_AGE_MAX_S - 1)


class Walks(dict[TopicPartition, LeftPosition]):
    """Partitions that left. Counts how often somebody walks through all of them."""

    walks = 0

    def items(self) -> Any:
        self.walks += 1
        return super().items()

    def values(self) -> Any:
        self.walks += 1
        return super().values()

    def __iter__(self) -> Any:
        self.walks += 1
        return super().__iter__()


def test_partitions_that_left_cost_nothing_while_others_move() -> None:
    """Of a hundred micro-batches, two walk through the partitions that left, at most."""
    left = {
        TopicPartition(f"v{n % 10}", n): LeftPosition(UUID(int=n % 10), Position(n), NOW_S)
        for n in range(1000)
    }
    now = Offsets(positions={T0: Position(0)}, topic_ids={"t": ID}, left=Walks(left))
    now.to_json()
    assert isinstance(now.left, Walks)
    now.left.walks = 0
    for number in range(1, 101):
        moved = {T0: Position(number)}
        after = now.left_after({}, moved.keys(), now.topic_ids, NOW_S + number)
        now = now.with_moved(moved, topic_ids=now.topic_ids, left=after)
        assert now.to_json()["left"]
        assert now is now.with_returned(now.positions, now.topic_ids)

    assert isinstance(now.left, Walks)
    assert now.left.walks <= 2
    assert left == now.left


def test_one_id_for_a_topic() -> None:
    """A topic that leaves takes the place of an earlier topic of its name."""
    newer = replace(AWAY, positions={T1: Position(9, 0)}, topic_ids={"t": UUID(int=8)})

    assert {T1: LeftPosition(UUID(int=8), Position(9, 0), NOW_S)} == newer.left_after(
        {T1: Position(9, 0)}, [], {}, NOW_S
    )
    assert {} == newer.left_after({T1: Position(9, 0)}, [], {"t": UUID(int=3)}, NOW_S)


def test_no_id_no_return() -> None:
    """A partition of a topic without an id is forgotten when it leaves."""
    assert {} == Offsets(positions={T0: Position(1)}).left_after({T0: Position(1)}, [], {}, NOW_S)


def test_at_most_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit, the partitions that left first are forgotten."""
    monkeypatch.setattr(module, "LEFT_PARTITIONS_MAX", 3)
    many = {TopicPartition("u", n): Position(n) for n in range(3)}

    assert set(many) == set(AWAY.left_after(many, [], {}, NOW_S + 1))
