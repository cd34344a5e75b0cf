"""Sizes that the fetch engine and the agent's memory budget share."""

BATCH_BYTES = 4 << 20
"""Raw bytes that become one Arrow batch. Measured with the drain benchmark; see docs/decisions."""

PART_BYTES = 4 * BATCH_BYTES
"""Bytes of unpacked records and rows in one Arrow batch. Text shrinks to about a quarter."""
