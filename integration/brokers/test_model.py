"""The simulator's model of a broker gives the answers of real ones: Kafka 2.8, 3.9 and 4.3.

``make brokers ARGS="-k model"`` runs it. Each script runs against a broker and against its model,
question by question. Where releases differ, so does the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from integration.brokers import scripts
from integration.brokers.cluster import ReleaseCluster
from integration.brokers.scripts import Answers
from integration.brokers.sides import ModelSide, RealSide, Side
from integration.brokers.versions import Release, release
from simulation.cluster.releases import RELEASES

pytestmark = [pytest.mark.integration, pytest.mark.brokers]

Script = Callable[[Side], Answers]
SLOTS = 8
SCRIPTS: list[Script] = [
    scripts.sessions,
    scripts.fairness,
    scripts.offsets,
    scripts.topics,
    scripts.transactions,
    scripts.strangers,
    scripts.truncation,
]


@pytest.fixture(scope="module", params=[release(name) for name in RELEASES], ids=lambda r: r.name)
def tested(request: pytest.FixtureRequest) -> Release:
    """Each release of the model in turn."""
    return request.param


@pytest.fixture(scope="module")
def cluster(tested: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReleaseCluster]:
    """Two brokers of the release."""
    directory = tmp_path_factory.mktemp(f"model-{tested.name}")
    with ReleaseCluster.start(directory, tested) as started:
        yield started


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_the_same_answers(cluster: ReleaseCluster, tested: Release, script: Script) -> None:
    """The model answers each question of a script as the broker does."""
    compare(cluster, ModelSide(tested.name, 2), script)


def test_the_same_evictions(tested: Release, tmp_path: Path) -> None:
    """A cache of eight sessions refuses and evicts as the broker's does, after two minutes too."""
    started = ReleaseCluster.start(
        tmp_path, tested, brokers=1, max_incremental_fetch_session_cache_slots=SLOTS
    )
    with started as cluster:
        compare(cluster, ModelSide(tested.name, 1, slots=SLOTS), scripts.eviction)


def test_the_same_versions(cluster: ReleaseCluster, tested: Release) -> None:
    """The model speaks the versions of requests that the broker speaks."""
    real = RealSide(cluster)
    spoken = real.versions(1)
    real.close()

    assert {key: spoken.get(key) for key in RELEASES[tested.name].apis} == RELEASES[
        tested.name
    ].apis


def compare(cluster: ReleaseCluster, model: Side, script: Script) -> None:
    """Runs a script against both. Fails with each question that they answer in different ways."""
    real = RealSide(cluster)
    try:
        asked = list(script(real))
    finally:
        real.close()
    differences = [
        f"{question}:\n  the broker {told}\n  the model  {modelled}"
        for (question, told), (_, modelled) in zip(asked, script(model), strict=True)
        if told != modelled
    ]
    assert not differences, "\n".join(["they differ", *differences])
