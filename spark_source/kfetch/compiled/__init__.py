"""The fast record decoder: loops that numba compiles, and the machine code that is kept of them.

``kernel`` decodes, with ``table`` (a row per record batch) and ``loops`` (compiled, with
``grammar``, ``listing``, ``crc`` and ``pointers``; ``layout`` has their numbers). ``native`` links
the machine code, ``code_cache`` keeps it in files, ``cpu`` names the processor it is made for.
"""
