"""``kfetch demo``: click events, a job that is killed midway, and a count of every single one.

    story.py      what happens, in order
    settings.py   what can be chosen
    events.py     click events as Kafka's record batches                    (pure)
    topic.py      the topic they go to
    producer.py   a steady stream of them
    worker.py     the job's process: started, killed, started again
    count.py      what is in the Delta table
    summary.py    produced against counted: lost, duplicated, rates          (pure)
    curve.py      produced, landed and lag over time                         (pure)
    chart.py      the curves as a picture     screen.py   the terminal

Nothing of it is in the way of a real job: the job is ``conf/jobs/clicks.yml``, run by
``kfetch run`` as any other.
"""
