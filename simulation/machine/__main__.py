"""``python -m simulation.machine FIRST LAST [FAULT]``: run seeds of executors and their agents.

One seed prints its story. ``FAULT`` names a planted fault; then the first seed that finds it is the
last one. The exit code is 1 if anything did not hold.
"""

from __future__ import annotations

import sys
import time

from simulation.machine import executor
from simulation.machine.chaos import ACTS
from simulation.machine.plan import plan
from simulation.machine.planted import PLANTED


def main(first: int, last: int, fault: str = "") -> int:
    """Run the seeds. Returns the exit code."""
    executor.prepare()
    began = time.process_time()
    violations = steps = agents = reads = 0
    seconds = 0.0
    for seed in range(first, last + 1):
        outcome = executor.simulate(plan(seed), ACTS, PLANTED[fault] if fault else None)
        steps, seconds = steps + outcome.steps, seconds + outcome.seconds
        agents, reads = agents + outcome.agents, reads + outcome.reads
        if outcome.violation:
            violations += 1
            print(f"seed {seed}: {outcome.violation}", flush=True)
        if first == last:
            print("\n".join(outcome.story))
        if outcome.violation and fault:
            break
    took = time.process_time() - began
    print(
        f"seeds {first} to {seed}: {violations} violations, {steps:,} steps "
        f"({steps / took * 60:,.0f} a minute of CPU), {seconds / 3600:.1f} simulated hours, "
        f"{agents} agents, {reads} reads"
    )
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]))
