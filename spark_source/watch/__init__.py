"""The driver's view of the log: which partitions there are, where they end, what was lost.

``log`` asks the brokers, ``driver`` turns the answers into offsets and splits.
"""
