"""What the jobs make of their records."""

from pyspark.sql import DataFrame


def clicks(source: DataFrame) -> DataFrame:
    """The fields of the event; partition and offset stay, so that anyone can count."""
    return source.select("value.*", "timestamp", "partition", "offset")
