"""The table of ``make sparks``: which tests a feature has, and what a cell says."""

from __future__ import annotations

from pathlib import Path

from packaging.version import Version

from integration.benchmarks.peer import connector_version
from integration.spark_versions.__main__ import cell, table
from integration.spark_versions.choice import FAILED, PASSED
from integration.spark_versions.features import FEATURES, feature_of
from integration.sparks import VERSIONS
from kfetch.spark.versions import NEWEST_TESTED

ROOT = Path(__file__).parents[1]


def test_each_feature_has_tests() -> None:
    """The files of each feature exist, and its short tests are its own."""
    for feature in FEATURES:
        assert all((ROOT / file).exists() for file in feature.files(short=False)), feature
        assert {feature.key} >= {getattr(feature_of(t), "key", "") for t in feature.short}, feature


def test_a_test_belongs_to_the_first_feature_that_names_it() -> None:
    """A feature for some tests of a file comes before the one of the file."""
    triggers = "integration/spark/test_triggers.py::"
    found = [feature_of(triggers + name) for name in ("test_available_now_x", "test_few")]

    assert ["available-now", "limits"] == [getattr(one, "key", "") for one in found]
    assert feature_of("integration/running/test_demo.py::test_x") is None


def test_cells() -> None:
    """Failures win over passes, and the reasons of skipped tests stay."""
    assert "pass" == cell({PASSED: 3})
    assert "fail 1 of 4" == cell({PASSED: 3, FAILED: 1})
    assert "pass: no limit there" == cell({PASSED: 3, "no limit there": 2})
    assert "none: a; b" == cell({"a": 1, "b": 1})
    assert "none" == cell({})


def test_the_table() -> None:
    """A row for each feature, a column for each version, and each reason once below."""
    limits = next(one for one in FEATURES if one.key == "limits")
    results = {
        "4.0.5": {"limits": {"no limits there": 2}},
        "4.1.4": {"limits": {PASSED: 1, "no limits there": 1}},
        "4.3.0": {"limits": {PASSED: 9}},
    }

    assert [
        "pyspark               4.0.5     4.1.4     4.3.0",
        "beside the connector  4.0.4     4.1.3     4.2.0",
        "limits                none (1)  pass (1)  pass",
        "(1) no limits there",
    ] == table(results, [limits])


def test_versions() -> None:
    """The newest tested minor version is the one up to which no warning comes. No connector is
    newer than its Spark."""
    assert Version(VERSIONS[-1]).release[:2] == NEWEST_TESTED
    assert all(Version(connector_version(one)) <= Version(one) for one in VERSIONS)
