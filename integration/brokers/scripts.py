"""Histories that run against a real broker and against its model. Each returns all the answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from integration.brokers.sides import TIME_MS, Side, fetch_request

Answers = Iterator[tuple[str, Any]]
"""What was asked, and the answer."""
_UNKNOWN = UUID(int=5)
_SMALL = b"x" * 20
WAIT_MS = 300


def sessions(side: Side) -> Answers:
    """A fetch session from its opening to its end, with every error."""
    side.create("a", [[1], [1], [1]])
    for index in range(2):
        side.produce("a", [b"1", b"2"], index)
    side.produce("a", [b"3"], 0)
    a = side.topic_id("a")
    parts = [("a", a, index, 0) for index in range(3)]
    yield "sessionless", side.fetch(*parts)
    yield "opened", side.fetch(*parts, session=("", 0))
    one = "session 1"
    yield "records again", side.fetch(session=(one, 1), wait_ms=WAIT_MS)
    ends = [("a", a, 0, 3), ("a", a, 1, 2)]
    yield "nothing new", side.fetch(*ends, session=(one, 2))
    yield "waits", side.fetch(session=(one, 3), wait_ms=WAIT_MS)
    side.produce("a", [b"4"], 2)
    yield "one has news", side.fetch(session=(one, 4), wait_ms=WAIT_MS)
    yield "and is moved on", side.fetch(("a", a, 2, 1), session=(one, 5))
    yield "wrong epoch", side.fetch(session=(one, 99))
    yield "the epoch is as before", side.fetch(session=(one, 6))
    yield "an old epoch", side.fetch(session=(one, 6))
    side.produce("a", [b"5"], 1)
    forgotten = side.fetch(session=(one, 7), forget=[("a", a, 1)], wait_ms=WAIT_MS)
    yield "a forgotten one is silent", forgotten
    yield "added again", side.fetch(("a", a, 1, 2), session=(one, 8))
    both = side.fetch(("a", a, 1, 0), session=(one, 9), forget=[("a", a, 1)])
    yield "added and forgotten at once", both
    yield "beyond the end", side.fetch(("a", a, 0, 50), session=(one, 10), wait_ms=WAIT_MS)
    yield "an error is told again", side.fetch(session=(one, 11), wait_ms=WAIT_MS)
    yield "after the error", side.fetch(("a", a, 0, 3), session=(one, 12))
    unknown = side.fetch(("a", a, 9, 0), session=(one, 13), wait_ms=WAIT_MS)
    yield "no such partition", unknown
    yield "told again", side.fetch(session=(one, 14), wait_ms=WAIT_MS)
    yield "by name", side.fetch(session=(one, 15), version=12)
    yield "unknown id", side.fetch(session=("", 3))
    yield "replaced", side.fetch(("a", a, 0, 0), session=(one, 0))
    yield "the old one is gone", side.fetch(session=(one, 15))
    yield "closed", side.fetch(session=("session 2", -1))
    yield "and gone", side.fetch(session=("session 2", 1))
    yield "another one", side.fetch(("a", a, 0, 0), session=("", 0))
    emptied = side.fetch(session=("session 3", 1), forget=[("a", a, 0)])
    yield "emptied", emptied
    yield "and gone, too", side.fetch(session=("session 3", 2))
    yield "an empty one", side.fetch(session=("", 0))


def fairness(side: Side) -> Answers:
    """The order of a session's partitions, and the limits of bytes."""
    side.create("f", [[1], [1], [1]])
    for _ in range(3):
        for index in range(3):
            side.produce("f", [_SMALL], index)
    f = side.topic_id("f")
    parts = [("f", f, index, 0) for index in range(3)]
    yield "one byte", side.fetch(*parts, session=("", 0), bytes=1)
    yield "the next one", side.fetch(session=("session 1", 1), bytes=1)
    yield "the last one", side.fetch(session=("session 1", 2), bytes=1)
    yield "all, in turn", side.fetch(session=("session 1", 3))
    yield "a part of a batch", side.fetch(*parts, bytes=150)
    yield "one byte each", side.fetch(*parts, partition_bytes=1)
    yield "a hundred each", side.fetch(*parts, partition_bytes=100)
    yield "within a batch", side.fetch(("f", f, 0, 1), ("f", f, 1, 2))
    yield "as many as wanted", side.fetch(*parts, min_bytes=10, wait_ms=WAIT_MS)
    yield "fewer than wanted", side.fetch(*parts, min_bytes=1 << 19, wait_ms=WAIT_MS)
    yield "without any", side.fetch(min_bytes=1, wait_ms=WAIT_MS)


