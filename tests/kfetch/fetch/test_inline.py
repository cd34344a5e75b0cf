"""A Python worker that reads without an agent: its threads, its requests and its memory."""

from __future__ import annotations

import os
import threading
import tracemalloc

import pytest
from kafka.protocol.consumer import FetchRequest

from kfetch.agent import inline
from kfetch.agent.inline import InlineQuery
from kfetch.model import Split
from tests.kfetch.agent.helpers import wait_until
from tests.kfetch.fetch.helpers import T0, T1, part, query
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch.wire.scripted import Silence

MEBIBYTE = 1 << 20


def test_a_large_reply_leaves_no_memory_behind(kafka: LittleKafka) -> None:
    """A worker returns the memory of large replies after the read. It keeps that of small ones."""
    log = kafka.log(T0)
    for size in (6, 9, 0):
        log.append(b"x" * (size * MEBIBYTE))
    inline_query = query(kafka, kafka__max__partition__fetch__bytes="1")
    tracemalloc.start()
    try:
        read(inline_query, kafka, 6, 8)
        after_large = reply_memory()
        read(inline_query, kafka, 8, 9)
        after_small = reply_memory()
    finally:
        tracemalloc.stop()

    assert MEBIBYTE > after_large
    assert 0 < after_small <= after_large


def test_the_task_itself_fetches(kafka: LittleKafka) -> None:
    """A read starts no thread. The next request leaves before Spark gets the first batch."""
    threads = set(threading.enumerate())
    batches = query(kafka).read([part(kafka, T0, 0, 6)])
    next(batches)

    assert not [
        thread for thread in set(threading.enumerate()) - threads if thread.name.startswith("q ")
    ]
    assert wait_until(lambda: len(kafka.asked(FetchRequest)) == 2)
    assert 4 == sum(batch.num_rows for batch in batches)


def test_a_task_waits_only_for_its_own_brokers(kafka: LittleKafka) -> None:
    """A task that ends early leaves a request at a broker that hangs. The next one reads on."""
    kafka.nodes[2].answer(FetchRequest, Silence())
    inline_query = query(kafka, kafkaConsumer__pollTimeoutMs="1000")
    batches = inline_query.read([part(kafka, T1, 0, 4), part(kafka, T0, 0, 6)])
    next(batches)
    batches.close()

    assert 4 == sum(b.num_rows for b in inline_query.read([part(kafka, T0, 2, 6)]))


def test_nothing_is_cached(kafka: LittleKafka) -> None:
    """A worker keeps no records beyond the end of a range, because no limit would drop them."""
    inline_query = query(kafka, kafka__max__partition__fetch__bytes="1000000")
    read(inline_query, kafka, 0, 2)

    assert 0 == inline_query._budget.used


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_leaves_the_sessions_alone(kafka: LittleKafka) -> None:
    """A child that ends does not close its parent's sessions, whose sockets it has inherited."""
    options = query(kafka).options
    try:
        first = Split(query="q", ranges=(part(kafka, T0, 0, 2),))
        assert 2 == sum(batch.num_rows for batch in inline.read(first, options))
        before = kafka.sessions()
        child = os.fork()
        if child == 0:
            inline.close_all()
            os._exit(0)
        assert (child, 0) == os.waitpid(child, 0)
        second = Split(query="q", ranges=(part(kafka, T0, 2, 4),))
        assert 2 == sum(batch.num_rows for batch in inline.read(second, options))
        assert before == kafka.sessions()
        assert [0] == [r.session_epoch for r in kafka.asked(FetchRequest) if r.session_epoch <= 0]
    finally:
        inline.close_all()


def read(inline_query: InlineQuery, kafka: LittleKafka, start: int, end: int) -> None:
    """Read a range of records."""
    assert end - start == sum(
        batch.num_rows for batch in inline_query.read([part(kafka, T0, start, end)])
    )


def reply_memory() -> int:
    """The bytes that buffers of replies take now."""
    snapshot = tracemalloc.take_snapshot()
    of_buffers = snapshot.filter_traces([tracemalloc.Filter(True, "*/wire/frames.py")])
    return sum(trace.size for trace in of_buffers.traces)
