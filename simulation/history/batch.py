"""What a batch read must return: every record between its bounds that was there all the time.

``records`` notes a moment's records with their times. A record that is there before the read and
after it, under the same leader, must be among the rows. Others may be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kfetch.model import TopicPartition
from kfetch.options import EARLIEST, LATEST, Bound
from simulation.cluster.cluster import Cluster, Place
from simulation.history.account import Account, Imbalance


class Stored(NamedTuple):
    """A record in a log."""

    topic: str
    partition: int
    offset: int
    time_ms: int


Stock = Mapping[bytes, Stored]
"""Records by value."""
_TO_THE_END = Bound(option="endingOffsets", rest=LATEST)


def records(cluster: Cluster, aborted: Iterable[bytes]) -> dict[bytes, Stored]:
    """Returns the records that a reader gets now. Without any, if a broker's news is old."""
    if any(broker.lags for broker in cluster.brokers.values()):
        return {}
    stock: dict[bytes, Stored] = {}
    for place, hosted in cluster.leaders():
        log = hosted.log
        if place in cluster.held:  # its leader knows an older end
            continue
        for batch in log.batches:
            if batch.last < log.last_stable:
                for offset, value in enumerate(batch.values, batch.base):
                    if offset >= log.start:
                        stock[value] = Stored(*place, offset, batch.time_ms)
    for value in aborted:
        stock.pop(value, None)
    return stock


def between(
    stock: Stock, starting: Bound, ending: Bound | None, now_ms: int
) -> dict[bytes, Stored]:
    """Returns the records between two bounds. ``now_ms``: the end of the read, since 1970."""
    starts = _firsts(stock, starting.at_time(now_ms))
    ends = _firsts(stock, (ending or _TO_THE_END).at_time(now_ms))
    return {value: one for value, one in stock.items() if starts(one) <= one.offset < ends(one)}


def check_rows(
    rows: Iterable[tuple[str, int, int, bytes]], must: Iterable[bytes], account: Account
) -> None:
    """Raises Imbalance if rows are not as Kafka has them, come twice, or lack a record."""
    seen: set[bytes] = set()
    for topic, partition, offset, value in rows:
        account.check_row((topic, partition), offset, value)
        if value in seen:
            raise Imbalance(f"a batch read has a record twice: {value!r}")
        seen.add(value)
    missing = [value for value in must if value not in seen]
    if missing:
        raise Imbalance(f"a batch read lacks {len(missing)} records, such as {missing[0]!r}")


def _firsts(stock: Stock, bound: Bound) -> Callable[[Stored], int]:
    """Returns what gives the first offset of a bound, for a record's partition."""
    by_place: dict[Place, int] = {}

    def first(one: Stored) -> int:
        place = one.topic, one.partition
        if place not in by_place:
            wanted = bound.place(TopicPartition(*place))
            assert isinstance(wanted, int)
            by_place[place] = _first(stock, place, wanted, bound)
        return by_place[place]

    return first


def _first(stock: Stock, place: Place, wanted: int, bound: Bound) -> int:
    if wanted == EARLIEST:
        return 0
    if wanted == LATEST:
        return 1 << 62
    if not bound.by_time:
        return wanted
    offsets = [s.offset for s in stock.values() if s[:2] == place and s.time_ms >= wanted]
    return min(offsets, default=1 << 62)
