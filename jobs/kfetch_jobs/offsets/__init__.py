"""Moving a job's offsets: ``kfetch offsets reset``, ``replay`` and ``undo``.

    target.py      where to: earliest, a time, a file, … (pure)
    moves.py       from where, to where, what of it comes again or is skipped (pure)
    plan.py        a plan of it all, from the checkpoint and what Kafka says
    log.py         the micro-batch in the checkpoint by which a job is moved
    table.py       the rows of a Delta table that are to come again
    neighbours.py  other jobs that write the same tables
    act.py         doing it
    back.py        undoing it

The checkpoint is copied first (``kfetch_jobs.checkpoints.backup``). A move is a micro-batch of its
own, without rows, behind the last one in the checkpoint. Batch numbers only ever grow, also when a
move is undone: Delta passes over a batch whose number it has seen of the query,
and would do so without a word.
"""
