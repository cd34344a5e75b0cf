"""How many examples hypothesis tries in a test that does not take the default."""

from __future__ import annotations

from hypothesis import settings

DEFAULT = 30
"""A tenth of the examples of ``make properties``. ``make test`` tries two thirds of them."""


def examples(count: int) -> settings:
    """Returns settings with ``count`` examples, in another profile in proportion."""
    return settings(max_examples=max(1, count * settings.default.max_examples // DEFAULT))
