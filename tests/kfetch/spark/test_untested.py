"""A warning for versions of Spark that nobody has tested."""

from __future__ import annotations

import pytest

from kfetch.spark import versions
from kfetch.spark.source import KfetchDataSource
from tests.kfetch.spark.test_source import since_42

OPTIONS = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}


@pytest.mark.parametrize(
    ("version", "warns"),
    [((4, 0), False), ((4, 3), False), ((4, 4), True), ((4, 10), True), ((5, 0), True)],
)
def test_later_versions(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    version: tuple[int, int],
    warns: bool,
) -> None:
    """Only a later minor or major version is a warning, which names both versions."""
    monkeypatch.setattr(versions, "_SPARK", version)
    monkeypatch.setattr(versions, "__version__", "9.8.7")
    versions.warn_if_untested()

    newest = ".".join(map(str, versions.NEWEST_TESTED))
    sentence = "nobody has tested this release with Spark 9.8.7. The newest tested one is "
    assert [f"kfetch: {sentence}{newest}"] * warns == caplog.messages


def test_a_query_warns_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The reader of a stream warns when it first connects, and not again."""
    monkeypatch.setattr(versions, "_SPARK", (9, 0))
    source = KfetchDataSource(dict(OPTIONS))
    reader = since_42(source.streamReader(source.schema()))
    assert [] == caplog.messages
    for _ in range(2):
        reader.reportLatestOffset()
    reader.stop()

    assert 1 == sum("nobody has tested this release" in message for message in caplog.messages)
