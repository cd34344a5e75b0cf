"""Facts about Spark on which defaults and pages rest. If one changes, mend what rests on it.

``make sparks`` runs these tests with each supported version.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from integration.spark.toy import MOMENT, OneMoment, TenRows
from integration.spark_versions.versions import installed

pytestmark = pytest.mark.integration

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture
def settings(spark: SparkSession) -> Iterator[SparkSession]:
    """The session. Its time zone and its pushdown of filters are as before after the test."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", str(zone))
    spark.conf.unset(PUSHDOWN)


@pytest.mark.skipif(installed() < (4, 1), reason="Spark 4.0 passes no filters to Python sources")
def test_a_filter_narrows_later_queries_of_the_same_load(settings: SparkSession) -> None:
    """Spark keeps a filtered read for the whole load(), and a later query lacks rows (SPARK-58551).
    So kfetch.pushFilters is off by default: decision 94, docs/how-to/batch-reads.md."""
    settings.conf.set(PUSHDOWN, "true")
    settings.dataSource.register(TenRows)
    frame = settings.read.format("ten_rows").load()

    first = frame.count()
    filtered = frame.where("a >= 7").count()
    later = frame.count()
    both = frame.where("a < 3 or a >= 7").count()

    assert (10, 3) == (first, filtered)
    assert (5, 3) == (later, both)  # 10 and 6 would be right


def test_arrow_batches_have_utc_whatever_the_session_has(settings: SparkSession) -> None:
    """A source's timestamps are in UTC, and no other zone is accepted. A reader has no session, so
    it can't know the session's zone. That is why valueTimeZone must be set: docs/how-to/json.md."""
    settings.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    settings.dataSource.register(OneMoment)

    def load(zone: str) -> list[tuple[int, str | None]]:
        frame = settings.read.format("one_moment").option("zone", zone).load()
        return [tuple(row) for row in frame.selectExpr("unix_seconds(at)", "known").collect()]

    assert [(int(MOMENT.timestamp()), None)] == load("UTC")
    with pytest.raises(PySparkException):
        load("Asia/Tokyo")


def test_a_table_of_a_python_source_has_no_options(settings: SparkSession) -> None:
    """Spark stores no options of CREATE TABLE, so kfetch refuses it: docs/how-to/batch-reads.md."""
    settings.dataSource.register(OneMoment)
    settings.sql("DROP TABLE IF EXISTS moments")
    try:
        settings.sql("CREATE TABLE moments USING one_moment OPTIONS (zone 'UTC')")

        with pytest.raises(PySparkException, match="zone"):
            settings.table("moments").collect()
    finally:
        settings.sql("DROP TABLE IF EXISTS moments")
