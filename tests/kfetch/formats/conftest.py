"""Every inline query closes after its test."""

from __future__ import annotations

from tests.kfetch.fetch.conftest import at_once, close_queries

__all__ = ["at_once", "close_queries"]
