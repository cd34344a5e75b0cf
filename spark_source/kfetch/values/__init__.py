"""Typed values: from the bytes of a record's value to a struct column, as Spark's ``from_json``
and ``from_protobuf``.

``ddl`` and ``types`` read the schema. ``json_decoder`` decodes. Its compiled loops (``json_loops``)
accept only documents whose meaning is certain. ``exact`` decides about all others, on the tokens
of ``tokens``. ``protobuf_decoder`` decodes Protobuf, with a table of fields (``protobuf_plan``).
``fetch.typed_values`` applies them to the batches of a reader.
"""
