"""Avro to struct columns, as Spark's ``from_avro`` does.

``schema`` reads an .avsc file, and ``types`` chooses the types of columns: a string for an enum.
``program`` compiles a writer's and a reader's schema to instructions: ``matching``, ``aliases`` and
``defaults`` say how the two fit. ``loops`` executes the ``instructions`` on a record, with
``value_loops``. ``decoder`` calls it, and ``framed`` chooses the writer of each value.
"""
