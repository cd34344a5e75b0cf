"""Compares the speed of this tree with that of another commit, in one run and with one broker.

    python -m integration.benchmarks.against COMMIT [--runs N] [--only NAME]... [--json]

The benchmark checks COMMIT out into a temporary worktree with its own environment. Each side has
one Spark session for all runs. The sides take turns, and the order changes from round to round. The
times do not include start-up.

drain     seconds of the micro-batches that read 5,000,000 records of 100 B in 8 partitions
batches   the same of 400,000 batches of one record each
trickle   the same of 20 records in each of 1,000 partitions, sessions in the worker (``inline``)
latency   median seconds from produce to foreachBatch, 4 partitions, 200 records a second
typed     as drain, 4,000,000 JSON values of five fields, which kfetch decodes
decode    fastest decoding of a reply of 4 MiB, values of 100 B, without Spark
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from integration.benchmarks import decode, latency, trickle
from integration.benchmarks.fill import fill
from integration.benchmarks.stage import create
from integration.benchmarks.typed_values import KINDS
from kfetch_jobs.kafka import Cluster

ROOT = Path(__file__).parents[2]
PROBE = Path(__file__).with_name("probe.py")
NAMES = ("drain", "batches", "trickle", "latency", "typed", "decode")


class Probe:
    """A process that runs a benchmark of one revision on request."""

    def __init__(self, python: Path, name: str, options: dict[str, str], log: Path) -> None:
        self._log = log
        # With it each Python worker compiles all modules that it imports.
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        with open(log, "wb") as errors:
            self._process = subprocess.Popen(
                [str(python), "-P", "-W", "ignore", str(PROBE), name, json.dumps(options)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment,
            )
        self._answer()

    def run(self) -> float:
        """Runs the benchmark once. Returns seconds."""
        self._input.write("run\n")
        self._input.flush()
        return float(self._answer())

    def close(self) -> None:
        """End the process."""
        self._input.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()

    @property
    def _input(self) -> Any:
        return self._process.stdin

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the probe ended:\n{self._log.read_text()[-3000:]}")
        return json.loads(line)


@contextmanager
def checkout(commit: str, directory: Path) -> Iterator[Path]:
    """Yields the Python of an environment with another commit."""
    tree = directory / "base"
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", str(tree), commit], check=True)
    try:
        subprocess.run(["make", "--silent", "setup"], cwd=tree, check=True)
        yield tree / ".venv" / "bin" / "python"
    finally:
        subprocess.run([*git, "remove", "--force", str(tree)], check=True)


@contextmanager
def stage(name: str, cluster: Cluster, directory: Path) -> Iterator[dict[str, str]]:
    """Fills the benchmark's topic. Yields the options of its probes."""
    topic = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": name}
    if name == "drain":
        fill(cluster, name, partitions=8, records=5_000_000, size=100, codec="none")
        yield topic | {"startingOffsets": "earliest"}
    elif name == "batches":
        fill(cluster, name, partitions=8, records=400_000, size=100, batch_bytes=0)
        yield topic | {"startingOffsets": "earliest"}
    elif name == "trickle":
        create(cluster, name, 1000)
        trickle.fill(cluster, 1000, 20)
        yield topic | {"startingOffsets": "earliest", "kfetch.agent": "inline"}
    elif name == "latency":
        create(cluster, name, 4)
        with latency.steady(cluster, 200, 4):
            yield topic | {"warm_up_s": "5", "counted_s": "15"}
    elif name == "typed":
        values, payloads = KINDS["json"](5, directory), directory / "payloads"
        payloads.write_bytes(b"\n".join(values.values))
        fill(cluster, name, partitions=8, records=4_000_000, payloads=payloads)
        yield topic | {"startingOffsets": "earliest", **values.options}
    else:
        data, _ = decode.reply(list(decode.batches(100, 4 << 20, 1 << 20)), "none")
        reply = directory / "reply"
        reply.write_bytes(data)
        yield {"reply": str(reply)}


def compare(name: str, base: Path, runs: int, cluster: Cluster, directory: Path) -> Any:
    """Returns all runs of both sides, in seconds, and the ratio of their medians."""
    sides: dict[str, list[float]] = {"this tree": [], "base": []}
    with ExitStack() as stack:
        options = stack.enter_context(stage(name, cluster, directory))
        probes = {}
        for side, python in (("this tree", Path(sys.executable)), ("base", base)):
            probes[side] = Probe(python, name, options, directory / f"{name} {side}.log")
            stack.callback(probes[side].close)
        for number in range(runs):
            for side in sorted(sides, reverse=bool(number % 2)):
                sides[side].append(probes[side].run())
                print(f"{name} {number + 1}, {side}: {sides[side][-1]:.4g} s", file=sys.stderr)
    medians = {side: statistics.median(seconds) for side, seconds in sides.items()}
    return {"runs": sides, "medians": medians, "ratio": medians["this tree"] / medians["base"]}


def main() -> None:
    """Run the benchmarks and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit", help="the other commit")
    parser.add_argument("--runs", type=int, default=7, help="counted runs of each side")
    parser.add_argument("--only", action="append", choices=NAMES, help="run only this benchmark")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = {}
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        base = stack.enter_context(checkout(options.commit, directory))
        cluster = stack.enter_context(Cluster.start(directory / "kafka"))
        for name in options.only or NAMES:
            results[name] = compare(name, base, options.runs, cluster, directory)
    if options.json:
        print(json.dumps(results))
        return
    for name, result in results.items():
        here_s, base_s = result["medians"]["this tree"], result["medians"]["base"]
        print(
            f"{name:8} this tree {here_s:.4g} s, base {base_s:.4g} s, ratio {result['ratio']:.3f}"
        )


if __name__ == "__main__":
    main()
