"""The options that name brokers, topics and partitions: from text to values."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from kfetch.errors import OptionError
from kfetch.model import TopicPartition
from kfetch.options.catalogue import STRATEGIES
from kfetch.options.values import PARTITION_MAX, Subscription

__all__ = ["bootstrap_servers", "json_object", "malformed", "subscription"]


_ADDRESS = re.compile(
    r"(?:[0-9A-Za-z%._-]*://)?"
    r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[0-9A-Za-z._-]+)?)\]|(?P<host>[^\[\]\s/:]+))"
    r":(?P<port>[0-9]{1,5})"
)
_BARE_IPV6 = re.compile(r"([0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*):([0-9]{1,5})")


def bootstrap_servers(text: str) -> tuple[tuple[str, int], ...]:
    """Return (host, port) of each entry of ``kafka.bootstrap.servers``. Raises OptionError."""
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    if not entries:
        raise OptionError(
            "Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer",
            option="kafka.bootstrap.servers",
        )
    return tuple(_host_port(entry) for entry in entries)


def _host_port(entry: str) -> tuple[str, int]:
    match = _ADDRESS.fullmatch(entry)
    if match is not None and 0 < int(match["port"]) < 65536:
        return match["ipv6"] or match["host"], int(match["port"])
    advice = "but each entry must be host:port"
    if (bare := _BARE_IPV6.fullmatch(entry)) is not None:
        advice = f"but an IPv6 address needs brackets: write [{bare[1]}]:{bare[2]}"
    raise OptionError(
        f"option kafka.bootstrap.servers has {entry!r}, {advice}", option="kafka.bootstrap.servers"
    )


def subscription(options: Mapping[str, str]) -> Subscription:
    """Return the subscription of options whose names are in lower case.

    Raises OptionError unless exactly one of the three options is set and valid.
    """
    names = [name for name in STRATEGIES if name.lower() in options]
    choices = ", ".join(STRATEGIES)
    if not names:
        raise OptionError(
            f"one of the following options must be specified for Kafka source: {choices}; "
            "`kfetch options` lists all options"
        )
    if len(names) > 1:
        raise OptionError(
            f"only one of the following options can be specified for Kafka source: {choices}; "
            f"here are {' and '.join(names)}"
        )
    (name,) = names
    return _STRATEGY_PARSERS[name](options[name.lower()].strip())


def _topics(text: str) -> Subscription:
    topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not topics:
        raise OptionError("no topics to subscribe: option subscribe is empty", option="subscribe")
    return Subscription(topics=topics)


def _pattern(text: str) -> Subscription:
    if not text:
        raise OptionError(
            "pattern to subscribe is empty: option subscribePattern", option="subscribePattern"
        )
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as problem:
        raise OptionError(
            f"option subscribePattern is {text!r}, which is no regular expression: {problem}",
            option="subscribePattern",
        ) from None
    return Subscription(pattern=text)


def _assignment(text: str) -> Subscription:
    example = '{"topicA":[0,1],"topicB":[2]}'
    if not text.startswith("{"):
        raise OptionError(
            f"no topicpartitions to assign: option assign is {text!r}",
            action=f"expected e.g. {example}",
            option="assign",
        )
    topics = json_object("assign", text, example)
    partitions = [
        TopicPartition(topic, partition)
        for topic, numbers in topics.items()
        for partition in _partition_numbers(topic, numbers, example)
    ]
    if not partitions:
        raise OptionError("no topicpartitions to assign: option assign is empty", option="assign")
    return Subscription(assigned=tuple(sorted(set(partitions))))


def _partition_numbers(topic: str, numbers: object, example: str) -> list[int]:
    if not isinstance(numbers, list) or not all(map(_is_partition, numbers)):
        raise OptionError(
            f"option assign has {numbers!r} for topic {topic}",
            action=f"expected e.g. {example}",
            topic=topic,
            option="assign",
        )
    return numbers


def _is_partition(value: object) -> bool:
    return type(value) is int and 0 <= value <= PARTITION_MAX


_STRATEGY_PARSERS: Mapping[str, Callable[[str], Subscription]] = {
    "assign": _assignment,
    "subscribe": _topics,
    "subscribePattern": _pattern,
}


def json_object(option: str, text: str, example: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise malformed(option, text, example)
    return document


def malformed(option: str, text: str, example: str) -> OptionError:
    return OptionError(f"option {option}: Expected e.g. {example}, got {text}", option=option)
