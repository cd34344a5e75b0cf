"""What a query has, for tools: source options, checkpoint offsets, lag, fetch totals. Pure.

``Offsets`` holds a ``Position`` (next offset, leader epoch) for each partition of a source, and the
ids of its topics. ``LagHistory`` calculates a ``Lag`` from Spark's progress. A ``Lag`` has a
``PartitionLag`` for each partition. ``FetchStats`` holds totals of requests, bytes and times, and
``FETCH_COUNTS`` their Prometheus metrics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kfetch import offsets
from kfetch.errors import OptionError
from kfetch.fetch.stats import COUNTS as FETCH_COUNTS
from kfetch.fetch.stats import FetchStats
from kfetch.formats.format import FORMATS
from kfetch.offsets import Offsets, Position
from kfetch.options import SourceOptions, Subscription, catalogue
from kfetch.options.option import Option
from kfetch.options.subscription import STRATEGIES as SUBSCRIPTION_OPTIONS
from kfetch.spark.lag import Lag, LagHistory, PartitionLag
from kfetch.spark.options import parse

__all__ = [
    "FETCH_COUNTS",
    "FORMATS",
    "SUBSCRIPTION_OPTIONS",
    "FetchStats",
    "Lag",
    "LagHistory",
    "Offsets",
    "Option",
    "PartitionLag",
    "Position",
    "SourceOptions",
    "Subscription",
    "known_options",
    "needs_time_zone",
    "options_without_effect",
    "parse_offsets",
    "parse_options",
    "similar_option",
]


def parse_options(texts: Mapping[str, str]) -> SourceOptions:
    """Parse the options of ``spark.readStream.format("kfetch")``.

    ``texts`` are values by name, in any case. Raises OptionError with the name as ``option``.
    """
    return parse(texts)


def options_without_effect(parsed: SourceOptions) -> dict[str, str]:
    """Returns a warning for each option that kfetch accepts and ignores, by the option's name."""
    return {name: catalogue.no_effect(name) for name in parsed.ignored}


def needs_time_zone(schema: str) -> bool:
    """Returns whether a schema of ``valueSchema`` has times that need a zone.

    ``parse_options`` takes a text that is no schema. Here it needs none.
    """
    if "timestamp" not in schema.lower():
        return False  # most schemas: they spare the import of Arrow
    from kfetch.formats.columns.ddl import parse_schema

    try:
        return parse_schema(schema).needs_zone
    except OptionError:
        return False


def known_options(part: str = "") -> list[Option]:
    """Returns the options whose names contain ``part``, in any case. Working ones come first."""
    return [option for option in catalogue.OPTIONS if part.lower() in option.name.lower()]


def similar_option(name: str) -> Option | None:
    """Returns the usable option whose name is most like ``name``, or None if none is like it."""
    return catalogue.similar(name)


def parse_offsets(document: Mapping[str, Any]) -> Offsets:
    """Parse an offset of Spark's checkpoint or progress, a JSON object.

    Reads the offsets of kfetch and of Spark's Kafka connector. Raises CheckpointError for others.
    """
    return offsets.from_json(document)
