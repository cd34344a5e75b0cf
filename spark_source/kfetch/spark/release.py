"""What Spark pickles for other processes: they load it only if they have the same kfetch.

A pickled dataclass with slots is a list of values in the order of its fields. Another release may
have other fields, so the values would move to wrong ones: ``read_committed`` could become false.
"""

from __future__ import annotations

from typing import Any

from kfetch._version import __version__
from kfetch.errors import ReleasesDiffer

__all__ = ["OfOneRelease"]


class OfOneRelease:
    """A base of objects that Spark pickles. Another release refuses them by ReleasesDiffer."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Returns the release ahead of the attributes, because pickle loads in this order."""
        return _empty, (type(self), __version__), self.__getstate__()


def _empty(kind: type[OfOneRelease], release: str) -> OfOneRelease:
    if release != __version__:
        raise ReleasesDiffer(
            f"kfetch {__version__} of this process can't read what kfetch {release} has sent",
            action="install the same release for the driver and all executors, and restart the "
            "query",
            sent=release,
            installed=__version__,
        )
    return kind.__new__(kind)
