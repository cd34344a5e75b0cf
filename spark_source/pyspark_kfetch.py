"""Registers ``format("kfetch")``: Spark loads every module named pyspark_* and its DefaultSource.

A module here that fails to import would disable every automatic registration, so this one is three
lines and imports nothing heavy.
"""

from kfetch.spark.source import KfetchDataSource as DefaultSource

__all__ = ["DefaultSource"]
