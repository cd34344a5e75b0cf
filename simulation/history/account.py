"""The account of a query: acknowledged, delivered, named as lost.

Each record has a value of its own, so a value in the sink tells the record. ``Account`` listens to
the cluster and to the sink. It is balanced once the query has caught up:

- A record of a log that exists is in the sink once, if the query began before it.
- No value is in the sink twice, and each has the partition and the offset that Kafka gave it.
- A record that expired or went with its topic before it was delivered was named as lost.
- A delivered record that the log lost by a truncation was named, too.
- Each loss that was named has happened.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from kfetch.errors import (
    DataLoss,
    LogTruncated,
    OffsetBeyondLog,
    PartitionGone,
    RecordsExpired,
    TopicRecreated,
)
from simulation.cluster.cluster import Listener, Place, Records

_NO_LIMIT = 1 << 62


class Imbalance(AssertionError):
    """A record is missing, came twice, or was not as Kafka acknowledged it."""


class Acknowledged(NamedTuple):
    """A record that Kafka has acknowledged."""

    place: Place
    topic_id: UUID
    offset: int


class Named(NamedTuple):
    """Offsets of a partition that an error or a warning named as lost."""

    start: int
    end: int
    loss: type[DataLoss]


class Account(Listener):
    """What is known of every record of a simulation."""

    def __init__(self) -> None:
        self.produced: dict[bytes, Place] = {}
        self.records: dict[bytes, Acknowledged] = {}
        """The acknowledged records by value."""
        self.delivered: dict[bytes, int] = {}
        """The micro-batch of each delivered value."""
        self.aborted: set[bytes] = set()
        """Values of aborted transactions: a query may or may not read them."""
        self.fates: dict[bytes, str] = {}
        """Why a log lost a value: truncated, expired or deleted."""
        self.named: dict[Place, list[Named]] = defaultdict(list)
        self._unprovable: set[bytes] = set()
        """Expired values of a history that an unclean election ended."""
        self._starts: dict[Place, int] = {}
        self._deleted: set[str] = set()
        self._truncated: set[Place] = set()

    # -- the cluster tells -------------------------------------------------------------------

    def acknowledged(
        self, topic_id: UUID, place: Place, base: int, values: Sequence[bytes]
    ) -> None:
        """See Listener."""
        for offset, value in enumerate(values, base):
            self.records[value] = Acknowledged(place, topic_id, offset)

    def lost(self, topic_id: UUID, place: Place, records: Records) -> None:
        """See Listener."""
        self._truncated.add(place)
        # The new leader may never have had them, so no query can know that they expired.
        for value, fate in self.fates.items():
            if fate == "expired" and self.records[value].place == place:
                self._unprovable.add(value)
        self._note_gone(topic_id, place, records, "truncated")

    def expired(self, topic_id: UUID, place: Place, records: Records, start: int) -> None:
        """See Listener."""
        self._starts[place] = max(start, self._starts.get(place, 0))
        self._note_gone(topic_id, place, records, "expired")

    def deleted(self, topic_id: UUID, place: Place, records: Records) -> None:
        """See Listener."""
        self._deleted.add(place[0])
        self._note_gone(topic_id, place, records, "deleted")

    def _note_gone(self, topic_id: UUID, place: Place, records: Records, fate: str) -> None:
        for offset, value in records:
            self.records[value] = Acknowledged(place, topic_id, offset)
            self.fates.setdefault(value, fate)

    # -- the query tells ---------------------------------------------------------------------

    def name(self, loss: DataLoss) -> None:
        """Note a loss that an error or a warning names. Raises Imbalance if there was none."""
        where = loss.where
        place = where.get("topic", ""), where.get("partition", -1)
        offset = where.get("offset", 0)
        if isinstance(loss, RecordsExpired):
            self._check(loss, where["log_start_offset"] <= self._starts.get(place, 0))
            named = Named(offset, where["log_start_offset"], RecordsExpired)
        elif isinstance(loss, LogTruncated):
            self._check(loss, place in self._truncated)
            named = Named(where["end_offset"], offset, LogTruncated)
        elif isinstance(loss, OffsetBeyondLog):
            self._check(loss, place in self._truncated or place[0] in self._deleted)
            named = Named(where["high_watermark"], offset, OffsetBeyondLog)
        elif isinstance(loss, (PartitionGone, TopicRecreated)):
            named = Named(0, _NO_LIMIT, type(loss))
            if "partitions" in where:  # of an AvailableNow query, which ends
                return
            self._check(loss, place[0] in self._deleted)
        else:
            raise Imbalance(f"a loss of an unknown kind: {loss!r}")
        self.named[place].append(named)

    def _check(self, loss: DataLoss, happened: bool) -> None:
        if not happened:
            raise Imbalance(f"a loss was named that has not happened: {loss.what}")

    def deliver(self, batch_id: int, rows: Iterable[tuple[str, int, int, bytes]]) -> None:
        """Note the rows of one task that the sink took. Raises Imbalance."""
        last: dict[Place, int] = {}
        for topic, partition, offset, value in rows:
            text = f"{value!r} at {topic}-{partition} offset {offset}, micro-batch {batch_id}"
            place = topic, partition
            if self.produced.get(value) != place:
                raise Imbalance(f"a record that nobody wrote there: {text}")
            known = self.records.get(value)
            if known is not None and known.offset != offset:
                raise Imbalance(f"another offset than Kafka's {known.offset}: {text}")
            if value in self.delivered:
                raise Imbalance(f"twice: {text}, and micro-batch {self.delivered[value]}")
            if offset <= last.get(place, -1):
                raise Imbalance(f"out of order after offset {last[place]}: {text}")
            last[place] = offset
            self.delivered[value] = batch_id

    # -- the balance -------------------------------------------------------------------------

    def missing(
        self, surviving: Mapping[Place, Iterable[tuple[int, bytes]]], starts: Mapping[Place, int]
    ) -> list[str]:
        """Returns a line for each surviving record that is neither delivered nor named as lost.

        ``starts``: where the query began, for partitions that existed then.
        """
        return [
            f"never delivered: {value!r} at {place[0]}-{place[1]} offset {offset}"
            for place, records in surviving.items()
            for offset, value in records
            if value not in self.delivered
            and offset >= starts.get(place, 0)
            and not self._is_named(place, offset)
        ]

    def unnamed(self, starts: Mapping[Place, int]) -> list[str]:
        """Returns a line for each record that is lost, and that neither error nor warning named."""
        return [
            f"{fate}, and not named as lost: {value!r}, {self.records[value]}"
            for value, fate in self.fates.items()
            # A record that nobody read before a truncation is of no history that survives.
            if (value in self.delivered) == (fate == "truncated")
            and value not in self.aborted
            and value not in self._unprovable
            and self._must_be_named(self.records[value], starts)
        ]

    def _must_be_named(self, record: Acknowledged, starts: Mapping[Place, int]) -> bool:
        if record.offset < starts.get(record.place, 0):
            return False
        return not self._is_named(record.place, record.offset)

    def _is_named(self, place: Place, offset: int) -> bool:
        return any(one.start <= offset < one.end for one in self.named.get(place, ()))
