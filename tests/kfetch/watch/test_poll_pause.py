"""The pause between polls: the limit of each rule."""

from __future__ import annotations

import pytest

from kfetch.watch.poll_pause import poll_pause_s

IDLE = {"partitions": 1000, "full": False, "moved": 0, "record_bytes": 0, "took_s": 0.5}


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        ({}, 0.0),  # the broker has waited long enough
        ({"took_s": 0.001}, 0.1),  # a broker that does not wait
        ({"moved": 1, "partitions": 10}, 0.02),
        ({"moved": 1, "partitions": 1000}, 0.02),
        ({"moved": 1, "partitions": 10_000}, 0.2),
        ({"moved": 1000, "partitions": 1000}, 0.3),
        ({"moved": 1, "partitions": 1, "record_bytes": 1_000_000}, 0.25),
        ({"moved": 1, "partitions": 1, "record_bytes": 100_000_000}, 1.0),
        ({"full": True, "partitions": 10}, 0.02),
        ({"full": True, "partitions": 1000, "moved": 1}, 0.5),
        ({"full": True, "partitions": 100_000}, 1.0),
    ],
)
def test_pauses(changes: dict[str, object], seconds: float) -> None:
    """The next poll follows an idle one at once. Changes, a large session and records add a pause
    of a second at most."""
    assert seconds == pytest.approx(poll_pause_s(**(IDLE | changes)))
