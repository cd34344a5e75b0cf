"""The fetch engine: reads ranges of offsets through fetch sessions.

- ``fetcher`` talks to one broker: one connection, one session, one request in flight.
- ``broker_reader`` reads ranges through a fetcher, and ``progress`` holds the position of a range.
- ``arrivals`` says what may arrive for a range.
- ``recovery`` answers the errors of a partition.
- ``replicas`` chooses leader or follower for each range.
- ``part_decoder`` decodes records, and ``split_reader`` joins all this into Arrow batches.
- ``stats`` declares what is counted, and ``totals`` adds it up and writes the sums to files.
"""
