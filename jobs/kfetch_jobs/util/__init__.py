"""Helpers of several folders: files, processes, redacted output, cached values, words.

files.py         locks, private files, and files that appear whole
process.py       starts a process and signals it, and never another one
redact.py        output of processes without secrets
mounts.py        the kind of file system of a path
disk_space.py    the free space of a file system, and when it is short: pure
rotating_log.py  logs with a limit, which rotate while their writer lives
cached_value.py  a slow value, computed once for many callers
wording.py       counts and times in words for people: pure
"""
