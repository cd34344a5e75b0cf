"""Where a job stands in Kafka, and moves of its offsets: ``reset``, ``replay`` and ``undo``.

    job_report.py      a job's checkpoint beside its sources in Kafka: read-only
    target.py          the position that a move goes to: earliest, a time, a file, … (pure)
    moves.py           the move of one partition, and its effect (pure)
    plan.py            the plan of a move, from the checkpoint and Kafka's answers
    execution.py       carries a plan out
    undo.py            undoes a move, if the job has not run after it
    checkpoint_log.py  writes the micro-batch that moves a job into its checkpoint
    table_rows.py      deletes and restores rows of Delta tables
    shared_tables.py   which topics and jobs may have rows in the same tables

Before a move, kfetch copies the checkpoint (``kfetch_jobs.checkpoints.backup``). A move appends a
micro-batch without rows to it. Delta silently skips a micro-batch if its table has recorded this
number or a higher one of the query. So the numbers grow, even if a move lowers the offsets. An undo
removes the move's micro-batch. That is safe, because no table has recorded its number.
"""
