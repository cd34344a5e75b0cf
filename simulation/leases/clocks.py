"""A host's clock, and what ends a process with its lease."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from simulation.kernel import Kernel


class HostClock:
    """A steady clock of a host, which differs from others. It can stand still."""

    def __init__(self, kernel: Kernel, rate: float, offset: float) -> None:
        """``rate``: its seconds for a real one."""
        self.rate = rate
        self._kernel, self._offset = kernel, offset
        self._stood_still_s = 0.0
        self._still_since: float | None = None

    @property
    def stands_still(self) -> bool:
        """Whether the whole machine is paused."""
        return self._still_since is not None

    def now(self) -> float:
        """Returns its seconds."""
        now = self._kernel.now if self._still_since is None else self._still_since
        return self._offset + self.rate * (now - self._stood_still_s)

    def sleep(self, seconds: float) -> None:
        """Wait so many of its seconds."""
        self._kernel.sleep(seconds / self.rate)

    def stop(self) -> None:
        """Stand still until ``go_on``."""
        self._still_since = self._kernel.now

    def go_on(self) -> None:
        """Go on where it stood still, if it did."""
        if self._still_since is not None:
            self._stood_still_s += self._kernel.now - self._still_since
            self._still_since = None


class Mortal(Protocol):
    """A process that a switch ends."""

    @property
    def alive(self) -> bool:
        """Whether it runs, or is frozen."""

    @property
    def frozen(self) -> bool:
        """Whether it is stopped."""


class Switch:
    """Ends a process at a time of its host's clock: the kernel does, or a thread of its own."""

    def __init__(
        self,
        kernel: Kernel,
        clock: HostClock,
        process: Mortal,
        end: Callable[[], object],
        *,
        by_kernel: bool = True,
    ) -> None:
        """``end`` ends the process. Unless ``by_kernel``, a frozen process stays."""
        self._kernel, self._clock, self._process, self._end = kernel, clock, process, end
        self._by_kernel = by_kernel
        self._at = 0.0
        self._armed = 0

    def end_in(self, seconds: float) -> None:
        """End the process in so many seconds of the host's clock."""
        self._at = self._clock.now() + seconds
        self._armed += 1
        self._wait(self._armed)

    def close(self) -> None:
        """Let the process live."""
        self._armed += 1

    def _wait(self, armed: int) -> None:
        left_s = max(self._at - self._clock.now(), 0.0) / self._clock.rate
        self._kernel.after(max(left_s, 0.001), self._ring, armed)

    def _ring(self, armed: int) -> None:
        if armed != self._armed or not self._process.alive:
            return
        asleep = self._process.frozen and not self._by_kernel
        if self._clock.now() < self._at or asleep:
            self._kernel.after(0.3, self._ring, armed)
        else:
            self._end()
