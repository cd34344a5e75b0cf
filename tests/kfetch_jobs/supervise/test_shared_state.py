"""What supervisors of several hosts share: the rules for the state and for the inbox."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kfetch_jobs.supervise.shared_state import (
    NO_STATE,
    ORDERS_MAX,
    Inbox,
    SharedOrder,
    SharedState,
    StateVersion,
    WaitingHost,
    parse_inbox,
    parse_state,
)

STATE = SharedState(
    history="h",
    leader="l",
    epoch=3,
    change=7,
    place="a:/srv",
    tables={
        "jobs": [{"name": "clicks", "state": "{}"}],
        "supervisor": [{"environment": "prod", "ended_s": 5.0}],
    },
)
ORDER = SharedOrder(id="1", job="clicks", order="pause")
HOST = WaitingHost(place="b:/srv", host="b", pid=12, since_s=90.0, seen_s=100.0)


def test_a_state_as_bytes() -> None:
    """A state survives its way through a file."""
    assert STATE == parse_state(STATE.content())
    assert 5.0 == STATE.ended_s
    assert replace(STATE, tables={"supervisor": []}).ended_s is None


@pytest.mark.parametrize("content", [b"", b"{}", STATE.content()[:-9], Inbox().content("a")])
def test_a_damaged_state(content: bytes) -> None:
    """A damaged state is an error: with an empty one, jobs that were stopped would start."""
    with pytest.raises(
        ValueError, match=r"it is damaged .* Remove it\. If no host leads, start kfetch up first"
    ):
        parse_state(content)


@pytest.mark.parametrize(
    ("known", "newer"),
    [(NO_STATE, True), (("h", 3, 6), True), (("h", 2, 99), True), (("h", 3, 7), False),
     (("h", 3, 8), False), (("h", 4, 0), False), (("i", 5, 300), True)],
)  # fmt: skip
def test_which_state_is_newer(known: tuple[str, int, int], newer: bool) -> None:
    """A later leader's first write counts more than all writes of the leader before. A state at a
    new place replaces any of another one."""
    assert newer is STATE.replaces(StateVersion(*known))


@pytest.mark.parametrize(("environment", "fits"), [("prod", True), ("test", False), (None, False)])
def test_whose_state_it_is(environment: str | None, fits: bool) -> None:
    """Supervisors of two environments share no state by mistake."""
    assert fits is (STATE.of_other_environment(environment) == "")
    assert "" == replace(STATE, tables={"supervisor": []}).of_other_environment(environment)


def test_a_claim() -> None:
    """The next leader's first version is newer, and tells whose state it is."""
    claimed = STATE.claimed("m")

    assert claimed.replaces(StateVersion("h", STATE.epoch, 10**9))
    assert claimed.content() != STATE.claimed("n").content()
    assert (STATE.place, STATE.tables) == (claimed.place, claimed.tables)


def test_an_inbox_as_bytes() -> None:
    """An inbox survives its way through a file. No two writes have the same bytes."""
    inbox = Inbox(orders=(ORDER,), waiting=(HOST,))

    assert inbox == parse_inbox(inbox.content("a"))
    assert inbox.content("a") != inbox.content("b")
    assert Inbox() == parse_inbox(None)
    assert Inbox() == parse_inbox(b'{"orders": [], "waiting": [], "of a later kfetch": 1}')


@pytest.mark.parametrize("content", [b"", b"{}", b'{"orders": [{}], "waiting": []}', b"[]"])
def test_a_damaged_inbox(content: bytes) -> None:
    """A damaged inbox is an error, because an order may be lost."""
    with pytest.raises(ValueError, match=r"it is damaged .* Remove it, and give the orders again"):
        parse_inbox(content)


@pytest.mark.parametrize(
    ("replied", "left"),
    [((), ["1", "2"]), (("1",), ["2"]), (("1", "2"), [])],
)
def test_a_leader_reads_the_inbox(replied: tuple[str, ...], left: list[str]) -> None:
    """It removes the orders that have a reply."""
    inbox = Inbox(orders=(ORDER, replace(ORDER, id="2", ends_s=5.0)))

    assert left == [one.id for one in inbox.without_orders(replied).orders]


def test_too_many_orders() -> None:
    """A script gone wild fills no store."""
    full = Inbox().with_orders([ORDER] * ORDERS_MAX)
    with pytest.raises(ValueError, match="100 orders wait"):
        full.with_orders([ORDER])


def test_who_waits() -> None:
    """A host is named until it waits no longer, or has said nothing for a minute."""
    other = replace(HOST, place="c:/srv", seen_s=130.0)
    inbox = Inbox().with_waiting(HOST).with_waiting(other).with_waiting(replace(HOST, seen_s=110.0))

    assert ["c:/srv", "b:/srv"] == [one.place for one in inbox.waiting]
    assert [other] == list(inbox.waiting_now(175.0))
    assert [other] == list(inbox.without_waiting("b:/srv").waiting)
    assert 20 == len(
        Inbox(waiting=tuple(replace(HOST, place=str(n)) for n in range(20)))
        .with_waiting(HOST)
        .waiting
    )
