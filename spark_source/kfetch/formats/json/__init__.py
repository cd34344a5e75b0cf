"""JSON to struct columns, as Spark's ``from_json`` does.

``decoder`` runs the compiled ``loops``: with ``text_loops``, ``number_loops``, ``scalar_loops``,
``time_loops``, ``skip_loops`` and ``loop_tables``. They leave a doubtful document to ``reference``,
which is slow. It reads ``tokens``, above ``characters``, into ``scalars`` and ``times``, and
``substitutes`` gives its rows to the loops. ``time_zones`` finds zones. ``framed`` decodes
Confluent's wire format.
``infer`` and ``fit`` compare a sample of documents with a schema.
"""
