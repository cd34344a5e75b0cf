"""``python -m simulation``: simulates seeds for some minutes, and makes what fails smaller.

A failure names its seed, and prints the story of the smallest run that still fails.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from simulation import hunt, parts, scenario_file
from simulation.events import NoSuchEvent
from simulation.parts import Result

_EXAMPLES = """\
examples:
  make simulate                                      one minute of seeds from 0 on
  make simulate ARGS="--minutes 30 --first 1000"     half an hour of other seeds
  make simulate ARGS="--new-seeds"                   one minute of seeds that no run had before
  make simulate ARGS="--part source --seeds 17"      one seed again, with its story
  make simulate ARGS="--plant change-forgotten"      how soon a planted fault is found
  make simulate ARGS="--plant all"                   the same for each fault, as a table
  make simulate ARGS="--scenario F --tries 200"      a scenario file, with 200 seeds
"""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m simulation",
        description="Simulate the product in virtual time: rare orders of events, from seeds.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=1.0, help="how long, in real minutes")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument(
        "--new-seeds", action="store_true", help="begin at a seed drawn from this commit"
    )
    parser.add_argument(
        "--seeds",
        metavar="A-B",
        help="only these seeds, such as 0-99; a single seed tells its story",
    )
    parser.add_argument(
        "--part", choices=list(parts.PARTS), help="simulate only this part, not all by turns"
    )
    parser.add_argument(
        "--virtual-minutes",
        type=float,
        help="how long trouble lasts, in virtual minutes (not for jobs)",
    )
    parser.add_argument(
        "--events",
        type=_numbers,
        metavar="NUMBERS",
        help="only these events happen, by number, such as 3,5,9",
    )
    parser.add_argument("--scenario", metavar="FILE", help="simulate the scenario of this file")
    parser.add_argument(
        "--tries", type=int, default=1, help="simulate the scenario with this many seeds"
    )
    parser.add_argument(
        "--save", metavar="FILE", help="write the smallest failing run of the source as a scenario"
    )
    parser.add_argument(
        "--plant",
        default="",
        metavar="FAULT",
        help="plant a fault, to see how soon it is found; all: each by turns, as a table",
    )
    parser.add_argument("--faults", action="store_true", help="list the faults to plant")
    parser.add_argument("--keep-going", action="store_true", help="go on after a failure")
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    return parser.parse_args()


def _numbers(text: str) -> list[int]:
    """Returns the numbers of a list, which may be empty. Raises what argparse prints."""
    try:
        return [int(number) for number in text.split(",")] if text else []
    except ValueError:
        what = f"{text!r} is not a list of numbers, such as 3,5,9"
        raise argparse.ArgumentTypeError(what) from None


def _seeds(arguments: argparse.Namespace, first: int) -> Iterator[int]:
    if arguments.seeds:
        begin, _, last = arguments.seeds.partition("-")
        yield from range(int(begin), int(last or begin) + 1)
    elif arguments.scenario:
        yield from range(first, first + arguments.tries)
    else:
        yield from count(arguments.first)


def _new_seeds() -> tuple[int, str]:
    """Returns the first seed for this commit, and where it is from. Without Git: the clock."""
    command = ["git", "rev-parse", "HEAD"]
    with suppress(OSError, subprocess.CalledProcessError):
        commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return int(commit[:7], 16), f"commit {commit[:7]}"
    return int(time.time()), "the clock"


class _Progress:
    """Shows a bar on stderr, if stderr is a terminal."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._began = time.monotonic()
        self._shown = 0.0
        self._visible = sys.stderr.isatty()

    @property
    def over(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() - self._began >= self._seconds

    def show(self, totals: _Totals) -> None:
        """Draw the bar, twice a second at most."""
        now = time.monotonic()
        if not self._visible or now - self._shown < 0.5:
            return
        self._shown = now
        part = min(1.0, (now - self._began) / self._seconds)
        print(
            f"\r{'█' * int(part * 30):30} {part:4.0%}  {totals}",
            end="\033[K",
            file=sys.stderr,
            flush=True,
        )

    def clear(self) -> None:
        """Remove the bar."""
        if self._visible:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


class _Totals:
    """Counts what all seeds have simulated."""

    def __init__(self) -> None:
        self.seeds = self.steps = self.failures = 0
        self.virtual_s = 0.0
        self._cpu_began = _cpu_s()

    def add(self, result: Result) -> None:
        """Count one simulation."""
        self.seeds += 1
        self.steps += result.steps
        self.virtual_s += result.seconds

    @property
    def document(self) -> dict[str, float]:
        """The figures by name."""
        cpu_s = _cpu_s() - self._cpu_began
        return {
            "seeds": self.seeds,
            "steps": self.steps,
            "virtual_hours": round(self.virtual_s / 3600, 2),
            "cpu_seconds": round(cpu_s, 1),
            "steps_a_minute": round(self.steps / cpu_s * 60) if cpu_s else 0,
            "failures": self.failures,
        }

    def __str__(self) -> str:
        figures = self.document
        return (
            f"{self.seeds:,} seeds, {self.steps:,} steps, {figures['virtual_hours']:g} simulated "
            f"hours, {figures['steps_a_minute']:,} steps a minute of CPU"
        )


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> int:
    """Run the command. Returns 1 if anything failed, and 2 for a wrong argument."""
    arguments = _arguments()
    if arguments.faults:
        print("\n".join(f"{part:10} {fault}" for fault, part in parts.faults().items()))
        return 0
    if arguments.plant == "all":
        return _hunt_all(arguments)
    if arguments.plant and arguments.plant not in parts.faults():
        print(f"no fault {arguments.plant!r}; --faults lists them", file=sys.stderr)
        return 2
    if arguments.new_seeds:
        arguments.first, origin = _new_seeds()
        print(f"new seeds, from {arguments.first} on ({origin})", flush=True)
    try:
        totals, failed = _simulate_all(arguments)
    except (scenario_file.WrongScenario, NoSuchEvent) as wrong:
        print(wrong, file=sys.stderr)
        return 2
    if arguments.json:
        print(json.dumps({**totals.document, "failed": failed}))
    else:
        print(f"{totals}, {len(failed)} failures")
    return 1 if failed else 0


def _hunt_all(arguments: argparse.Namespace) -> int:
    """Print how soon each fault is found. Returns 1 if one is not."""
    print(hunt.HEAD)
    ends = []
    for one in hunt.hunts(arguments.first, arguments.minutes * 60, arguments.part):
        print(one, flush=True)
        ends.append(bool(one.failure))
    return 0 if all(ends) else 1


def _simulate_all(arguments: argparse.Namespace) -> tuple[_Totals, list[dict[str, Any]]]:
    """Simulate every seed. Returns the totals, and what names each failure."""
    saved = _saved(arguments)
    part = "source" if saved else arguments.part or parts.faults().get(arguments.plant)
    names = [part] if part else list(parts.PARTS)
    totals, failed = _Totals(), []
    ends = bool(arguments.seeds or saved)
    progress = _Progress(float("inf") if ends else arguments.minutes * 60)
    for seed in _seeds(arguments, saved.seed if saved else 0):
        for name in names:
            run = _run(name, seed, saved, arguments)
            result = run(arguments.events)
            totals.add(result)
            progress.show(totals)
            if result.failure:
                progress.clear()
                failed.append(_report(result, run, saved, arguments))
            elif _is_single(arguments) and not arguments.json:
                print("\n".join(run(result.events).story))
        if (failed and not arguments.keep_going) or progress.over:
            break
    progress.clear()
    totals.failures = len(failed)
    return totals, failed


def _is_single(arguments: argparse.Namespace) -> bool:
    """Whether the user asks for one seed, and so wants its story."""
    if arguments.scenario and not arguments.seeds:
        return bool(arguments.tries == 1)
    return bool(arguments.seeds) and "-" not in arguments.seeds


Run = Callable[[Sequence[int] | None], Result]


def _saved(arguments: argparse.Namespace) -> Any:
    return scenario_file.read(Path(arguments.scenario)) if arguments.scenario else None


def _run(part: str, seed: int, saved: Any, arguments: argparse.Namespace) -> Run:
    """Returns what simulates a seed with some of its events; None: with all."""
    if saved is not None:
        scenario = replace(saved, seed=seed)
        return lambda events: parts.run_scenario(scenario, events, arguments.plant)
    minutes = arguments.virtual_minutes
    return lambda events: parts.PARTS[part](seed, minutes, events, arguments.plant)


def _report(failed: Result, run: Run, saved: Any, arguments: argparse.Namespace) -> dict[str, Any]:
    """Make a failure smaller, and print its story. Returns what names it."""
    known = {"part": failed.part, "seed": failed.seed, "failure": failed.failure}
    if arguments.json:
        return known
    print(f"{failed.part} {failed.seed} fails: {failed.failure}")
    tell = _tell if sys.stderr.isatty() else (lambda line: None)
    failed = parts.smaller(failed, run, tell)
    print("\n".join(failed.story))
    print(f"the smallest run fails: {failed.failure}")
    if arguments.save and failed.part == "source":
        _save(failed, saved, arguments)
    numbers = ",".join(map(str, failed.events)) or "''"
    origin = f"--scenario {arguments.scenario}" if saved else f"--part {failed.part}"
    plant = f" --plant '{arguments.plant}'" if arguments.plant else ""
    again = f"{origin} --seeds {failed.seed}{plant} --events {numbers}"
    print(f'again: make simulate ARGS="{again}"')
    return known


def _save(failed: Result, saved: Any, arguments: argparse.Namespace) -> None:
    from simulation.scenario import scenario, to_json

    drawn = saved or scenario(failed.seed, arguments.virtual_minutes)
    actions = tuple(drawn.actions[number] for number in failed.events)
    Path(arguments.save).write_text(to_json(replace(drawn, seed=failed.seed, actions=actions)))


def _tell(line: str) -> None:
    print(f"\r{line}", end="\033[K", file=sys.stderr, flush=True)


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets belongs to a seed, too
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "simulation", *sys.argv[1:]])
    raise SystemExit(main())
