"""Typed values: from the bytes of a record's value to a struct column, as Spark's functions do.

``ddl`` and ``types`` read the schema. ``json_decoder`` decodes. Its compiled loops (``json_loops``)
accept only documents whose meaning is certain. ``exact`` decides about all others, on the tokens
of ``tokens``. ``fetch.typed_values`` applies it to the batches of a reader.

For Avro, ``avro_schema`` reads the schemas, ``avro_aliases`` applies the reader's aliases, and
``avro_types`` chooses the column's type. ``avro_program`` resolves writer to reader into
instructions. ``avro_decoder`` runs them with the compiled loop of ``avro_loops``.
"""
