"""What the jobs that keep state make of their streams. They have no dead letters, so they parse
values themselves and leave out what is no JSON, which job clicks keeps.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

CLICK = "id BIGINT, user STRING, page STRING, at TIMESTAMP"
ORDER = "id BIGINT, user STRING, amount DECIMAL(10, 2), at TIMESTAMP"


def visits(source: DataFrame) -> DataFrame:
    """Clicks per page and minute; a click that is more than two minutes late counts no more."""
    clicks = _parsed(source, CLICK).withWatermark("at", "2 minutes")
    counted = clicks.groupBy(f.window("at", "1 minute"), "page").count()
    return counted.select(f.col("window.start").alias("minute"), "page", "count")


def sales(sources: dict[str, DataFrame]) -> DataFrame:
    """Orders with clicks; by the watermarks Spark knows when it may forget one."""
    orders = _parsed(sources["orders"], ORDER).withWatermark("at", "2 minutes").alias("o")
    clicks = _parsed(sources["clicks"], CLICK).withWatermark("at", "2 minutes").alias("c")
    within = "o.user = c.user AND o.at BETWEEN c.at AND c.at + INTERVAL 10 MINUTES"
    joined = orders.join(clicks, f.expr(within))
    return joined.select("o.id", "o.user", "o.amount", "o.at", "c.page", f.expr("c.at AS clicked"))


def _parsed(source: DataFrame, fields: str) -> DataFrame:
    value = f.from_json(f.col("value").cast("string"), fields, {"mode": "PERMISSIVE"})
    return source.select(value.alias("event")).where("event.id IS NOT NULL").select("event.*")
