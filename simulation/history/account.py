"""The account of a query: acknowledged, delivered, named as lost.

Each record has a value of its own, so a value in the sink tells the record. ``Account`` listens to
the cluster and to the sink. It is balanced once the query has caught up:

- A record of a log that exists is in the sink once, if the query began before it.
- No value is in the sink twice, and each has the partition and the offset that Kafka gave it.
- A record that expired or went with its topic before it was delivered was named as lost.
- A delivered record that the log lost by a truncation was named, too.
- Each loss that was named has happened. It names only records that were lost by then.

Some losses no client can know. A log keeps no trace of a history below its start, so a truncation
shows only above the log start. And a new leader may never have had the records that expired. A
topic may come and go before any micro-batch is planned for it. A broker that knows no topic ids in
fetches gives a task the records of a new topic for those of its former one. They come once more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
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


class Lost(NamedTuple):
    """A record that a log has lost, and that nobody has named yet."""

    record: Acknowledged
    fate: str
    """Truncated, expired or deleted."""


class Account(Listener):
    """What is known of every record of a simulation."""

    def __init__(self, *, reads_by_name: bool = False) -> None:
        """``reads_by_name``: some broker knows no topic ids in fetches."""
        self._reads_by_name = reads_by_name
        self.produced: dict[bytes, Place] = {}
        self.records: dict[bytes, Acknowledged] = {}
        """The acknowledged records by value."""
        self.delivered: dict[bytes, int] = {}
        """The micro-batch of each delivered value."""
        self.aborted: set[bytes] = set()
        """Values of aborted transactions: a query may or may not read them."""
        self._lost: dict[Place, dict[bytes, Lost]] = defaultdict(dict)
        """What an error or a warning has still to name, by value."""
        self._ends: dict[Place, tuple[int, int]] = {}
        """The last planned end, and its leader epoch."""
        self._batch_starts: dict[Place, tuple[int, int]] = {}
        """The end before it, where the last planned micro-batch starts."""
        self._cut_ends: dict[Place, int] = {}
        """The offsets of those ends below which the log was cut since."""
        self._cut_starts: dict[Place, int] = {}
        self._topics: set[tuple[Place, UUID]] = set()
        """Those of all checkpoints, with the ids of their topics."""
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

    def lost(self, topic_id: UUID, place: Place, records: Records, kept: int) -> None:
        """See Listener."""
        self._truncated.add(place)
        for positions, cut in (
            (self._batch_starts, self._cut_starts),
            (self._ends, self._cut_ends),
        ):
            if place in positions and kept < positions[place][0]:
                cut[place] = positions[place][0]
        # The new leader may never have had them, so no query can know that they expired.
        self._forgive(place, lambda lost: lost.fate == "expired" and lost.record.offset >= kept)
        self._note_lost(topic_id, place, records, "truncated")

    def expired(self, topic_id: UUID, place: Place, records: Records, start: int) -> None:
        """See Listener."""
        self._starts[place] = max(start, self._starts.get(place, 0))
        position = max(cut.get(place, 0) for cut in (self._cut_starts, self._cut_ends))
        if position:
            # The log tells no more where the histories part. It may be anywhere below the position.
            self._forgive(place, lambda lost: lost.record.offset < min(start, position))
            records = [record for record in records if record[0] >= position]
        self._note_lost(topic_id, place, records, "expired")

    def deleted(self, topic_id: UUID, place: Place, records: Records) -> None:
        """See Listener."""
        self._deleted.add(place[0])
        self._note_lost(topic_id, place, records, "deleted")

    def _note_lost(self, topic_id: UUID, place: Place, records: Records, fate: str) -> None:
        for offset, value in records:
            self.records[value] = record = Acknowledged(place, topic_id, offset)
            self._lost[place][value] = Lost(record, fate)

    def _forgive(self, place: Place, applies: Callable[[Lost], bool]) -> None:
        lost = self._lost[place]
        self._lost[place] = {value: one for value, one in lost.items() if not applies(one)}

    # -- the query tells ---------------------------------------------------------------------

    def begin(self) -> None:
        """Note that a query without a checkpoint looks up where it starts: it lost nothing yet."""
        self._lost.clear()

    def knows(self, places: Iterable[Place], topic_ids: Mapping[str, UUID]) -> None:
        """Note the partitions of a checkpoint, and the ids of their topics."""
        self._topics |= {(place, topic_ids[place[0]]) for place in places if place[0] in topic_ids}

    def planned(self, ends: Mapping[Place, tuple[int, int]]) -> None:
        """Note the end of a micro-batch: offsets and leader epochs."""
        former = self._ends
        self._batch_starts, self._ends = former, dict(ends)
        self._cut_starts = self._cut_ends
        self._cut_ends = {
            place: at for place, at in self._cut_ends.items() if ends.get(place) == former[place]
        }

    def check_happened(self, loss: DataLoss) -> None:
        """Raises Imbalance if a loss has not happened."""
        where = loss.where
        place = where.get("topic", ""), where.get("partition", -1)
        if isinstance(loss, RecordsExpired):
            happened = where["log_start_offset"] <= self._starts.get(place, 0)
        elif isinstance(loss, LogTruncated):
            happened = place in self._truncated
        elif isinstance(loss, OffsetBeyondLog):
            happened = place in self._truncated or place[0] in self._deleted
        elif isinstance(loss, (PartitionGone, TopicRecreated)):
            # An AvailableNow query that ends names several partitions.
            happened = "partitions" in where or place[0] in self._deleted
        else:
            raise Imbalance(f"a loss of an unknown kind: {loss!r}")
        if not happened:
            raise Imbalance(f"a loss was named that has not happened: {loss.what}")

    def name(self, loss: DataLoss) -> None:
        """Note a loss that an error or a warning names. Raises Imbalance if there was none."""
        self.check_happened(loss)
        where = loss.where
        place = where.get("topic", ""), where.get("partition", -1)
        offset = where.get("offset", 0)
        if isinstance(loss, RecordsExpired):
            self._name(place, offset, where["log_start_offset"])
        elif isinstance(loss, LogTruncated):
            end = where["end_offset"]
            # At the log start, the broker can't tell how far below it the histories part.
            self._name(place, end if end > self._starts.get(place, 0) else 0, offset)
        elif isinstance(loss, OffsetBeyondLog):
            self._name(place, where["high_watermark"], offset)
        elif "partitions" not in where:
            self._forgive(place, lambda lost: lost.record.topic_id != where.get("topic_id_now"))

    def _name(self, place: Place, start: int, end: int) -> None:
        """Take the records of some offsets as named, if they are lost already."""
        self._forgive(place, lambda lost: start <= lost.record.offset < end)

    def deliver(self, batch_id: int, rows: Iterable[tuple[str, int, int, bytes]]) -> None:
        """Note the rows of one task that the sink took. Raises Imbalance."""
        last: dict[Place, int] = {}
        for topic, partition, offset, value in rows:
            text = f"{value!r} at {topic}-{partition} offset {offset}, micro-batch {batch_id}"
            place = topic, partition
            self.check_row(place, offset, value)
            if value in self.delivered and not self._is_of_new_topic(place, value):
                raise Imbalance(f"twice: {text}, and micro-batch {self.delivered[value]}")
            if offset <= last.get(place, -1):
                raise Imbalance(f"out of order after offset {last[place]}: {text}")
            last[place] = offset
            self.delivered[value] = batch_id

    def _is_of_new_topic(self, place: Place, value: bytes) -> bool:
        """Whether a task read a record by the name of its topic, which was created again."""
        record = self.records.get(value)
        others = {topic_id for known, topic_id in self._topics if known == place}
        return self._reads_by_name and record is not None and bool(others - {record.topic_id})

    def check_row(self, place: Place, offset: int, value: bytes) -> None:
        """Raises Imbalance if a row is not a record of this partition with this offset."""
        text = f"{value!r} at {place[0]}-{place[1]} offset {offset}"
        if self.produced.get(value) != place:
            raise Imbalance(f"a record that nobody wrote there: {text}")
        known = self.records.get(value)
        if known is not None and known.offset != offset:
            raise Imbalance(f"another offset than Kafka's {known.offset}: {text}")

    # -- the balance -------------------------------------------------------------------------

    def missing(
        self, surviving: Mapping[Place, Iterable[tuple[int, bytes]]], starts: Mapping[Place, int]
    ) -> list[str]:
        """Returns a line for each surviving record that is not delivered.

        ``starts``: where the query began, for partitions that existed then.
        """
        return [
            f"never delivered: {value!r} at {place[0]}-{place[1]} offset {offset}"
            for place, records in surviving.items()
            for offset, value in records
            if value not in self.delivered and offset >= starts.get(place, 0)
        ]

    def unnamed(self, starts: Mapping[Place, int]) -> list[str]:
        """Returns a line for each record that is lost, and that neither error nor warning named."""
        return [
            f"{lost.fate}, and not named as lost: {value!r}, {lost.record}"
            for place, of_place in self._lost.items()
            for value, lost in of_place.items()
            # A record that nobody read before a truncation is of no history that survives.
            if (value in self.delivered) == (lost.fate == "truncated")
            and (lost.fate != "deleted" or (place, lost.record.topic_id) in self._topics)
            and value not in self.aborted
            and lost.record.offset >= starts.get(place, 0)
        ]
