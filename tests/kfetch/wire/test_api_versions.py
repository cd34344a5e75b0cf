"""The versions that a connection agrees on, and replies to ApiVersions of every form."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
)

from kfetch.errors import ConnectionLost, UnsupportedVersion
from kfetch.wire.connection import Connection
from tests.kfetch.wire.scripted import Raw, ScriptedBroker
from tests.kfetch.wire.test_connection import OPTIONS, ask, soon


@pytest.mark.parametrize(
    ("theirs", "lowest", "highest", "expected"),
    [((4, 11), 4, 18, 11), ((0, 99), 4, 18, 18), ((12, 16), 4, 12, 12), ((0, 99), 0, None, 18)],
)
def test_version(theirs: tuple[int, int], lowest: int, highest: int | None, expected: int) -> None:
    """The common version is bounded by their range and ours."""
    with ScriptedBroker(versions={FetchRequest: theirs}) as broker:
        connection = Connection.open("127.0.0.1", broker.port, OPTIONS, soon())
        assert expected == connection.version(FetchRequest, lowest=lowest, highest=highest)
        connection.close()


@pytest.mark.parametrize(
    ("theirs", "spoken"), [((0, 3), "FetchRequest v0 to v3"), ((0, -1), "no FetchRequest")]
)
def test_no_version_in_common(theirs: tuple[int, int], spoken: str) -> None:
    """Without a common version the error names both sides' ranges, or what the broker lacks."""
    with ScriptedBroker(versions={FetchRequest: theirs}) as broker:
        connection = Connection.open("127.0.0.1", broker.port, OPTIONS, soon())
        with pytest.raises(UnsupportedVersion) as caught:
            connection.version(FetchRequest, lowest=4, highest=18)
        connection.close()

        assert (
            f"the broker at 127.0.0.1:{broker.port} speaks {spoken}, kfetch v4 to v18: no version "
            "in common"
        ) == caught.value.message


@pytest.mark.parametrize("newest", [0, 1, 2, 3, 4])
def test_old_api_versions(newest: int) -> None:
    """A broker that does not know ApiVersions v3 is asked again with v0."""
    with ScriptedBroker(versions={ApiVersionsRequest: (0, newest)}) as broker:
        connection = Connection.open("127.0.0.1", broker.port, OPTIONS, soon())
        assert 18 == connection.version(FetchRequest)
        connection.close()

        asked = [request.API_VERSION for request in broker.asked(ApiVersionsRequest)]
        assert ([3] if newest >= 3 else [3, 0]) == asked


def _api_versions_reply(correlation_id: int, body: str) -> Raw:
    frame = struct.pack(">i", correlation_id) + bytes.fromhex(body)
    return Raw(struct.pack(">i", len(frame)) + frame)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("0023 01 0012 0000 0002 00 00000000", id="librdkafka 2.16's mock cluster"),
        pytest.param("0023 02 0012 0000 0003 00 00000000 00", id="compact"),
        pytest.param("0023 00000001 0012 0000 0002", id="version 0, as Kafka"),
        pytest.param("0023 00000000", id="no versions"),
        pytest.param("0023", id="the code alone"),
    ],
)
def test_unsupported_api_versions_in_any_form(body: str) -> None:
    """After UNSUPPORTED_VERSION kfetch asks with version 0, whatever follows the error code."""
    with ScriptedBroker() as broker:
        broker.answer(ApiVersionsRequest, _api_versions_reply(1, body))
        connection = Connection.open("127.0.0.1", broker.port, OPTIONS, soon())
        assert 18 == connection.version(FetchRequest)
        connection.close()

        assert [3, 0] == [asked.API_VERSION for asked in broker.asked(ApiVersionsRequest)]


@pytest.mark.parametrize("code", [-1, 31, 42])
def test_versions_refused(code: int) -> None:
    """A broker that answers ApiVersions with another error counts as one that cannot be reached."""
    with ScriptedBroker() as broker:
        broker.always(
            ApiVersionsRequest,
            lambda _: ApiVersionsResponse[0](error_code=code, api_keys=[]),
        )
        with pytest.raises(
            ConnectionLost, match=rf"is lost: it answered ApiVersions with [A-Z_]+ \({code}\)"
        ):
            Connection.open("127.0.0.1", broker.port, OPTIONS, soon())


@pytest.mark.parametrize("body", ["", "00", "0000", "0000 02 0012 0000"])
def test_unreadable_versions(body: str) -> None:
    """So does a broker whose answer is cut short."""
    with ScriptedBroker() as broker:
        broker.always(ApiVersionsRequest, _api_versions_reply(1, body))
        with pytest.raises(ConnectionLost, match="can't be decoded as ApiVersionsResponse"):
            Connection.open("127.0.0.1", broker.port, OPTIONS, soon())


def test_the_first_frame_is_small() -> None:
    """Until ApiVersions is answered, a frame has at most 1 MiB, whatever the options allow."""
    options = replace(OPTIONS, frame_bytes_max=1 << 30)
    with ScriptedBroker() as broker:
        broker.answer(ApiVersionsRequest, Raw(struct.pack(">i", (1 << 20) + 1)))
        with pytest.raises(ConnectionLost, match="claims 1048577 bytes, where 4 to 1048576 are"):
            Connection.open("127.0.0.1", broker.port, options, soon())

        connection = Connection.open("127.0.0.1", broker.port, options, soon())
        broker.answer(MetadataRequest, Raw(struct.pack(">i", (1 << 30) + 1)))
        with pytest.raises(ConnectionLost, match="where 4 to 1073741824 are possible"):
            connection.call(ask(), soon())
