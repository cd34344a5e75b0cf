"""Typed values: from the bytes of a key or value to a struct column, as Spark's functions do.

``columns`` has the types, their DDL and the struct column. ``json``, ``avro`` and ``protobuf`` are
one format each: ``options`` says which options it reads, ``loops`` is the compiled code, and
``decoder`` runs it. A line in ``format`` registers a format. ``registry`` asks schema registries,
and reads the headers of Confluent's wire format.

The loops of JSON accept only documents whose meaning is certain. ``json.reference`` decides about
all others, on the tokens of ``json.tokens``. For Avro, ``avro.program`` resolves writer to reader
into instructions, which the loops execute.

``face`` is what other packages see, and reads files of types. ``options`` reads the options of all
formats, and ``reader_schemas`` asks the registry for the reader's schema. ``loading`` loads the
compiled loops. ``typed_values`` decodes the keys and values of a batch. ``dead_letters`` has
the records that can't be decoded, and ``places`` finds their offsets. ``drift`` looks for fields
that the schema lacks.
"""
