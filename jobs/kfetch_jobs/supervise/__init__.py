"""Keeps jobs running as their files say: each a process of its own, through failures and nights.

machine.py     what a job does next: pure, all states and moves
rules.py       a job's file as the machine sees it; cron times: pure
store.py       states, runs and orders, in SQLite
processes.py   a run's process and its whole session
supervisor.py  the loop around them
control.py     what commands ask of a supervisor, and how they end it
view.py        how jobs are: for status, and for whatever shows them
"""
