"""How soon after a poll the next one may leave: the watch must be noise beside the data.

An idle poll waits at the broker, so it needs no pace. One that brought something is answered at
once, and so is the next: without a pause a single busy partition would make a hot loop of it.
Each rule below bounds one cost; the longest pause wins. Behind the pause the session rests until
the driver plans: then it asks for what is new, which is fresher and cheaper than asking ahead.
Pure: seconds out of counts.
"""

from __future__ import annotations

LONG_POLL_MS = 500
"""How long an idle poll waits at the broker (Kafka's default for ``fetch.max.wait.ms``)."""

REST_S = LONG_POLL_MS / 1000
"""How long a session rests after news if nobody calls it."""

_LEAST_S = 0.02
_MOST_S = 1.0
# The broker walks every partition of the session in each poll, about 1 us each (measured: 1.06 ms
# at 1,000): at most a twentieth of one of its cores.
_WALK_S = 20e-6
# A partition that moved is about 70 bytes on the wire and 30 us of the driver's CPU: a tenth of it.
_MOVED_S = 300e-6
# A full fetch names every partition, about 70 bytes there and back: 140 kB/s.
_FULL_S = 500e-6
# The first batch comes along, whatever its size: 4 MB/s.
_RECORD_BYTES_PER_S = 4e6
# An answer that is neither long awaited nor news: not every broker waits as it is asked to.
_EMPTY_S = 0.1


def pause_s(*, partitions: int, full: bool, moved: int, record_bytes: int, took_s: float) -> float:
    """Seconds from a reply to the next request.

    ``partitions`` are in the session, ``moved`` of them by this reply; ``took_s`` is from the
    request to the reply.
    """
    if full:
        return min(max(_LEAST_S, partitions * _FULL_S), _MOST_S)
    if not moved:
        return 0.0 if took_s >= LONG_POLL_MS / 2000 else _EMPTY_S
    return min(
        max(
            _LEAST_S,
            partitions * _WALK_S,
            moved * _MOVED_S,
            record_bytes / _RECORD_BYTES_PER_S,
        ),
        _MOST_S,
    )
