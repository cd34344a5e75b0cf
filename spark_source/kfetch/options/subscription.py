"""The options that name brokers, topics and partitions."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from kfetch.errors import OptionError
from kfetch.model import TopicPartition
from kfetch.options import java_patterns
from kfetch.options.converters import INT_MAX
from kfetch.options.option import Option, OptionReader, by_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """The partitions to read. Exactly one of the three fields is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    """A regular expression of Python's ``re``. It may match any part of a topic's name."""
    assigned: tuple[TopicPartition, ...] = ()

    def includes(self, topic: str) -> bool:
        """Returns whether a topic of this name belongs to the subscription."""
        if self.pattern is not None:
            return re.search(self.pattern, topic) is not None
        return topic in self.topics or any(tp.topic == topic for tp in self.assigned)


_ADDRESS = re.compile(
    r"(?:[0-9A-Za-z%._-]*://)?"
    r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[0-9A-Za-z._-]+)?)\]|(?P<host>[^\[\]\s/:]+))"
    r":(?P<port>[0-9]{1,5})"
)
_BARE_IPV6 = re.compile(r"([0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*):([0-9]{1,5})")


def _addresses(text: str) -> tuple[tuple[str, int], ...]:
    """Returns (host, port) of each entry."""
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
    raise OptionError.about("kafka.bootstrap.servers", f"has {entry!r}, {advice}")


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
    if problem := java_patterns.problem(text):
        python = java_patterns.in_python(text)
        raise OptionError.about(
            "subscribePattern",
            f"is {text!r}, {problem}",
            action=f"write {python}" if python else "",
        )
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
    return type(value) is int and 0 <= value <= INT_MAX


OPTIONS = by_name(
    Option(
        "kafka.bootstrap.servers",
        "brokers to ask first, `host:port,host:port`",
        _addresses,
        "required",
    ),
    Option("subscribe", "topics, comma-separated; exactly one of the three", _topics),
    Option("subscribePattern", "regular expression (Python's) searched in topic names", _pattern),
    Option("assign", 'partitions, `{"topicA":[0,1]}`', _assignment),
)
STRATEGIES = ("assign", "subscribe", "subscribePattern")
"""The options that name topics. A query has one of them."""


def bootstrap_servers(read: OptionReader) -> tuple[tuple[str, int], ...]:
    """Returns (host, port) of the brokers to ask first. Raises OptionError if there are none."""
    return _addresses(read.text("kafka.bootstrap.servers"))


def subscription(read: OptionReader) -> Subscription:
    """Returns the subscription. Raises OptionError unless one of the three options is set."""
    names = [name for name in STRATEGIES if name in read]
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
    chosen: Subscription = read(OPTIONS[name])
    return chosen


def json_object(option: str, text: str, example: str) -> dict[str, Any]:
    """Returns the JSON object of an option's text. Raises OptionError for any other text."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise malformed(option, text, example)
    return document


def malformed(option: str, text: str, example: str) -> OptionError:
    """Returns the error for a text that is not like the example, in the connector's words."""
    return OptionError(f"option {option}: Expected e.g. {example}, got {text}", option=option)
