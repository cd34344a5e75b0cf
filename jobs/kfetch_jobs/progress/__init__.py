"""What jobs write about their micro-batches in ``progress.jsonl``.

batch.py           one micro-batch, and the line of JSON that stands for it: pure
spark_progress.py  a micro-batch from Spark's progress report
progress_file.py   the file of one job: append, rotate, read
follower.py        new lines in the files of all jobs
"""
