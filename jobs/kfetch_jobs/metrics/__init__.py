"""Prometheus metrics of a project's jobs.

table.py      each metric: name, type, labels, meaning; the samples of one collection
growth.py     how much totals grow, over parts that restart at zero: pure
batches.py    micro-batches, from the jobs' progress files
runs.py       runs, from the supervisor's database
fetches.py    requests, bytes and times of fetching, from agents and from files of statistics
collect.py    collects all of them

Counters start at zero with the supervisor, and when its host begins to lead. Earlier events would
look like a burst.
"""
