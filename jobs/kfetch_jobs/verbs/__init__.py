"""The verbs of the command line: from words to calls, from outcomes to lines.

What a verb drives stands elsewhere, and is imported when the verb is used. ``root.py`` mounts them.
"""
