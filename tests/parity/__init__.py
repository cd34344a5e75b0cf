"""Which cases of the connector's test suite kfetch's tests prove.

``python -m tests.parity`` writes docs/reference/parity.md.
"""