def offsets(side: Side) -> Answers:
    """ListOffsets, OffsetForLeaderEpoch and Fetch by offset, epoch and time."""
    side.create("o", [[1]])
    o = side.topic_id("o")
    yield "empty: earliest", side.list_offsets(topic="o", timestamp=-2)
    yield "empty: latest", side.list_offsets(topic="o", timestamp=-1)
    yield "empty: time", side.list_offsets(topic="o", timestamp=TIME_MS)
    yield "empty: epoch", side.epoch_end("o", 0)
    yield "empty: fetch", side.fetch(("o", o, 0, 0))
    yield "empty: beyond", side.fetch(("o", o, 0, 1))
    yield "empty: with the last epoch", side.fetch(("o", o, 0, 0, 0, 0))
    for number in range(4):
        side.produce("o", [b"1", b"2", b"3"], time_ms=TIME_MS + 1000 * number)
    for isolation in (0, 1):
        for stamp in (-1, -2, -3, 0, TIME_MS, TIME_MS + 1, TIME_MS + 3000, TIME_MS + 3001):
            if stamp == -3 and side.newest(1, _LIST) < 7:
                continue
            listed = side.list_offsets(topic="o", timestamp=stamp, isolation=isolation)
            yield f"time {stamp}, isolation {isolation}", listed
    for epoch in (-1, 0, 1, 7):
        listed = side.list_offsets(topic="o", timestamp=-1, epoch=epoch)
        yield f"current epoch {epoch}", listed
        yield f"end of epoch {epoch}", side.epoch_end("o", epoch)
        yield f"end, current epoch {epoch}", side.epoch_end("o", 0, current=epoch)
        yield f"fetch, current epoch {epoch}", side.fetch(("o", o, 0, 6, epoch))
        yield f"fetch, last epoch {epoch}", side.fetch(("o", o, 0, 6, 0, epoch))
        yield f"beyond, last epoch {epoch}", side.fetch(("o", o, 0, 60, 0, epoch))
    for offset in (0, 1, 11, 12, 13, -1):
        yield f"offset {offset}", side.fetch(("o", o, 0, offset))
    side.delete_records("o", 0, 4)
    yield "cut: earliest", side.list_offsets(topic="o", timestamp=-2)
    yield "cut: time", side.list_offsets(topic="o", timestamp=0)
    yield "cut: epoch", side.epoch_end("o", 0)
    for offset in (3, 4, 6):
        yield f"cut: offset {offset}", side.fetch(("o", o, 0, offset))
        yield f"cut: offset {offset}, last epoch", side.fetch(("o", o, 0, offset, 0, 0))
    side.delete_records("o", 0, 12)
    yield "all gone: earliest", side.list_offsets(topic="o", timestamp=-2)
    yield "all gone: latest", side.list_offsets(topic="o", timestamp=-1)
    yield "all gone: time", side.list_offsets(topic="o", timestamp=0)
    yield "all gone: epoch", side.epoch_end("o", 0)
    yield "all gone: offset 12", side.fetch(("o", o, 0, 12))
    yield "all gone: with the last epoch", side.fetch(("o", o, 0, 12, 0, 0))
    yield "no such topic", side.list_offsets(topic="none", timestamp=-1)
    yield "no such partition", side.list_offsets(topic="o", index=5, timestamp=-1)
    yield "no such topic: epoch", side.epoch_end("none", 0)
    yield "no such topic: fetch", side.fetch(("none", _UNKNOWN, 0, 0), wait_ms=WAIT_MS)
    yield "no such partition: fetch", side.fetch(("o", o, 4, 0), wait_ms=WAIT_MS)
    yield "no such topic: by name", side.fetch(("none", _UNKNOWN, 0, 0), version=12)
    for version in (4, 5, 7, 9, 11, 12):
        yield f"version {version}", side.fetch(("o", o, 0, 12), version=version)
        yield f"version {version}, error", side.fetch(("o", o, 0, 1), version=version)


