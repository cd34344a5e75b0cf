"""The executor's half, as light as it can be: from a split to Arrow batches.

Spark imports this in every Python worker, so importing it loads neither sockets nor numba; the
first read does, and with ``kfetch.agent=process`` only the agent does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from kfetch.model import Split
    from kfetch.options import SourceOptions


def read(split: Split, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """The records of a split as Arrow batches of Spark's Kafka schema.

    Raises errors below KfetchError; Spark then retries the task.
    """
    if options.agent == "process":
        from kfetch.agent import client

        return client.read(split, options)
    from kfetch.fetch import inline

    return inline.read(split, options)
