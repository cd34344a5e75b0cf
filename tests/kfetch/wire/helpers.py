"""Options, deadlines and a clock for the tests of a cluster."""

from __future__ import annotations

import time

from kfetch.model import TopicPartition
from kfetch.options import NetworkOptions

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
OPTIONS = NetworkOptions(
    request_timeout_s=60.0, connect_timeout_s=60.0, retry_backoff_s=0.001, retry_backoff_max_s=0.004
)


SHORT_S = 0.1


def soon(seconds: float = 60.0) -> float:
    """A deadline."""
    return time.monotonic() + seconds


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
