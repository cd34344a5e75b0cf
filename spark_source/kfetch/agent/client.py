"""The worker's side of the agent: requests ranges, maps shared memory, yields batches.

A worker loads no numba and opens no broker socket. If an agent dies, the worker starts another one
and reads on behind the last batch that it yielded. So no record comes twice.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from kfetch.agent.channel import (
    NO_ROOM_ACTION,
    Channel,
    ChannelClosed,
    ChannelTimeout,
    KeepAlive,
    ReadDone,
    ReadFailed,
    ReadRequest,
    SegmentFilled,
    SegmentReleased,
)
from kfetch.agent.home import files_of, find_owner, user_directory
from kfetch.agent.launch import connect
from kfetch.agent.segments import map_segment, read_batch
from kfetch.errors import AgentError
from kfetch.model import OffsetRange, Split
from kfetch.options import SourceOptions
from kfetch.options.oauth import OauthLogin, TokenProvider

log = logging.getLogger(__name__)

_LOST_AGENTS_MAX = 3  # in a row, without a batch between them
# The agent may need the poll timeout and these seconds for an answer. Then it counts as hung.
_ANSWER_GRACE_S = 30.0
_SESSION_VARIABLE, _NO_SESSION = "SPARK_JOB_ARTIFACT_UUID", "default"
"""Set in each Python worker. Workers of two sessions with files of their own have two values, and
two working directories (Spark's BasePythonRunner and PythonWorkerFactory)."""


def read(split: Split, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """Yields the records of a split, which the executor's agent fetches and decodes."""
    remaining = list(split.ranges)
    lost_agents = 0
    while True:
        try:
            for batch in _read_from_agent(split.query, remaining, options):
                lost_agents = 0
                yield batch
            return
        except OSError as cause:
            raise AgentError(
                f"the worker has no room to use its agent ({cause})", action=NO_ROOM_ACTION
            ) from None
        except (ChannelClosed, ChannelTimeout) as cause:
            lost_agents += 1
            log.warning("the agent is lost (%s); the worker starts another one", cause.message)
            if lost_agents >= _LOST_AGENTS_MAX:
                raise AgentError(
                    f"the worker lost {lost_agents} agents in a row without a batch: "
                    f"{cause.message}; see the logs in {user_directory()}"
                ) from None


def _read_from_agent(
    query: str, remaining: list[OffsetRange], options: SourceOptions
) -> Iterator[pa.RecordBatch]:
    """Yields one agent's batches, and cuts from ``remaining`` the ranges that it has yielded."""
    owner = find_owner()
    channel = connect(
        files_of(owner, _session_of(options)),
        owner,
        memory=options.agent.memory_bytes,
        timeout_s=options.poll_timeout_s + _ANSWER_GRACE_S,
    )
    try:
        stream = _stream_id()
        request = ReadRequest(query=query, options=options, ranges=tuple(remaining), stream=stream)
        channel.send(request)
        yield from received_batches(channel, remaining)
    finally:
        channel.close()


def _session_of(options: SourceOptions) -> str:
    """Returns the id of Spark's session if its agent must serve no other session; else "".

    Each session has modules and a directory of its own. An agent imports a user's module for
    tokens, and relative paths start from the agent's working directory.
    """
    security = options.network.security
    login = security.sasl.login if security.sasl else None
    imports = isinstance(login, OauthLogin) and isinstance(login.source, TokenProvider)
    session = os.environ.get(_SESSION_VARIABLE, _NO_SESSION)
    is_shared = session == _NO_SESSION or (not imports and all(map(os.path.isabs, options.files)))
    return "" if is_shared else session


def _stream_id() -> str:
    """Returns the id of this task's streaming query (StreamExecution.QUERY_ID_KEY), or ""."""
    from pyspark import TaskContext

    task = TaskContext.get()
    return (task.getLocalProperty("sql.streaming.queryId") or "") if task else ""


def received_batches(channel: Channel, remaining: list[OffsetRange]) -> Iterator[pa.RecordBatch]:
    """Yields the batches that an agent sends, and cuts from ``remaining`` what they hold.

    Raises ChannelClosed and ChannelTimeout if the agent is lost, AgentError, and the read's error.
    """
    segments: dict[int, pa.Buffer] = {}
    while True:
        message, descriptors = channel.receive()
        if isinstance(message, ReadDone):
            return
        if isinstance(message, ReadFailed):
            raise message.error
        if isinstance(message, KeepAlive):
            continue
        if not isinstance(message, SegmentFilled):
            raise AgentError(f"the agent sent {type(message).__name__}")
        for number in message.retired:
            del segments[number]
        if descriptors:
            segments[message.segment] = map_segment(descriptors[0])
        batch = read_batch(segments[message.segment], message.size)
        for index, offset in message.positions:
            item = remaining[index]
            remaining[index] = replace(item, start=max(item.start, offset))
        yield batch
        del batch  # the next message may retire its segment
        # Spark had serialised the batch before it asked for the next one.
        channel.send(SegmentReleased(segment=message.segment))
