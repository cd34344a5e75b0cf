"""The verbs of the command line. Each parses its arguments, calls one package, prints the result.

A verb imports that package when it is used, to keep ``kfetch --help`` quick. ``root.py`` mounts all
verbs.
"""
