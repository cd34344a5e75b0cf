"""kfetch: a Spark Structured Streaming source for Apache Kafka.

``spark.readStream.format("kfetch")`` finds the source by itself (``pyspark_kfetch``). Importing
this package loads no socket, no numba and no Spark; ``LagListener`` is imported when it is first
asked for (PEP 562). Open ``spark.source`` for the driver's half, ``spark.worker`` for the
executor's half. Decision makers without I/O lie here: ``planner``, ``offsets``, ``losses``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kfetch._version import __version__

if TYPE_CHECKING:
    from kfetch import errors
    from kfetch.spark.listener import LagListener

__all__ = ["LagListener", "__version__", "errors"]


def __getattr__(name: str) -> Any:
    if name == "LagListener":  # needs pyspark
        try:
            return import_module("kfetch.spark.listener").LagListener
        except ModuleNotFoundError as cause:
            raise ImportError(f"kfetch.LagListener needs PySpark: {cause}") from cause
    if name == "errors":
        return import_module("kfetch.errors")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