def topics(side: Side) -> Answers:
    """A session over a topic that is deleted, and created again."""
    side.create("t", [[1], [1]])
    side.create("other", [[1]])
    side.produce("t", [b"1", b"2"])
    t, other = side.topic_id("t"), side.topic_id("other")
    parts = [("t", t, 0, 2), ("t", t, 1, 0), ("other", other, 0, 0)]
    yield "metadata", side.metadata("t")
    yield "opened", side.fetch(*parts, session=("", 0))
    side.delete("t")
    side.elapse(2.0)
    yield "metadata of none", side.metadata("t")
    yield "deleted", side.fetch(session=("session 1", 1), wait_ms=WAIT_MS)
    yield "again", side.fetch(session=("session 1", 2), wait_ms=WAIT_MS)
    yield "in full", side.fetch(*parts, wait_ms=WAIT_MS)
    yield "offsets", side.list_offsets(topic="t", timestamp=-1)
    yield "epoch", side.epoch_end("t", 0)
    side.create("t", [[1], [1]])
    new = side.topic_id("t")
    side.produce("t", [b"1", b"2", b"3"])
    yield "created again", side.fetch(session=("session 1", 3), wait_ms=WAIT_MS)
    yield "once more", side.fetch(session=("session 1", 4), wait_ms=WAIT_MS)
    yield "old id in full", side.fetch(*parts, wait_ms=WAIT_MS)
    yield "old id in a new session", side.fetch(*parts, session=("", 0), wait_ms=WAIT_MS)
    replaced = [("t", new, 0, 2), ("t", new, 1, 0)]
    gone = [("t", t, 0), ("t", t, 1)]
    yield "new id", side.fetch(*replaced, session=("session 1", 5), forget=gone)
    yield "goes on", side.fetch(session=("session 1", 6))
    yield "by name", side.fetch(*replaced, version=12)
    yield "new metadata", side.metadata("t")


def transactions(side: Side) -> Answers:
    """Records of transactions that run, that were aborted, and that were committed."""
    side.create("x", [[1]])
    side.produce("x", [b"plain"])
    x = side.topic_id("x")

    def everything(moment: str) -> Answers:
        for isolation in (0, 1):
            for stamp in (-1, 0):
                listed = side.list_offsets(topic="x", timestamp=stamp, isolation=isolation)
                yield f"{moment}: time {stamp}, isolation {isolation}", listed
            for offset in range(9):
                fetched = side.fetch(("x", x, 0, offset), isolation=isolation)
                yield f"{moment}: offset {offset}, isolation {isolation}", fetched

    opened = side.fetch(("x", x, 0, 1), session=("", 0), isolation=1)
    yield "opened", opened
    side.begin("x", [b"1", b"2"])
    yield from everything("open")
    waits = side.fetch(session=("session 1", 1), isolation=1, wait_ms=WAIT_MS)
    yield "committed records wait", waits
    waits = side.fetch(("x", x, 0, 1), isolation=1, wait_ms=WAIT_MS)
    yield "without a session, too", waits
    side.end("x", commits=False)
    yield from everything("aborted")
    yield "told", side.fetch(session=("session 1", 2), isolation=1, wait_ms=WAIT_MS)
    side.begin("x", [b"3"])
    side.produce("x", [b"between"])
    yield from everything("open again")
    side.end("x", commits=True)
    yield from everything("committed")
    limited = side.fetch(("x", x, 0, 0), isolation=1, bytes=75)
    yield "a part", limited


