"""The Grafana dashboard against the types that Grafana publishes of its dashboards."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models import dashboard

FILE = Path(__file__).parents[3] / "conf" / "grafana" / "kfetch.json"
LATER = {"definition"}
"""What these types, of Grafana 10.1, lack and Grafana writes today: a variable's query as text."""


def unknown(written: Any, known: Any, at: str = "") -> Iterator[str]:
    """Where a dashboard has what is not in its types, or other than they would have it."""
    if isinstance(written, dict) and isinstance(known, dict):
        for name in written.keys() - LATER:
            if name not in known:
                yield f"{at}.{name}"
            yield from unknown(written[name], known.get(name), f"{at}.{name}")
    elif isinstance(written, list) and isinstance(known, list) and len(written) == len(known):
        for number, (one, other) in enumerate(zip(written, known, strict=True)):
            yield from unknown(one, other, f"{at}[{number}]")
    elif written != known:
        yield f"{at} is {written!r}"


def typed(board: Any) -> Any:
    """What is left of a dashboard once it has been read into its types."""
    register_default_plugins()
    return json.loads(JSONEncoder().encode(dashboard.Dashboard.from_json(board)))


def test_the_dashboard_is_a_dashboard() -> None:
    """Grafana knows every key of the dashboard, its panels, queries and options."""
    board = json.loads(FILE.read_text())

    assert [] == list(unknown(board, typed(board)))


def test_a_key_that_grafana_does_not_know_is_found() -> None:
    """The test finds a mistyped option, which Grafana would ignore."""
    board = json.loads(FILE.read_text())
    panel = next(one for one in board["panels"] if one["type"] == "timeseries")
    panel["options"]["legend"]["displyMode"] = "table"
    panel["targets"][0]["expresion"] = "up"

    found = {each.rpartition(".")[2] for each in unknown(board, typed(board))}
    assert {"displyMode", "expresion"} <= found
