"""The driver's view of the log: which partitions there are, where they end, what was lost.

``state`` is what is known, pure; ``poller`` asks one broker through one incremental session, at the
``pace`` that keeps it noise; ``watch`` has the threads. ``log`` asks what a session can't tell,
``loss`` judges positions, ``snapshot`` keeps AvailableNow's promise, and ``driver`` turns it all
into offsets and splits.
"""
