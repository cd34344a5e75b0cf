"""The executor's entry point: reads a split as Arrow batches.

Spark imports this module in every Python worker, so the import loads neither sockets nor numba.
The first read loads them. With ``kfetch.agent=process`` only the agent loads numba.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from kfetch.model import Split
    from kfetch.options import SourceOptions


def read(split: Split, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """Returns the records of a split as Arrow batches of Spark's Kafka schema.

    Raises errors below KfetchError. Spark then retries the task.
    """
    options = with_executors_rack(options)
    if options.agent.place == "process":
        from kfetch.agent import client

        return client.read(split, options)
    from kfetch.agent import inline

    return inline.read(split, options)


def read_once(split: Split, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """Yields the records of a batch read's split, as ``read`` returns them.

    No later micro-batch needs the sessions, so this worker closes its own ones afterwards. An agent
    closes them after its lease. A loss gets the advice for batches.
    """
    from kfetch import losses
    from kfetch.errors import DataLoss

    try:
        if options.agent.place == "process":
            yield from read(split, options)
        else:
            from kfetch.agent import inline

            yield from inline.read_once(split, with_executors_rack(options))
    except DataLoss as loss:
        raise losses.of_batch(loss) from None


def with_executors_rack(options: SourceOptions) -> SourceOptions:
    """Returns the options with the rack of this executor, if its environment names one.

    KFETCH_CLIENT_RACK overrides ``kafka.client.rack``, because executors may run in several racks.
    """
    rack = os.environ.get("KFETCH_CLIENT_RACK", "").strip()
    return replace(options, fetch=replace(options.fetch, rack=rack)) if rack else options
