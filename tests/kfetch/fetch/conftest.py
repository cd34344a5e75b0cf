"""A little Kafka with two nodes. Every inline query closes after its test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kfetch import losses
from tests.kfetch.fetch.helpers import T0, T1, opened
from tests.kfetch.wire.little import LittleKafka


@pytest.fixture
def kafka() -> Iterator[LittleKafka]:
    """Two nodes; t-0 on the first with 6 records, t-1 on the second with 4."""
    with LittleKafka(2) as running:
        running.create("t", 2)
        for tp, batches in ((T0, 3), (T1, 2)):
            for n in range(batches):
                name = f"{tp} {n}"
                running.log(tp).append(f"{name}a".encode(), f"{name}b".encode())
        yield running


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition that no broker names is gone at once."""
    monkeypatch.setattr(losses, "GONE_AFTER_S", 0.0)


@pytest.fixture(autouse=True)
def close_queries() -> Iterator[None]:
    """Closes every inline query of a test."""
    yield
    while opened:
        opened.pop().close()
