"""A project's jobs in figures, for Prometheus.

table.py      every metric: name, type, labels, meaning; the samples of one look
growth.py     sums that only grow, of parts that begin anew: pure
batches.py    micro-batches, followed in the jobs' progress files
runs.py       runs, followed in the supervisor's database
fetches.py    what reading Kafka cost, from the agents and from files of statistics
collect.py    one look at all of it

Counters begin with the supervisor: what was before would look like a burst at each of its starts.
"""
