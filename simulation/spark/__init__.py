"""What Spark does with a Python stream source, as its MicroBatchExecution does it (Spark 4.2).

query.py     the query's loop: offset log, tasks, sink, commit log, restarts
executor.py  worker processes, and attempts at tasks: beside each other, again, twice, forgotten
"""
