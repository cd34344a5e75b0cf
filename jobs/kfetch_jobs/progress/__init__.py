"""What a run tells the supervisor and the tools: its history, and reports of how it is now.

batch.py           one micro-batch, and the line of JSON that stands for it: pure
spark_progress.py  a micro-batch from Spark's progress report
progress_file.py   the history of one job, ``progress.jsonl``: append, rotate, read
follower.py        new lines in the histories of all jobs
reports.py         the reports, of which only the newest counts: write, read
partition_lags.py  the lag of each partition: pure
broker_report.py   unreachable brokers, and records that wait: pure
exit_report.py     how a run ended: pure
term_file.py       until when the supervisor of a run leads its project
"""
