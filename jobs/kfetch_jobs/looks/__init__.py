"""Read-only checks of jobs, their checkpoints, clusters and this machine.

job.py     a job: its checkpoint, and its sources in Kafka
doctor.py  what a job needs: this machine, the project's storage, its clusters
"""
