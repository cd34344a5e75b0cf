"""JSON to struct columns, as Spark's ``from_json`` does.

``decoder`` runs the compiled ``loops``: with ``characters``, ``text_loops``, ``scalar_loops``,
``time_loops``, ``skip_loops`` and the table of ``powers``. They leave a doubtful document to
``reference``, which is slow. It reads ``tokens`` into ``scalars`` and ``times``, and
``substitutes`` gives its rows to the loops. ``time_zones`` finds zones. ``framed`` decodes
Confluent's wire format.
``infer`` and ``fit`` compare a sample of documents with a schema.
"""
