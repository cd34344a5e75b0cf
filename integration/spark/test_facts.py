"""Facts about Spark on which defaults and pages rest. If one changes, mend what rests on it.

``make sparks`` runs these tests with each supported version.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from integration.spark.toy import MOMENT, CountedPlans, OneMoment
from integration.sparks import Feature, has, needs

pytestmark = pytest.mark.integration


@pytest.fixture
def settings(spark: SparkSession) -> Iterator[SparkSession]:
    """The session. Its time zone is as before after the test."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", str(zone))


def test_how_often_a_batch_read_is_planned(settings: SparkSession, tmp_path: Path) -> None:
    """Spark 4.0 plans a load wherever a query uses it, and so twice in a union with itself. Later
    ones plan it once: docs/how-to/batch-reads.md."""
    settings.dataSource.register(CountedPlans)
    plans = tmp_path / "plans"
    frame = settings.read.format("counted_plans").option("file", str(plans)).load()
    frame.union(frame).collect()
    frame.count()

    assert ("x" if has(Feature.ONE_PLAN_FOR_EACH_LOAD) else "xxx") == plans.read_text()


def test_arrow_batches_have_utc_whatever_the_session_has(settings: SparkSession) -> None:
    """A source's timestamps are in UTC. A reader has no session, so it can't know the session's
    zone. That is why valueTimeZone must be set: docs/how-to/json.md."""
    settings.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")

    assert [(int(MOMENT.timestamp()), None)] == moments(settings, "UTC")


@needs(Feature.CHECKED_BATCHES)
def test_no_other_zone_is_accepted(settings: SparkSession) -> None:
    """Spark compares a batch with the schema in UTC, although the session has another zone."""
    settings.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")

    with pytest.raises(PySparkException):
        moments(settings, "Asia/Tokyo")


def moments(session: SparkSession, zone: str) -> list[tuple[int, str | None]]:
    """Returns the seconds since 1970 of each moment, and the zone that the reader knows."""
    session.dataSource.register(OneMoment)
    frame = session.read.format("one_moment").option("zone", zone).load()
    return [tuple(row) for row in frame.selectExpr("unix_seconds(at)", "known").collect()]


def test_a_table_of_a_python_source_has_no_options(settings: SparkSession) -> None:
    """Spark stores no options of CREATE TABLE, so kfetch refuses it: docs/how-to/batch-reads.md.

    Where Delta has the catalog, Spark does not find a Python source behind a table at all."""
    settings.dataSource.register(OneMoment)
    settings.sql("DROP TABLE IF EXISTS moments")
    try:
        settings.sql("CREATE TABLE moments USING one_moment OPTIONS (zone 'UTC')")

        with pytest.raises(PySparkException, match=r"zone|is not a valid Spark SQL Data Source"):
            settings.table("moments").collect()
    finally:
        settings.sql("DROP TABLE IF EXISTS moments")
