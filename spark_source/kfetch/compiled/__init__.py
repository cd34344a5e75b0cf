"""The fast record decoder: loops that numba compiles, and the machine code made of them.

``kernel`` decodes. ``table`` has a row for each record batch. ``walk`` finds where batches end.
``loops`` is compiled, with ``grammar``, ``listing``, ``crc`` and ``pointers``; ``layout`` has their
numbers. ``native`` links the machine code, ``code_cache`` keeps it in files, and ``cpu`` names the
processor for it.
"""
