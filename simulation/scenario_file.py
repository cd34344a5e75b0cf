"""Reads scenario files, which people write after reports. Says in one sentence what is wrong."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from kfetch.errors import KfetchError
from kfetch.spark import options as parsing
from simulation.chaos import ACTIONS
from simulation.cluster.chaos import WEIGHTS as CLUSTER_KINDS
from simulation.cluster.chaos import Chaos
from simulation.cluster.releases import RELEASES
from simulation.scenario import Scenario, from_json

_TYPES: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "int": ("a whole number", (int,)),
    "float": ("a number", (int, float)),
    "str": ("a text", (str,)),
    "bool": ("true or false", (bool,)),
}
_LIST = ("a list", (list,))
_SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


class WrongScenario(ValueError):
    """A file is not a scenario. The message is a sentence for its author."""


def read(path: Path) -> Scenario:
    """Returns the scenario of a file. Raises WrongScenario."""
    try:
        document = json.loads(path.read_text())
    except OSError as error:
        raise WrongScenario(f"{path} can't be read: {error.strerror}") from None
    except ValueError as error:  # no JSON, or no text
        raise WrongScenario(f"{path} is not JSON: {error}") from None
    try:
        return _checked(document)
    except WrongScenario as wrong:
        raise WrongScenario(f"{path}: {wrong}") from None


def _checked(document: Any) -> Scenario:
    if not isinstance(document, dict):
        raise WrongScenario("a scenario is a JSON object")
    known = {field.name: str(field.type) for field in fields(Scenario)}
    if missing := known.keys() - document.keys():
        raise WrongScenario(f"the field {min(missing)} is missing")
    if unknown := document.keys() - known.keys():
        raise WrongScenario(f"there is no field {min(unknown)}")
    for name, kind in known.items():
        _check_type(f"the field {name}", document[name], kind)
    if document["release"] not in RELEASES:
        raise WrongScenario(f"the release is one of {', '.join(RELEASES)}")
    if not all(type(count) is int and count > 0 for count in document["partitions"]):
        raise WrongScenario("partitions has the number of partitions of each topic")
    _check_options(document["options"])
    for number, action in enumerate(document["actions"], 1):
        _check_action(number, action, document)
    return from_json(json.dumps(document))


def _check_type(what: str, value: Any, kind: str) -> None:
    """``kind``: the name of a type, as in an annotation. Other kinds are lists."""
    name, types = _TYPES.get(kind, _LIST)
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise WrongScenario(f"{what} must be {name}, and is {json.dumps(value)}")


def _check_options(options: list[Any]) -> None:
    pairs = all(isinstance(one, list) and len(one) == 2 for one in options)
    if not pairs or not all(isinstance(text, str) for one in options for text in one):
        raise WrongScenario('options is a list of pairs, such as ["startingOffsets", "earliest"]')
    try:
        parsing.parse({**_SERVERS, "subscribe": "t0", **dict(options)})
    except KfetchError as error:
        raise WrongScenario(f"options: {error.message}") from None


def _check_action(number: int, action: Any, scenario: Mapping[str, Any]) -> None:
    """``number``: the place in the list, from 1 on."""
    match action:
        case [int() | float(), str(kind), dict(arguments)]:
            pass
        case _:
            raise WrongScenario(f"action {number} is not seconds, a kind, and arguments")
    if kind in ACTIONS:
        wanted = {"numbers": "list"}
    elif kind in CLUSTER_KINDS:
        parameters = inspect.signature(getattr(Chaos, kind)).parameters
        wanted = {name: str(parameters[name].annotation) for name in [*parameters][1:]}
    else:
        raise WrongScenario(f"action {number} has the unknown kind {kind}")
    if wanted.keys() != arguments.keys():
        names = ", ".join(wanted) or "none"
        raise WrongScenario(f"action {number}: the arguments of {kind} are {names}")
    for name, value in arguments.items():
        _check_type(f"action {number}: {name}", value, wanted[name])
    _check_place(f"action {number} ({kind})", arguments, scenario)


def _check_place(action: str, arguments: Mapping[str, Any], scenario: Mapping[str, Any]) -> None:
    topics = {f"t{number}": count for number, count in enumerate(scenario["partitions"])}
    topic = arguments.get("topic")
    if topic is not None and topic not in topics:
        raise WrongScenario(f"{action}: there is no topic {topic}, only {', '.join(topics)}")
    broker = arguments.get("broker")
    if broker is not None and broker not in range(1, scenario["brokers"] + 1):
        raise WrongScenario(f"{action}: there is no broker {broker}")
