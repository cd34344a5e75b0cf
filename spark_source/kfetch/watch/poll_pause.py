"""The pause between two polls of a watch session, so that the watch costs little beside the data.

An idle poll waits at the broker and needs no pause. The broker answers a poll at once if a
partition has moved. Without a pause, one busy partition would make a hot loop. Each rule below
limits one cost, and the longest pause applies. After the pause the session rests until the driver
plans. A request at that moment gets fresher answers than a request sent ahead, and costs less.
Pure: seconds from counts.
"""

from __future__ import annotations

LONG_POLL_MS = 500
"""How long an idle poll waits at the broker (Kafka's default for ``fetch.max.wait.ms``)."""

REST_S = LONG_POLL_MS / 1000
"""How long a session rests after a reply with changes if the driver does not wake it."""

_PAUSE_MIN_S = 0.02
_PAUSE_MAX_S = 1.0
# The broker walks every partition of the session in each poll, about 1 us each (measured: 1.06 ms
# at 1,000 partitions). This limits the walk to a twentieth of one of its cores.
_PER_PARTITION_S = 20e-6
# A moved partition costs about 70 bytes on the wire and 30 us of the driver's CPU. This limits it
# to a tenth of one CPU.
_PER_MOVED_PARTITION_S = 300e-6
# A full fetch names every partition, about 70 bytes there and back: 140 kB/s.
_PER_PARTITION_OF_FULL_FETCH_S = 500e-6
# The broker returns the first record batch whatever its size: 4 MB/s.
_RECORD_BYTES_PER_S = 4e6
# The broker answered early and without changes: not every broker waits for ``max_wait_ms``.
_EARLY_EMPTY_REPLY_S = 0.1


def poll_pause_s(
    *, partitions: int, full: bool, moved: int, record_bytes: int, took_s: float
) -> float:
    """Returns the seconds from a reply to the next request.

    ``partitions`` is the number of partitions in the session. ``moved`` of them moved by this
    reply. ``full`` says that the broker keeps no session. ``took_s`` is the time from the request
    to the reply.
    """
    if full:
        pause_s = max(_PAUSE_MIN_S, partitions * _PER_PARTITION_OF_FULL_FETCH_S)
        return min(pause_s, _PAUSE_MAX_S)
    if not moved:
        return 0.0 if took_s >= LONG_POLL_MS / 2000 else _EARLY_EMPTY_REPLY_S
    pause_s = max(
        _PAUSE_MIN_S,
        partitions * _PER_PARTITION_S,
        moved * _PER_MOVED_PARTITION_S,
        record_bytes / _RECORD_BYTES_PER_S,
    )
    return min(pause_s, _PAUSE_MAX_S)
