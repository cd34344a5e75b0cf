"""Protobuf to struct columns, as Spark's ``from_protobuf`` does.

``descriptors``, with ``fields``, reads the types of a file into ``types``, and ``registry_files``
finds the files of registries. ``schema`` chooses the struct of a message. ``plan`` makes the tables
for the compiled ``loops``, which read by ``wire_loops`` and write by ``row_loops`` and
``text_loops``. ``field_table`` has the numbers that they share. ``decoder`` runs the loops, and
``framed`` decodes Confluent's wire format.
"""
