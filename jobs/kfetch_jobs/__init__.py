"""kfetch_jobs: streaming jobs from Kafka to Delta Lake, described in files and kept running.

``config`` reads the files, ``run`` runs one job, ``supervise`` keeps all of them running, ``web``
shows them, and ``verbs`` is their part of the command line ``kfetch``.
"""

__version__ = "0.2.0"
