"""``make simulate``: what it prints, and how it ends."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from simulation.parts import PARTS

pytestmark = pytest.mark.simulation

ROOT = Path(__file__).parents[2]


def simulate(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command until it ends."""
    return subprocess.run(
        [sys.executable, "-m", "simulation", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_wrong_scenario_file_is_one_sentence(tmp_path: Path) -> None:
    """The command prints the sentence alone, and exits with 2."""
    path = tmp_path / "none.json"
    ended = simulate("--scenario", str(path))

    assert (2, "") == (ended.returncode, ended.stdout)
    assert f"{path} can't be read: No such file or directory\n" == ended.stderr


def test_a_failure_prints_the_command_that_repeats_it() -> None:
    """The command of the last lines fails in the same way."""
    found = simulate("--part", "jobs", "--plant", "rows-before-letters")
    again = re.search(r'again: make simulate ARGS="(.*)"', found.stdout)
    assert again is not None
    repeated = simulate(*shlex.split(again[1]))

    assert (1, 1) == (found.returncode, repeated.returncode)
    smallest = re.search("the smallest run fails: (.*)", found.stdout)
    assert smallest is not None
    assert f"fails: {smallest[1]}" in repeated.stdout


@pytest.mark.parametrize("part", list(PARTS))
def test_a_number_that_no_event_has_is_one_sentence(part: str) -> None:
    """The command prints the sentence alone, and exits with 2."""
    ended = simulate("--part", part, "--seeds", "1", "--events", "0,99999")

    assert (2, "") == (ended.returncode, ended.stdout)
    assert re.fullmatch(
        r"--events: the simulation has \d+ events, from 0 on, and none has the number 99999; the "
        "code or the arguments have changed since: run the seed without --events\n",
        ended.stderr,
    )


def test_events_that_are_no_numbers_are_one_sentence() -> None:
    """The last line says what is expected."""
    ended = simulate("--seeds", "1", "--events", "3;5")

    assert ended.returncode == 2
    assert ended.stderr.endswith(
        "argument --events: '3;5' is not a list of numbers, such as 3,5,9\n"
    )


def test_new_seeds_begin_where_the_commit_says() -> None:
    """Two runs on one commit simulate the same seeds. The first line names the seed."""
    runs = [simulate("--new-seeds", "--minutes", "0", "--part", "jobs") for _ in range(2)]
    first = [run.stdout.splitlines()[0] for run in runs]

    assert first[0] == first[1]
    assert re.fullmatch(r"new seeds, from \d+ on \(commit [0-9a-f]{7}\)", first[0])


def test_new_seeds_without_git_are_from_the_clock() -> None:
    """A copy of the files without Git has new seeds, too."""
    run = simulate("--new-seeds", "--minutes", "0", "--part", "jobs", PATH="")

    assert re.match(r"new seeds, from \d+ on \(the clock\)\n", run.stdout)
