"""A warning for versions of Spark that nobody has tested."""

from __future__ import annotations

import pyspark
import pytest

from kfetch.spark.source import KfetchDataSource
from kfetch.spark.tested import NEWEST, warn_if_untested
from tests.kfetch.spark.test_source import since_42

OPTIONS = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}


@pytest.mark.parametrize(
    ("version", "warns"),
    [
        ("4.0.5", False),
        ("4.3.0", False),
        ("4.3.9", False),
        ("4.4.0", True),
        ("4.10.0.dev1", True),
        ("5.0.0", True),
        ("unknown", False),
    ],
)
def test_later_versions(version: str, warns: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Only a later minor or major version is a warning, which names both versions."""
    warn_if_untested(version)

    newest = ".".join(map(str, NEWEST))
    sentence = f"nobody has tested this release with Spark {version}. The newest tested one is "
    assert [f"kfetch: {sentence}{newest}"] * warns == caplog.messages


def test_a_query_warns_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The reader of a stream warns when it first connects, and not again."""
    monkeypatch.setattr(pyspark, "__version__", "9.0.0")
    source = KfetchDataSource(dict(OPTIONS))
    reader = since_42(source.streamReader(source.schema()))
    assert [] == caplog.messages
    for _ in range(2):
        reader.reportLatestOffset()
    reader.stop()

    assert 1 == sum("nobody has tested this release with Spark 9.0.0" in m for m in caplog.messages)
