"""A query moves between versions of Spark: every second run has the calls of Spark 4.0 and 4.1."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest

from kfetch.options import SourceOptions
from kfetch.spark.source import KfetchStreamReader
from kfetch.spark.versions import ReaderOfSpark41, ReadLimit
from simulation import world
from simulation.parts import run_source

pytestmark = pytest.mark.simulation


class InOrderOfSpark41:
    """Makes of Spark 4.2's calls those that Spark 4.1 would make of the reader."""

    def __init__(self, options: SourceOptions) -> None:
        self._reader: Any = KfetchStreamReader(options)
        self._old = ReaderOfSpark41(self._reader)
        self._initial: str | None = None
        self._has_begun = False

    def initialOffset(self) -> dict[str, Any]:
        """Spark 4.1 asks for it after ``latestOffset``."""
        initial = (self._old if self._has_begun else self._reader).initialOffset()
        self._initial = json.dumps(initial)
        return dict(initial)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Spark 4.1 passes no start. After a restart it names it before."""
        if json.dumps(start) != self._initial:
            self._begin(start)
        self._has_begun = True
        return self._old.latestOffset()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Any:
        """After a restart, Spark 4.1 names the last offset before it repeats a micro-batch."""
        self._begin(end)
        return self._old.partitions(start, end)

    def _begin(self, last: dict[str, Any]) -> None:
        if not self._has_begun:
            self._has_begun = True
            assert [] == list(self._old.partitions(last, last))

    def prepareForTriggerAvailableNow(self) -> None:
        """Spark 4.1 has no such call."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[type]:
    """The reader of each run."""
    numbers = count()
    made: list[type] = []

    def make(options: SourceOptions) -> Any:
        made.append([InOrderOfSpark41, KfetchStreamReader][next(numbers) % 2])
        return made[-1](options)

    monkeypatch.setattr(world, "KfetchStreamReader", make)
    return made


@pytest.mark.parametrize("seed", range(10))
def test_a_checkpoint_goes_from_one_version_to_another(seed: int, runs: list[type]) -> None:
    """Processes are killed, topics change, and nothing is lost, delivered twice or unnamed."""
    result = run_source(seed, 2.0)

    assert not result.failure, "\n".join(result.story)
    assert InOrderOfSpark41 in runs
