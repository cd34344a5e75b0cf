"""The verbs of the command line. Each parses its arguments, calls one package, prints the result.

A verb imports that package when it is used, to keep ``kfetch --help`` quick. ``root.py`` mounts all
verbs. A file has the name of its verb, or of what its verbs do: ``supervising.py`` has ``up`` and
``down``, ``status.py`` also ``list``, ``history`` and ``logs``, and ``moves.py`` the moves of
offsets.
"""
