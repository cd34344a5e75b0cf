"""Helpers of several folders: locks and whole files, redacted output, cached values, plurals.

files.py         locks, private files, and files that appear whole
redact.py        output of processes without secrets
cached_value.py  a slow value, computed once for many callers
plural.py        a count with its noun
"""
