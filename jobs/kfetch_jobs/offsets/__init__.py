"""Where a job stands in Kafka, and moves of its offsets: ``reset``, ``replay`` and ``undo``.

    job_report.py      a job's checkpoint beside its sources in Kafka: read-only
    target.py          where to: earliest, a time, a file, … (pure)
    moves.py           the move of one partition, and its effect (pure)
    plan.py            the plan of a move, from the checkpoint and Kafka's answers
    execution.py       carries a plan out
    undo.py            undoes a move that the job has not run since
    checkpoint_log.py  the micro-batch in the checkpoint that moves a job
    table_rows.py      deletes and restores rows of Delta tables
    shared_tables.py   which topics and jobs may have rows in the same tables

kfetch copies the checkpoint first (``kfetch_jobs.checkpoints.backup``). A move is a micro-batch of
its own, without rows, behind the last one in the checkpoint. A number that a table has recorded is
never used again: Delta silently skips a batch if it has recorded the same or a higher number of the
query. So batch numbers grow, also when a job goes back. An undo removes the move's micro-batch,
whose number no table has recorded.
"""
