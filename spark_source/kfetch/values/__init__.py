"""Typed values: from the bytes of a record's value to a struct column, as Spark's ``from_json``.

``ddl`` and ``types`` read the schema. ``json_decoder`` decodes. Its compiled loops (``json_loops``)
accept only documents whose meaning is certain. ``exact`` decides about all others, on the tokens
of ``tokens``. No part of this package is wired into the source yet.
"""
