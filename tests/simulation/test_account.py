"""The account of a query: what it asks for, and what no client can know."""

from __future__ import annotations

from contextlib import nullcontext
from uuid import UUID

import pytest

from kfetch.errors import LogTruncated, RecordsExpired
from simulation.history.account import Account, Imbalance

PLACE = ("t", 0)
TOPIC = UUID(int=1)


def account(*values: bytes) -> Account:
    """An account of a query that has planned all these records, and delivered none."""
    made = Account()
    made.produced.update(dict.fromkeys(values, PLACE))
    made.acknowledged(TOPIC, PLACE, 0, values)
    made.knows([PLACE], {"t": TOPIC})
    made.planned({PLACE: (len(values), 0)})
    return made


def expired(start: int, end: int) -> RecordsExpired:
    """The loss of some offsets."""
    where = {"topic": "t", "partition": 0, "offset": start, "log_start_offset": end}
    return RecordsExpired("expired", **where)


def test_an_expired_record_is_to_be_named() -> None:
    """A record that expired unread is unnamed until an error names its offset."""
    found = account(b"a", b"b")
    found.expired(TOPIC, PLACE, [(0, b"a")], 1)

    assert len(found.unnamed({})) == 1
    found.name(expired(0, 1))
    assert found.unnamed({}) == []


def test_a_name_counts_only_for_what_was_lost_before() -> None:
    """A loss that is named names no record that is lost later."""
    found = account(b"a", b"b")
    found.expired(TOPIC, PLACE, [(0, b"a")], 1)
    found.name(expired(0, 1))
    found.expired(TOPIC, PLACE, [(1, b"b")], 2)

    assert len(found.unnamed({})) == 1


def test_nobody_knows_what_expired_below_a_lost_position() -> None:
    """A query on a lost history can't know of records below its position, and of later ones it can.

    The log keeps no trace of the cut once it starts behind it.
    """
    found = account(b"a", b"b", b"c")
    found.lost(TOPIC, PLACE, [(1, b"b"), (2, b"c")], 1)
    found.expired(TOPIC, PLACE, [(0, b"a"), (1, b"new b"), (2, b"new c"), (3, b"new d")], 4)

    (line,) = found.unnamed({})
    assert "new d" in line


def test_a_cut_at_the_log_start_names_all_below() -> None:
    """The broker can't tell how far below the log start the histories part."""
    found = account(b"a", b"b", b"c")
    found.deliver(0, [("t", 0, 0, b"a"), ("t", 0, 1, b"b")])
    found.lost(TOPIC, PLACE, [(0, b"a"), (1, b"b")], 0)
    found.expired(TOPIC, PLACE, [(0, b"new")], 1)
    where = {"topic": "t", "partition": 0, "offset": 2, "end_offset": 1}
    found.name(LogTruncated("truncated", **where))

    assert found.unnamed({}) == []


def test_nobody_knows_of_a_topic_that_was_never_planned() -> None:
    """A topic may come and go while the query is cut off. One of a checkpoint is to be named."""
    found = account(b"a")
    found.deleted(TOPIC, PLACE, [(0, b"a")])
    found.deleted(UUID(int=2), PLACE, [(0, b"of the topic between")])

    (line,) = found.unnamed({})
    assert "b'a'" in line


@pytest.mark.parametrize("reads_by_name", [True, False])
def test_a_fetch_by_name_may_bring_records_of_a_new_topic(*, reads_by_name: bool) -> None:
    """They come once more when the query begins the new topic. With topic ids that is a fault."""
    found = Account(reads_by_name=reads_by_name)
    found.produced[b"new"] = PLACE
    found.knows([PLACE], {"t": UUID(int=2)})
    found.acknowledged(TOPIC, PLACE, 0, [b"new"])
    found.deliver(0, [("t", 0, 0, b"new")])

    with nullcontext() if reads_by_name else pytest.raises(Imbalance, match="twice"):
        found.deliver(1, [("t", 0, 0, b"new")])


def test_a_loss_that_has_not_happened_is_a_fault() -> None:
    """An error must not name a loss where nothing was lost."""
    with pytest.raises(Imbalance, match="has not happened"):
        account(b"a").name(expired(0, 1))
