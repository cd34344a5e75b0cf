"""Simulations of leases: they hold, replay exactly, and find the faults planted in them."""

from __future__ import annotations

import pytest

from simulation.leases import run
from simulation.leases.planted import PLANTED

pytestmark = pytest.mark.simulation


def test_leases_hold() -> None:
    """Hosts that freeze, sleep and die, and a store that fails: one writer, who goes on."""
    for seed in range(20):
        outcome = run(seed)
        assert "" == outcome.failure, f"seed {seed}"
        assert outcome.commits > 50


def test_a_seed_is_one_story() -> None:
    """The same seed gives the same run. Without events, it is another one that holds, too."""
    first, again, quiet = run(3), run(3), run(3, events=())
    assert first == again
    assert ("", ()) == (quiet.failure, quiet.events)
    assert first.story != quiet.story


@pytest.mark.parametrize("fault", PLANTED)
def test_planted_faults_are_found(fault: str) -> None:
    """Each within a few seeds, which take a second."""
    with PLANTED[fault]():
        assert any(run(seed).failure for seed in range(20))
