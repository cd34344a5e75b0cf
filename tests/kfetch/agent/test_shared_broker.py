"""What a SharedBroker counts as the time in which its broker is asked."""

from __future__ import annotations

import time
from contextlib import closing

from kafka.protocol.consumer import FetchRequest

from kfetch.agent.budget import Budget
from kfetch.agent.inbox import Inbox
from kfetch.agent.shared_broker import SharedBroker
from kfetch.fetch.progress import RangeProgress
from kfetch.fetch.replicas import ReadReplicas
from kfetch.fetch.totals import Totals
from tests.kfetch.agent.helpers import T0, options, part
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch.wire.scripted import Close


def test_a_wait_for_memory_is_not_asked_for(kafka: LittleKafka) -> None:
    """A range that waits for memory, and then loses its broker, keeps its time for the next one.

    Otherwise its deadline would be over although no broker was asked.
    """
    budget, totals = Budget(64 << 20), Totals()
    broker = SharedBroker(
        kafka.nodes[1].broker, options(kafka), budget, totals, ReadReplicas(), bytearray_view
    )
    progress = RangeProgress.of(part(kafka, T0))
    kafka.nodes[1].always(FetchRequest, Close())
    began = time.monotonic()
    with (
        closing(broker),
        closing(Inbox(lambda _: broker, budget, lambda: False)) as inbox,
    ):
        inbox.add([progress])
        others = budget.reserve(budget.limit, 0)
        assert others is not None
        broker.step(time.monotonic() + 60)
        assert not broker.in_flight
        others.release()
        while broker.active:
            broker.step(time.monotonic() + 60)

        waited_s = totals.stats().starved_s
        assert waited_s > 0
        assert progress.asked_s <= time.monotonic() - began - waited_s


def bytearray_view(size: int) -> memoryview:
    """Memory for a reply."""
    return memoryview(bytearray(size))
