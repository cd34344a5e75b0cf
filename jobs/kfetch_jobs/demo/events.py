"""Click events: JSON values in Kafka's record batches, encoded in bulk.

Events have consecutive ``event_id``s from 0 on. An event goes to partition ``id % partitions``.
The ids show whether a table lacks an event or has one twice.
This module needs 3 µs for a record. A producer library needs 30 µs, which the job would miss.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafka.record.default_records import DefaultRecordBatchBuilder

ACTIONS = ("view", "view", "view", "search", "cart", "buy")
_PAGES = 500
_USERS = 100_000


def value(event_id: int, now_ms: int) -> bytes:
    """Returns one event as JSON. ``now_ms`` is its time in milliseconds since 1970.

    Prime strides spread users and pages without a random generator.
    """
    return b'{"event_id":%d,"user_id":%d,"page":"/products/%d","action":"%s","ts":%d}' % (
        event_id,
        event_id * 7919 % _USERS,
        event_id * 31 % _PAGES,
        ACTIONS[event_id % len(ACTIONS)].encode(),
        now_ms,
    )


def encode(event_ids: range, partitions: int, now_ms: int) -> dict[int, bytes]:
    """Returns one record batch for each partition that gets any of these events."""
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
        # The builder refuses records beyond this size. `encode`'s caller stays far below it.
        batch_size=16 << 20,
    )
    for offset, event_id in enumerate(event_ids):
        builder.append(offset, now_ms, None, value(event_id, now_ms), [])
    return bytes(builder.build())
