"""The fast record decoder: loops that numba compiles, and the machine code made of them.

``kernel`` decodes. ``table`` has a row for each record batch. ``walk`` finds where batches end.
``loops`` is compiled, with ``grammar``, ``listing``, ``crc`` and ``pointers``; ``interface``
has their numbers. ``header_maps`` makes the entries of header maps. ``native`` loads the loops from
``code_cache``, or compiles them and writes them there. ``machine_code`` makes, checks and links
their machine code, and ``cpu`` names the processor for it.
"""
