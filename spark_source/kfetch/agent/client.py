"""The worker's side of the agent: ask for ranges, map memory, yield batches.

Light on purpose: no numba and no broker socket in a worker. An agent that dies is replaced, and
reading goes on behind the last batch that was yielded, so nothing comes twice.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from kfetch.agent import home as homes
from kfetch.agent.channel import (
    Batch,
    Channel,
    Done,
    Failed,
    Gone,
    Hung,
    Read,
    Release,
    Waiting,
)
from kfetch.agent.launch import connect
from kfetch.agent.segments import batch_in, mapped
from kfetch.errors import AgentError
from kfetch.model import OffsetRange, Split
from kfetch.options import SourceOptions

log = logging.getLogger(__name__)

_DEATHS_MAX = 3  # running, without a batch between them: then it is no accident
_SPARE_S = 30.0


def read(split: Split, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """The records of a split, fetched and decoded by the executor's agent."""
    left = list(split.ranges)
    deaths = 0
    while True:
        try:
            for batch in _stream(split.query, left, options):
                deaths = 0
                yield batch
            return
        except (Gone, Hung) as cause:
            deaths += 1
            log.warning("the agent is lost (%s); starting another", cause.message)
            if deaths >= _DEATHS_MAX:
                raise AgentError(
                    f"the agent was lost {deaths} times without delivering anything: "
                    f"{cause.message}; see the logs in {homes.user_directory()}"
                ) from None


def _stream(
    query: str, left: list[OffsetRange], options: SourceOptions
) -> Iterator[pa.RecordBatch]:
    """One agent's batches; ``left`` is kept at what has not been yielded."""
    owner = homes.find_owner()
    channel = connect(
        homes.home_of(owner),
        owner,
        memory=options.agent_memory_bytes,
        timeout_s=options.poll_timeout_s + _SPARE_S,
    )
    try:
        channel.send(Read(query=query, options=options, ranges=tuple(left), stream=_stream_id()))
        yield from _batches(channel, left)
    finally:
        channel.close()


def _stream_id() -> str:
    """The id of the streaming query that this task belongs to (StreamExecution.QUERY_ID_KEY)."""
    from pyspark import TaskContext

    task = TaskContext.get()
    return (task.getLocalProperty("sql.streaming.queryId") or "") if task else ""


def _batches(channel: Channel, left: list[OffsetRange]) -> Iterator[pa.RecordBatch]:
    segments: dict[int, pa.Buffer] = {}
    while True:
        message, descriptors = channel.receive()
        if isinstance(message, Done):
            return
        if isinstance(message, Failed):
            raise message.error
        if isinstance(message, Waiting):
            continue
        if not isinstance(message, Batch):
            raise AgentError(f"the agent sent {type(message).__name__}")
        if descriptors:
            segments[message.segment] = mapped(descriptors[0])
        batch = batch_in(segments[message.segment], message.size)
        for index, offset in message.positions:
            left[index] = replace(left[index], start=max(left[index].start, offset))
        yield batch
        # Spark has serialised the batch before it asked for the next one.
        channel.send(Release(segment=message.segment))
