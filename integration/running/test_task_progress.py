"""Spark's own status tracker: which looks at it show that tasks finish."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import SparkSession

from kfetch_jobs.run.watching import TaskProgress

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


def looks(spark: SparkSession, tasks: int, seconds: float) -> list[bool]:
    """The looks while a stage of so many tasks of this length runs."""
    tracker = spark.sparkContext.statusTracker()
    seen: list[bool] = []

    def sleep(number: int) -> int:
        time.sleep(seconds)
        return number

    numbers = spark.sparkContext.parallelize(range(tasks), tasks).map(sleep)
    with ThreadPoolExecutor(1) as pool:
        progress, stage = TaskProgress(tracker), pool.submit(numbers.count)
        while not tracker.getActiveStageIds() and not stage.done():
            time.sleep(0.05)
        while tracker.getActiveStageIds():
            seen.append(progress.advanced())
            time.sleep(0.1)
        assert tasks == stage.result()
    return [*seen[:-1], progress.advanced() or seen[-1]]


def test_tasks_of_a_stage_are_seen(spark: SparkSession) -> None:
    """Each time that tasks finish, a look shows it; while one task runs on, none does."""
    many, one = looks(spark, 6, 0.5), looks(spark, 1, 2.0)

    assert sum(many) >= 2
    assert [False] * (len(one) - 1) == one[:-1]
    assert one[-1]