def truncation(side: Side) -> Answers:
    """Two replicas: an unclean election cuts the log, and it grows again."""
    side.create("u", [[1, 2]])
    u = side.topic_id("u")
    side.produce("u", [b"1", b"2", b"3"])
    old = side.current_epoch("u", 1, "old")
    yield "opened", side.fetch(("u", u, 0, 0, old), session=("", 0))
    side.elapse(1.5)  # a follower learns of the high watermark a little later
    yield "from the follower", side.fetch(("u", u, 0, 0), broker=2)
    yield "from the follower, old", side.fetch(("u", u, 0, 0), broker=2, version=10)
    yield "offsets of the follower", side.list_offsets(topic="u", timestamp=-1, broker=2)
    yield "epoch of the follower", side.epoch_end("u", old, broker=2)
    side.stop(2)
    lossy = side.current_epoch("u", 1, "lossy")
    yield "leader's epoch in between", side.epoch_end("u", lossy)
    side.produce("u", [b"lost 1", b"lost 2"])
    yield "before", side.fetch(("u", u, 0, 3, lossy, old))
    side.stop(1)
    side.start_unclean("u", 2)
    new = side.current_epoch("u", 2, "new")
    yield "latest", side.list_offsets(topic="u", timestamp=-1, broker=2)
    yield "position beyond", side.fetch(("u", u, 0, 5), broker=2)
    yield "fenced", side.fetch(("u", u, 0, 5, old), broker=2)
    yield "diverging", side.fetch(("u", u, 0, 5, new, lossy), broker=2)
    yield "level", side.fetch(("u", u, 0, 3, new, old), broker=2)
    yield "end of the old epoch", side.epoch_end("u", old, broker=2)
    yield "end of the lossy epoch", side.epoch_end("u", lossy, broker=2)
    yield "end of the new epoch", side.epoch_end("u", new, broker=2)
    yield "end, fenced", side.epoch_end("u", old, current=old, broker=2)
    side.produce("u", [b"new 1", b"new 2", b"new 3", b"new 4"])
    yield "grown: position within", side.fetch(("u", u, 0, 5), broker=2)
    yield "grown: diverging", side.fetch(("u", u, 0, 5, new, lossy), broker=2)
    waiting = side.fetch(("u", u, 0, 5, new, lossy), broker=2, wait_ms=WAIT_MS, min_bytes=1 << 19)
    yield "grown: diverging does not wait", waiting
    yield "grown: end of the lossy epoch", side.epoch_end("u", lossy, broker=2)
    side.start(1)
    side.wait_in_sync("u", 2)
    side.elapse(1.0)
    follower = side.fetch(("u", u, 0, 3), broker=1)
    yield "the old leader has the new history", follower
    yield "the old leader, by epoch", side.epoch_end("u", lossy, broker=1)
    yield "time", side.list_offsets(topic="u", timestamp=0, broker=2)


def strangers(side: Side) -> Answers:
    """A broker that has no replica of a partition names the leader (KIP-951)."""
    side.create("s", [[1], [2]])
    s = side.topic_id("s")
    side.produce("s", [b"1"], 1)
    for version in (10, 12, 13, 15, 16, 18):
        yield f"v{version}", side.fetch(("s", s, 0, 0), ("s", s, 1, 0), version=version)
    yield "in a session", side.fetch(("s", s, 0, 0), ("s", s, 1, 0), session=("", 0))
    yield "again", side.fetch(session=("session 1", 1), wait_ms=WAIT_MS)
    yield "offsets", side.list_offsets(topic="s", index=1, timestamp=-1)
    yield "epoch", side.epoch_end("s", 0, index=1)


def eviction(side: Side) -> Answers:
    """A cache of eight sessions: newcomers are refused, until a session is old."""
    side.create("e", [[1], [1], [1]])
    e = side.topic_id("e")
    version = min(18, side.newest(1, _FETCH))
    one = fetch_request(version, (0, 0), [("e", e, 0, 0)], (), {})
    two = fetch_request(version, (0, 0), [("e", e, 0, 0), ("e", e, 1, 0)], (), {})
    ids = side.fill_sessions(1, one, 7)
    yield "seven", [bool(number) for number in ids]
    yield "the eighth", side.fetch(("e", e, 0, 0), session=("", 0))
    yield "a ninth", [bool(number) for number in side.fill_sessions(1, two, 9)]
    side.elapse(121.0)
    yield "the eighth goes on", side.fetch(session=("session 1", 1))
    yield "as small as it", [bool(number) for number in side.fill_sessions(1, one, 8)]
    yield "larger", [bool(number) for number in side.fill_sessions(1, two, 9)]
    yield "whether the eighth is left", side.fetch(session=("session 1", 2))


class _Key:
    """What ``newest`` asks of a message."""

    def __init__(self, key: int, newest: int) -> None:
        self.API_KEY, self.max_version, self.name = key, newest, str(key)


_LIST, _FETCH = _Key(2, 11), _Key(1, 18)
