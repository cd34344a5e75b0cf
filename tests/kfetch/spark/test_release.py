"""Objects that Spark pickles, and a process with another release of kfetch."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from pyspark import cloudpickle

from kfetch import __version__
from kfetch.delta.source import FilesReader
from kfetch.errors import OptionError, ReleasesDiffer
from kfetch.model import Broker, OffsetRange, Split, TopicPartition
from kfetch.spark.batch import KfetchBatchSplit, KfetchReader
from kfetch.spark.options import parse
from kfetch.spark.source import (
    KfetchDataSource,
    KfetchSplit,
    KfetchStreamReader,
    _RefusingReader,
)
from kfetch.spark.versions import ReaderOfSpark41

GIVEN = {
    "kafka.bootstrap.servers": "h:9092",
    "subscribe": "t",
    "kafka.isolation.level": "read_committed",
}
OPTIONS = parse(GIVEN)
RANGE = OffsetRange(
    tp=TopicPartition("t", 0),
    topic_id=UUID(int=3),
    start=0,
    end=9,
    leader_epoch=4,
    leader=Broker(node_id=1, host="h", port=9092, rack=None),
)
SPLIT = Split(query="q", ranges=(RANGE,))
SENT: dict[str, Callable[[], Any]] = {
    "source": lambda: KfetchDataSource(GIVEN),
    "stream reader": lambda: KfetchStreamReader(OPTIONS),
    "reader of Spark 4.1": lambda: ReaderOfSpark41(KfetchStreamReader(OPTIONS)),
    "reader that refuses": lambda: _RefusingReader(OPTIONS, OptionError("no")),
    "reader of delta.stream": lambda: FilesReader(OPTIONS, (), {}),
    "batch reader": lambda: KfetchReader(OPTIONS),
    "split": lambda: KfetchSplit(SPLIT),
    "split of a batch": lambda: KfetchBatchSplit(SPLIT),
}


@pytest.mark.parametrize("sent", SENT)
@pytest.mark.parametrize("module", [pickle, cloudpickle])
def test_another_release_refuses(monkeypatch: pytest.MonkeyPatch, sent: str, module: Any) -> None:
    """A process loads nothing that another release pickled: values would be in other fields.
    The error has both releases, and says what to do."""
    pickled = module.dumps(SENT[sent]())
    monkeypatch.setattr("kfetch.spark.release.__version__", "9.9.9")
    with pytest.raises(ReleasesDiffer) as raised:
        module.loads(pickled)

    assert (
        f"kfetch 9.9.9 of this process can't read what kfetch {__version__} has sent: install the "
        "same release for the driver and all executors, and restart the query [RELEASES_DIFFER]"
    ) == str(raised.value)


def test_the_release_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process compares the release before it loads any value. A value of another release may have
    a class that this one does not know."""
    pickled = pickle.dumps(KfetchSplit(SPLIT)).replace(b"OffsetRange", b"NoSuchRange")
    with pytest.raises(AttributeError, match="NoSuchRange"):
        pickle.loads(pickled)
    monkeypatch.setattr("kfetch.spark.release.__version__", "9.9.9")
    with pytest.raises(ReleasesDiffer):
        pickle.loads(pickled)


@pytest.mark.parametrize("sent", SENT)
def test_the_same_release_loads(sent: str) -> None:
    """A process with the same release gets all attributes."""
    before = SENT[sent]()
    after = cloudpickle.loads(cloudpickle.dumps(before))

    assert type(before) is type(after)
    assert vars(before).keys() == vars(after).keys()
