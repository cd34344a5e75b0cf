"""Offset ranges for the tests of the planner."""

from __future__ import annotations

from uuid import UUID

from hypothesis import strategies as st

from kfetch.model import Broker, OffsetRange, TopicPartition


def offset_range(topic: str, partition: int, start: int, size: int, node: int = 1) -> OffsetRange:
    """A range of ``size`` offsets, led by the broker of this number."""
    return OffsetRange(
        tp=TopicPartition(topic, partition),
        topic_id=UUID(int=1),
        start=start,
        end=start + size,
        leader_epoch=0,
        leader=Broker(node_id=node, host="h", port=1),
    )


ranges = st.lists(
    st.builds(
        offset_range,
        st.sampled_from("tu"),
        st.integers(0, 50),
        st.integers(0, 2**40),
        st.integers(-3, 40) | st.integers(0, 10**6),
        st.integers(1, 4),
    ),
    unique_by=lambda item: item.tp,
)
"""What a micro-batch reads: every partition once, some of them empty."""
