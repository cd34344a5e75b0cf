"""Hostile bytes: damaged batches give right rows or a clean error, from both decoders the same.

    python -m tests.kfetch.records.fuzz [--count N] [--seconds S] [--seed N]        (make fuzz)

Every sample of tests/vectors is flipped, cut, doubled, and its lengths and counts overwritten. Each
damaged reply is decoded by both decoders, with CRCs and without, failing and skipping, and walked
over by both walks. With CRCs no row may come out that did not go in (its offset aside, which
brokers write outside the CRC). Memory is limited to 2 GiB of address space more than at the start,
an attempt to 10 seconds.
"""

from __future__ import annotations

import argparse
import random
import resource
import signal
import struct
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

from kfetch import decoding
from kfetch.compiled import walk
from kfetch.errors import KfetchError
from kfetch.records import Columns, batch
from tests.kfetch.decoders import DECODERS, decode, rows_of
from tests.kfetch.records.batch_builder import make_slice

VECTORS = Path(__file__).parents[2] / "vectors"
EDGES = (0, 1, -1, 2**31 - 1, -(2**31), 2**20, 12, 61)


def samples() -> list[bytes]:
    """Sound replies of every format and codec."""
    return [path.read_bytes() for path in sorted(VECTORS.glob("*/*.bin"))]


def mutation(rng: random.Random, data: bytes) -> bytes:
    """A flip, a new byte, a 32-bit edge, a cut-out, a doubling, or a cut end."""
    out, at = bytearray(data), rng.randrange(len(data))
    kind = rng.randrange(7)
    if kind <= 1:
        out[at] ^= 1 << rng.randrange(8)
    elif kind == 2:
        out[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
    elif kind == 3:
        out[at : at + 4] = struct.pack(">i", rng.choice(EDGES))
    elif kind == 4:
        del out[at : at + rng.randrange(1, 9)]
    elif kind == 5:
        out[at:at] = out[at : at + rng.randrange(1, 90)]
    else:
        del out[at:]
    return bytes(out)


def outcome(name: str, data: bytes, *, check: bool, skip: bool, limits: tuple[int, int]) -> Any:
    """Rows, or the error, and what was skipped."""
    reports: list[str] = []
    decoding.kernel = lambda: DECODERS[name]
    try:
        batch = decode(
            [make_slice(data, *limits)],
            columns=Columns(True, True, True),
            check_crcs=check,
            on_corrupt=(lambda error: reports.append(error.message)) if skip else None,
        )
    except KfetchError as error:
        return type(error), error.message, reports
    if batch is not None:
        batch.validate(full=True)
    return ([] if batch is None else rows_of(batch)), reports


def contents(rows: list[Any]) -> Counter[Any]:
    """The rows without their offsets."""
    return Counter(repr((*row[:4], *row[5:])) for row in rows)


def attempt(rng: random.Random, data: bytes, right: Counter[Any]) -> bool:
    """One damaged reply; whether it failed. Raises AssertionError if the answer is wrong."""
    damaged = mutation(rng, data)
    while damaged and rng.random() < 0.3:
        damaged = mutation(rng, damaged)
    check, skip = rng.random() < 0.5, rng.random() < 0.5
    limits = (0, 2**62) if rng.random() < 0.7 else (1003, 1009)
    options: dict[str, Any] = {"check": check, "skip": skip, "limits": limits}
    expected = outcome("reference", damaged, **options)
    assert expected == outcome("kernel", damaged, **options), (damaged.hex(), options)
    walked = batch.walk(memoryview(damaged), limits[0])
    with patch.object(walk, "_FEW", 0):
        assert walked == walk.walk(memoryview(damaged), limits[0]), (damaged.hex(), options)
    failed = len(expected) == 3
    if check and not failed:
        # A doubled batch is caught by its offsets, so every row comes out once at most.
        assert contents(expected[0]) <= right, (damaged.hex(), options)
    return failed


def attempts(rng: random.Random) -> Iterator[bool]:
    """Attempts without end, over all samples."""
    known = [
        (data, contents(outcome("kernel", data, check=True, skip=False, limits=(0, 2**62))[0]))
        for data in samples()
    ]
    while True:
        yield attempt(rng, *rng.choice(known))


def main() -> None:
    """The long run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=200_000, help="attempts at most")
    parser.add_argument("--seconds", type=float, default=240, help="time at most")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    arguments = parser.parse_args()
    until, done, failed = time.monotonic() + arguments.seconds, 0, 0
    running = attempts(random.Random(arguments.seed))
    next(running)  # loads the kernel before memory is limited
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (2 << 30), resource.RLIM_INFINITY))
    signal.signal(signal.SIGPROF, lambda *_: sys.exit(f"seed {arguments.seed}: hangs after {done}"))
    while done < arguments.count and time.monotonic() < until:
        signal.setitimer(
            signal.ITIMER_PROF, 10
        )  # of processor time: others may use the machine, too
        failed += next(running)
        done += 1
    signal.setitimer(signal.ITIMER_PROF, 0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(
        f"seed {arguments.seed}: {done:,} damaged replies, "
        f"{failed:,} clean errors, the others right;"
    )
    print(f"both decoders agree on all; peak memory {peak} MiB")


if __name__ == "__main__":
    main()
