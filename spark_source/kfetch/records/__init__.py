"""Record batches, as Kafka writes them, in pure Python: no file, clock, socket or machine code.

``format`` has the numbers of the formats. ``batch`` reads headers, ``sections`` checks and
decompresses (``codecs``, ``unpacked_size``), and ``cursor`` reads single fields. ``faults`` is the
table of faults, ``memory`` limits what a decoding takes, and ``arrow`` has the columns.
``transactions`` leaves out aborted ones. ``java_text`` decodes text that may not be UTF-8.
``kfetch.compiled`` has the decoder. Formats: v2, and v0 and v1 of segments older than Kafka 0.11
(``legacy``).
"""

from __future__ import annotations

from kfetch.records.arrow import SCHEMA, Columns, schema_of
from kfetch.records.batch import Extent, Slice
from kfetch.records.memory import Memory
from kfetch.records.sections import OnCorrupt

__all__ = [
    "SCHEMA",
    "Columns",
    "Extent",
    "Memory",
    "OnCorrupt",
    "Slice",
    "schema_of",
]
