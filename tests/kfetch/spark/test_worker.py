"""What a worker takes from its executor's environment."""

from __future__ import annotations

import pytest

from kfetch.spark import options as parsing
from kfetch.spark.worker import with_executors_rack


@pytest.mark.parametrize(
    ("option", "variable", "rack"),
    [
        ("", None, ""),
        ("a", None, "a"),
        ("a", "", "a"),
        ("a", "  ", "a"),
        ("a", "b", "b"),
        ("", " b ", "b"),
    ],
)
def test_the_executors_rack(
    monkeypatch: pytest.MonkeyPatch, option: str, variable: str | None, rack: str
) -> None:
    """KFETCH_CLIENT_RACK overrides the option on its executor. Elsewhere the option counts."""
    monkeypatch.delenv("KFETCH_CLIENT_RACK", raising=False)
    if variable is not None:
        monkeypatch.setenv("KFETCH_CLIENT_RACK", variable)
    options = parsing.parse(
        {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "kafka.client.rack": option}
    )

    assert rack == with_executors_rack(options).fetch.rack
