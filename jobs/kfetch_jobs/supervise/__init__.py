"""Keeps jobs running as their files say. Each job runs in a process of its own.

state_machine.py    what a job does next: all moves; pure
job_state.py        the state of a job: its phases and orders
job_files.py        the job of an order, and of an adopted run
store.py            states, runs and orders, in SQLite
database.py         opens the database: tables, journal
job_lag.py          how far a running job is behind
wall_clock.py       by how much somebody has set the clock
processes.py        the processes of a run
run_process.py      the process of a recorded run, and its command
run_killer.py       kills what lives of ended runs
supervised_job.py   one job of the supervisor
supervisor.py       the loop around them
heartbeat.py        when the loop last completed a round
supervisor_lock.py  one supervisor per storage
terms.py            one supervisor of several hosts: leading and waiting
leadership.py       the files that these share, and the lead
shared_state.py     the contents of these files: pure
shared_orders.py    orders for a leader on another host
supervisor_log.py   the supervisor's log
background.py       ``kfetch up --detach``
control.py          orders of commands and of the page; ending a supervisor
order_reply.py      the supervisor's reply to an order
status.py           the status of the jobs, as values: pure
status_reader.py    reads the status
lease_looks.py      who holds the lease of each checkpoint
log_tail.py         the last lines of a log, and new ones
"""
