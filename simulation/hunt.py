"""How soon the simulation finds each fault that can be planted: a table."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import NamedTuple

from simulation import parts


class Hunt(NamedTuple):
    """How one planted fault was looked for."""

    fault: str
    part: str
    seeds: int
    cpu_s: float
    failure: str
    """What did not hold with the fault, and holds without it; empty if it was not found."""

    def __str__(self) -> str:
        found = "found" if self.failure else "not found"
        return f"{self.fault:38} {self.part:9} {self.seeds:5} {self.cpu_s:7.1f}  {found}"


HEAD = f"{'fault':38} {'part':9} {'seeds':>5} {'CPU s':>7}"


def hunts(first: int, limit_s: float, part: str | None = None) -> Iterator[Hunt]:
    """Yields a hunt for each fault. It takes ``limit_s`` seconds of CPU time at most."""
    for fault, name in parts.faults().items():
        if part in (None, name):
            yield _hunt(fault, name, first, limit_s)


def _hunt(fault: str, part: str, first: int, limit_s: float) -> Hunt:
    run: Callable[..., parts.Result] = parts.PARTS[part]
    run(first, None, (), fault)  # modules are loaded once
    began = time.process_time()
    for seed in count(first):
        failure = run(seed, None, None, fault).failure
        used_s = time.process_time() - began
        if failure and run(seed, None, None, "").failure:
            failure = ""  # the seed tells of another fault
        if failure or used_s > limit_s:
            return Hunt(fault, part, seed - first + 1, used_s, failure)
    raise AssertionError("seeds have no end")
