"""Which partitions of a table have too many small files. Pure.

Short micro-batches write small files. With Delta's auto compaction, a writer merges them after a
commit. A property of the table asks for it, and the limits are Delta's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from posixpath import dirname

_PROPERTY = "delta.autoOptimize.autoCompact"
_FILES = 50
"""A partition has too many small files from here on (``autoCompact.minNumFiles``)."""
_PART = 2
"""A file is small below this part of the wanted size (``autoCompact.minFileSize``)."""

Sizes = Mapping[str, int]
"""Files' sizes in bytes, by their paths below the table's directory."""


def asks_for_merging(properties: Mapping[str, str]) -> bool:
    """Returns whether a table's properties ask its writers to merge small files."""
    return properties.get(_PROPERTY, "").lower() == "true"


class SmallFiles:
    """The numbers of small files in the directories of a table's partitions."""

    def __init__(self) -> None:
        self._counts: Counter[str] | None = None

    def add(self, committed: Sizes, all_files: Callable[[], Sizes], wanted: int) -> list[str]:
        """Returns one of the committed files for each partition that has too many small ones now.

        ``all_files``: those of the table, with the committed ones. It is called once. ``wanted``:
        the size of a large file, in bytes. Such a partition counts from 0 again.
        """
        small = [path for path, size in committed.items() if size < wanted // _PART]
        if self._counts is None:
            counted = (path for path, size in all_files().items() if size < wanted // _PART)
            self._counts = Counter(map(dirname, counted))
        else:
            self._counts.update(map(dirname, small))
        found = {dirname(path): path for path in small if self._counts[dirname(path)] >= _FILES}
        for directory in found:
            del self._counts[directory]
        return list(found.values())
