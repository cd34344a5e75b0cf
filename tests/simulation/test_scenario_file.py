"""Scenario files are written by people: what is wrong there is said in one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simulation.scenario import scenario, to_json
from simulation.scenario_file import WrongScenario, read

SCENARIO: dict[str, Any] = json.loads(to_json(scenario(2)))
PRODUCE = [1.0, "produce", {"topic": "t0", "partition": 0, "count": 1, "codec": "none"}]


def written(path: Path, **changes: Any) -> Path:
    """Returns a file with a scenario that has other values in some fields; None: not there."""
    document = {name: value for name, value in (SCENARIO | changes).items() if value is not None}
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("seed", range(20))
def test_what_the_simulator_writes_can_be_read(tmp_path: Path, seed: int) -> None:
    """A scenario that ``--save`` writes is the same when it is read."""
    path, made = tmp_path / "report.json", scenario(seed)
    path.write_text(to_json(made))

    assert made == read(path)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"brokers": None}, "the field brokers is missing"),
        ({"brokerz": 3}, "there is no field brokerz"),
        ({"brokers": "three"}, 'the field brokers must be a whole number, and is "three"'),
        ({"brokers": True}, "the field brokers must be a whole number, and is true"),
        ({"agents": 1}, "the field agents must be true or false, and is 1"),
        ({"release": "9.9"}, "the release is one of 2.8, 3.9, 4.3"),
        ({"partitions": [0]}, "partitions has the number of partitions of each topic"),
        ({"options": ["a"]}, 'options is a list of pairs, such as ["startingOffsets", "earliest"]'),
        ({"options": [["kafka.fetch.max.bytes", "x"]]}, "options: "),
        ({"actions": [["produce"]]}, "action 1 is not seconds, a kind, and arguments"),
        ({"actions": [[1, "explode", {}]]}, "action 1 has the unknown kind explode"),
        (
            {"actions": [PRODUCE, [2, "elect", {}]]},
            "action 2: the arguments of elect are topic, partition",
        ),
        ({"actions": [[1, "kill_agent", {}]]}, "action 1: the arguments of kill_agent are numbers"),
        (
            {"actions": [[1, "elect", {"topic": "x", "partition": 0}]], "partitions": [1, 2]},
            "action 1 (elect): there is no topic x, only t0, t1",
        ),
        (
            {"actions": [[1, "elect", {"topic": "t0", "partition": "0"}]]},
            'action 1: partition must be a whole number, and is "0"',
        ),
        (
            {"actions": [[1, "crash", {"broker": 9, "delay": 1, "seconds": 1}]]},
            "action 1 (crash): there is no broker 9",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_scenario_is_one_sentence(
    tmp_path: Path, changes: dict[str, Any], sentence: str
) -> None:
    """The error names the file and the place."""
    path = written(tmp_path / "report.json", **changes)

    with pytest.raises(WrongScenario) as raised:
        read(path)

    assert str(raised.value).startswith(f"{path}: {sentence}")


@pytest.mark.parametrize("text", ["{", "[]", "\xff"])
def test_a_file_that_is_no_scenario_at_all(tmp_path: Path, text: str) -> None:
    """Neither half a document, nor a list, nor bytes that are no text end in a traceback."""
    path = tmp_path / "report.json"
    path.write_text(text, encoding="latin-1")

    with pytest.raises(WrongScenario):
        read(path)
