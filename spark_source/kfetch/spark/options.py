"""Reads all options of a query: from the texts that Spark passes to one ``SourceOptions``.

Names are case-insensitive, as in Spark's connector.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kfetch.errors import OptionError
from kfetch.formats.options import chosen_formats
from kfetch.options import columns
from kfetch.options.bounds import Bound, check_order, ending_bound, starting_bound
from kfetch.options.catalogue import check_names, unused_names
from kfetch.options.network import FetchOptions, NetworkOptions
from kfetch.options.option import OptionReader
from kfetch.options.security import security
from kfetch.options.source import (
    AgentOptions,
    LookupOptions,
    PlanningOptions,
    ReportOptions,
    SourceOptions,
)
from kfetch.options.subscription import bootstrap_servers, subscription


def parse(options: Mapping[str, str], *, batch: bool = False) -> SourceOptions:
    """Returns the values of the options of a stream, or of a batch read with ``batch``.

    Only a batch read has an end. By default it starts at the log starts, and a stream at the log
    ends. Raises OptionError or NotBuilt with a sentence that names the option.
    """
    lowered = {name.lower(): _text(name, value) for name, value in options.items()}
    ignored = check_names(options, batch=batch)
    read = OptionReader(lowered)
    # Spark's connector checks in this order: a batch read's bounds, the subscription, the servers.
    bounds = _bounds(read, batch=True) if batch else {}
    topics = subscription(read)
    named = (*topics.topics, *(tp.topic for tp in topics.assigned))
    planning = _planning(read)
    bootstrap = bootstrap_servers(read)
    bounds = bounds or _bounds(read, batch=False)
    network = replace(read.group(NetworkOptions), security=security(read))
    return read.group(
        SourceOptions,
        bootstrap=bootstrap,
        subscription=topics,
        **bounds,
        **_columns(read, tuple(dict.fromkeys(named))),
        planning=planning,
        lookups=read.group(LookupOptions),
        agent=read.group(AgentOptions),
        reports=read.group(ReportOptions),
        network=network,
        fetch=read.group(FetchOptions),
        ignored=_ignored(ignored, bounds["starting"]) + unused_names(options, network.security),
    )


def _text(name: str, value: object) -> str:
    """Returns a value as text. Half a surrogate pair is none: no request could carry it.

    Python's own error for it would show the whole text, which may be a password.
    """
    text = str(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise OptionError.about(
            name, "has half of a surrogate pair (U+D800 to U+DFFF), which is no character"
        ) from None
    return text


def _bounds(read: OptionReader, *, batch: bool) -> dict[str, Any]:
    starting = starting_bound(read, batch=batch)
    ending = ending_bound(read) if batch else None
    if ending is not None:
        check_order(starting, ending)
    return {"starting": starting, "ending": ending}


def _columns(read: OptionReader, topics: tuple[str, ...]) -> dict[str, Any]:
    chosen = chosen_formats(read, topics)
    includes = columns.included(read, dead_letters=chosen.dead_letters)
    structs = [typed.column for typed in chosen.typed]
    return {
        "includes": includes,
        "columns": columns.parsed(read, includes, chosen.strings, structs),
        "typed_columns": chosen.typed,
        "string_columns": chosen.strings,
    }


def _ignored(names: tuple[str, ...], starting: Bound) -> tuple[str, ...]:
    """Returns the options without effect: a start at a group's offsets needs the group's name."""
    used = {"kafka.group.id"} if starting.group else set()
    return tuple(name for name in names if name not in used)


def _planning(read: OptionReader) -> PlanningOptions:
    planning = read.group(PlanningOptions)
    least, most = planning.min_offsets, planning.max_offsets
    if least is not None and most is not None and least > most:
        raise OptionError(
            f"The value of minOffsetPerTrigger({least}) is higher than the "
            f"maxOffsetsPerTrigger({most})",
            action="lower option minOffsetsPerTrigger",
            option="minOffsetsPerTrigger",
        )
    return planning
