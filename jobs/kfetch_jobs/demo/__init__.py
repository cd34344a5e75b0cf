"""``kfetch demo``: a job is killed midway, and the demo counts every click event.

    settings.py   what the caller can choose; which project file holds the job
    checks.py     what the machine lacks, before the demo starts anything
    scenario.py   what the demo does, in order
    events.py     click events as Kafka's record batches                    (pure)
    producer.py   the topic, and a thread that produces events at a steady rate
    worker.py     a process of the job or of a supervisor: start, kill, stop
    summary.py    produced events against counted rows: lost, duplicated, rates   (pure)
    terminal_plot.py   produced rows, landed rows and lag over time, as text (pure)
    screen.py     the terminal                page.py            the supervisor's page, on request
    project/      the demo's own job, as a project of kfetch

The demo runs its job with ``kfetch run``, as a user runs any other job.
"""
