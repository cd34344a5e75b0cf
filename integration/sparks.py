"""What each version of Spark can't do with kfetch, in one table that tests and documents read.

A test that needs a feature says so by a mark, ``@needs(Feature.LIMITED_AVAILABLE_NOW)``. With a
Spark that lacks it, the test is skipped, with the reason from this table. Tests ask for no version
in any other way.
"""

from __future__ import annotations

from enum import Enum
from importlib import metadata
from typing import NamedTuple

import pytest

VERSIONS = ("4.0.5", "4.1.4", "4.2.0", "4.2.1", "4.3.0")
"""The versions of Spark that kfetch is tested with, the oldest first."""


class Requirement(NamedTuple):
    """The first version of Spark with a feature, and why earlier ones lack it."""

    since: tuple[int, int]
    reason: str


class Feature(Enum):
    """What not every version of Spark has."""

    ONE_PLAN_FOR_EACH_LOAD = Requirement(
        (4, 1),
        "Spark 4.0 plans a batch read wherever a query uses it, so later ones see later records",
    )
    EXACT_AVRO_ARRAYS = Requirement(
        (4, 1), "Spark 4.0's from_avro rounds doubles in arrays to floats; kfetch does not"
    )
    DECLARATIVE_PIPELINES = Requirement((4, 1), "Spark 4.0 has no declarative pipelines")
    LIMITED_AVAILABLE_NOW = Requirement(
        (4, 2),
        "before Spark 4.2, an AvailableNow query of a Python source is one micro-batch, which "
        "maxOffsetsPerTrigger limits",
    )
    UNLIMITED_ONCE = Requirement(
        (4, 2), "before Spark 4.2, a Python source is not told the trigger, so limits hold for Once"
    )
    AVAILABLE_NOW_GOES_ON = Requirement(
        (4, 2),
        "before Spark 4.2, an AvailableNow query that finds an unfinished micro-batch ends after "
        "that one",
    )
    AVAILABLE_NOW_CLOSES_WINDOWS = Requirement(
        (4, 2),
        "before Spark 4.2, an AvailableNow query of a Python source has no micro-batch without "
        "records, so the watermark moves in the next run",
    )
    CHECKED_BATCHES = Requirement(
        (4, 2), "before Spark 4.2, a batch may have other Arrow types than the source's schema"
    )
    LOG_ENDS_IN_PROGRESS = Requirement(
        (4, 2), "before Spark 4.2, the progress has no log ends of a Python source"
    )


SPARK = metadata.version("pyspark")
"""The version of the installed Spark."""


def has(feature: Feature, version: str = SPARK) -> bool:
    """Returns whether a version of Spark has a feature. Default: the installed one."""
    major, minor = version.split(".")[:2]
    return (int(major), int(minor)) >= feature.value.since


def needs(feature: Feature) -> pytest.MarkDecorator:
    """Skip a test if the installed Spark lacks a feature."""
    return pytest.mark.skipif(not has(feature), reason=f"{feature.value.reason} (Spark {SPARK})")
