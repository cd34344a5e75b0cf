"""A partition's log for ``little``: record batches as a broker holds them, and leader epochs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from kafka.record.default_records import DefaultRecordBatchBuilder

T0 = 1_700_000_000_000


def batch(
    base: int, values: list[bytes], epoch: int = 0, keys: Sequence[bytes | None] = ()
) -> bytes:
    """One record batch of kafka-python's, its leader epoch written as a broker does."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for delta, (value, key) in enumerate(zip_longest(values, keys)):
        builder.append(delta, timestamp=T0 + delta, key=key, value=value, headers=[])
    data = bytearray(builder.build())
    data[0:8] = base.to_bytes(8, "big")
    data[12:16] = epoch.to_bytes(4, "big", signed=True)
    return bytes(data)


@dataclass
class Log:
    """A partition: its leader and its batches as (base, next offset, epoch, bytes)."""

    leader: int | None
    epoch: int = 0
    start: int = 0
    batches: list[tuple[int, int, int, bytes]] = field(default_factory=list)
    values: dict[int, bytes] = field(default_factory=dict)
    """The values by offset, for tests that check what was delivered."""
    stable: int | None = None
    """Last stable offset, below the end while a transaction is open."""

    @property
    def end(self) -> int:
        return self.batches[-1][1] if self.batches else self.start

    def append(self, *values: bytes, keys: Sequence[bytes | None] = ()) -> None:
        base = self.end
        self.values.update(enumerate(values, base))
        data = batch(base, list(values), self.epoch, keys)
        self.batches.append((base, base + len(values), self.epoch, data))

    def truncate(self, end: int) -> None:
        """Drop whole batches that reach past ``end``."""
        self.batches = [b for b in self.batches if b[1] <= end]
        self.values = {at: value for at, value in self.values.items() if at < self.end}

    def expire(self, start: int) -> None:
        """Move the log start offset, as retention does."""
        self.start = start
        self.batches = [b for b in self.batches if b[1] > start]

    def epoch_end(self, asked: int) -> tuple[int, int]:
        """Largest epoch not above ``asked`` that wrote records, and where its records end.

        As in Kafka's LeaderEpochFileCache: an epoch before all others ends at the log start, and
        only an epoch that is newer than the leader's has no answer.
        """
        if asked >= self.epoch:
            return (self.epoch, self.end) if asked == self.epoch else (-1, -1)
        known = [b for b in self.batches if b[2] <= asked]
        if not known:
            return asked, self.start
        return known[-1][2], known[-1][1]

    def at(self, timestamp: int) -> int:
        """The first record of that time or later; -1 if there is none."""
        for base, after, *_ in self.batches:
            for at in range(base, after):
                if T0 + at - base >= timestamp:
                    return at
        return -1

    def read(self, offset: int, max_bytes: int) -> bytes:
        data = b""
        for _, after, _, encoded in self.batches:
            if after > offset:
                data += encoded
            if len(data) >= max_bytes:
                break
        return data
