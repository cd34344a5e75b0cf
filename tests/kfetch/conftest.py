"""Both record decoders by turns, and a port without a server."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.kfetch.decoders import Decode


@pytest.fixture(scope="session", params=["reference", "kernel"])
def decode(request: pytest.FixtureRequest) -> Decode:
    """A function from slices to rows, by each decoder in turn."""
    from tests.kfetch.decoders import decode_with

    return decode_with(request.param)


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port of 127.0.0.1 on which nobody listens, and that no other process gets."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]
