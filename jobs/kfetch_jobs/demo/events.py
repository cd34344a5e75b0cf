"""Click events: JSON values in Kafka's record batches, made in bulk.

Every event has the next ``event_id``, counted from 0, and goes to partition ``id % partitions``. So
a table can be checked for each of them: none missing, none twice.
A producer library spends 30 µs on a record; here it is 3, which leaves the machine to the job.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafka.record.default_records import DefaultRecordBatchBuilder

__all__ = ["ACTIONS", "encode", "value"]

ACTIONS = ("view", "view", "view", "search", "cart", "buy")
_PAGES = 500
_USERS = 100_000


def value(event_id: int, now_ms: int) -> bytes:
    """One event. The prime strides spread users and pages without a random generator."""
    return b'{"event_id":%d,"user_id":%d,"page":"/products/%d","action":"%s","ts":%d}' % (
        event_id,
        event_id * 7919 % _USERS,
        event_id * 31 % _PAGES,
        ACTIONS[event_id % len(ACTIONS)].encode(),
        now_ms,
    )


def encode(event_ids: range, partitions: int, now_ms: int) -> dict[int, bytes]:
    """One record batch for each partition that gets any of these events."""
    shares = {
        (event_ids.start + skipped) % partitions: event_ids[skipped::partitions]
        for skipped in range(min(partitions, len(event_ids)))
    }
    return {partition: _batch(share, now_ms) for partition, share in shares.items()}


def _batch(event_ids: Sequence[int], now_ms: int) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        # Asks whether a record still fits: `encode`'s caller keeps batches far below.
        batch_size=16 << 20,
    )
    for offset, event_id in enumerate(event_ids):
        builder.append(offset, now_ms, None, value(event_id, now_ms), [])
    return bytes(builder.build())
