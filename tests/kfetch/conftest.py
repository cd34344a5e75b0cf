"""Fixtures that run a test over both record decoders."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.kfetch.decoders import Decode


@pytest.fixture(scope="session", params=["reference", "kernel"])
def decode(request: pytest.FixtureRequest) -> Decode:
    """A function from slices to rows, by each decoder in turn."""
    from tests.kfetch.decoders import decode_with

    return decode_with(request.param)
