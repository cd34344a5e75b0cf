"""Sizes that the fetch engine and the agent's memory budget share."""

BATCH_BYTES = 4 << 20
"""Raw bytes that become one Arrow batch. Measured with the drain benchmark; see docs/decisions."""
