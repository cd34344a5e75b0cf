"""Scenarios in which a fault was found once, and a simulation that repeats."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from simulation import chaos
from simulation.kernel import Kernel
from simulation.parts import Result, run_scenario, run_source, smaller
from simulation.scenario import from_json, scenario, to_json

pytestmark = pytest.mark.simulation

_SCENARIOS = Path(__file__).parent / "scenarios"
_GROUP_WITHOUT_LEADERS = Path(__file__).parent / "group-without-leaders.json"
_FAULTS = {
    "attempt-takes-over": "leftover-records-unchecked",
    "cut-range": "cut-range-unread",
    "rewritten-range": "rewritten-range-unchecked",
    "created-again-while-asked": "new-topic-as-truncated",
    "driver-killed-in-batch-0": "start-lost",
    "reply-lost": "refused-reply-acknowledges",
}
"""The fault that each scenario finds, if it is planted again."""


@pytest.mark.parametrize("name", sorted(path.stem for path in _SCENARIOS.glob("*.json")))
def test_a_fault_that_was_found_is_gone(name: str) -> None:
    """The scenario fails with the fault, and passes without it."""
    found = from_json((_SCENARIOS / f"{name}.json").read_text())
    assert run_scenario(found, fault=_FAULTS[name]).failure
    assert not run_scenario(found).failure


def test_a_query_starts_at_a_group_although_no_broker_leads_at_first() -> None:
    """The group commits once there are leaders. Both brokers are down when the query starts."""
    found = from_json(_GROUP_WITHOUT_LEADERS.read_text())
    assert not run_scenario(found).failure


def test_a_scenario_is_json() -> None:
    """A scenario that is written and read again is the same."""
    drawn = scenario(7)
    assert from_json(to_json(drawn)) == drawn


@pytest.mark.parametrize(
    "fault",
    [
        "start-skips-a-record",
        "truncation-unchecked",
        "epoch-stands-still",
        "reply-memory-kept",
        "reply-memory-returned-twice",
    ],
)
def test_a_planted_fault_is_found_soon(fault: str) -> None:
    """One of the first seeds fails with the fault. Each fault breaks another invariant."""
    assert any(run_source(seed, 1.0, fault=fault).failure for seed in range(4))


@pytest.mark.parametrize(
    ("fault", "profile", "seed"),
    [
        ("moves-extend-deadline", "behind", 0),
        ("new-topic-as-truncated", "recreations", 7),
        ("leftover-records-unchecked", "reconnects", 11),
        ("agent-stays", "attempts", 0),
    ],
)
def test_a_profile_makes_a_rare_order_likely(fault: str, profile: str, seed: int) -> None:
    """A seed fails with a fault that needs what the profile is rich in, and passes without it."""
    drawn = scenario(seed, profile=profile)
    assert run_scenario(drawn, fault=fault).failure
    assert not run_scenario(drawn).failure


def test_a_rounded_number_chooses_the_last_process() -> None:
    """A number of an action has four digits, so it may be 1."""
    process = Kernel(1).spawn("worker")
    assert process is chaos.pick([process], 1.0)


_PRINT_STORY = """
from simulation.parts import run_source
result = run_source(6, 0.1)
print(result.steps, *result.story, sep="\\n")
"""


def test_a_seed_gives_the_same_story_twice() -> None:
    """Two processes simulate one seed: the same steps, and the same story."""
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    stories = [
        subprocess.run(
            [sys.executable, "-c", _PRINT_STORY],
            cwd=Path(__file__).parents[2],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    ]
    assert stories[0] == stories[1]
    assert "the query ends" in stories[0]


def test_fewer_events_fail_in_the_same_way() -> None:
    """A failure stays what it is while it gets smaller: another one says nothing of its cause."""

    def run(events: Sequence[int]) -> Result:
        failure = "lost: b" if {2, 5} <= {*events} else "twice: c"
        return Result(
            part="source",
            seed=0,
            steps=1,
            seconds=1.0,
            events=(*events,),
            failure=failure,
            story=[],
        )

    assert (2, 5) == smaller(run(range(8)), run, lambda told: None).events
