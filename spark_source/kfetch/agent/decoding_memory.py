"""A reader's memory while it decodes: bytes of the agent's budget, reserved before their use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kfetch.agent.budget import Budget
from kfetch.agent.freed_memory import return_freed_memory
from kfetch.records import Memory

# While a decoder waits for memory, it checks its worker at this interval.
_WORKER_CHECK_S = 0.2


class DecodingMemory(Memory):
    """The memory of one reader's decode calls, and the context that each call runs in.

    ``check_worker`` is called while the decoder waits. It may raise, and it may return memory.
    """

    def __init__(self, budget: Budget, check_worker: Callable[[], None]) -> None:
        super().__init__()
        self._budget = budget
        self._check_worker = check_worker
        self._size = 0

    @property
    def part_bytes(self) -> int:
        """See Memory."""
        return self._budget.part_bytes

    def reserve(self, size: int) -> None:
        """See Memory. Raises what ``check_worker`` raises."""
        if not self._budget.grow_decoder(size, self._size + size):
            self._budget.pause_decoder()
            self._run(size)
        self._size += size

    def release(self, size: int) -> None:
        """See Memory."""
        self._budget.shrink_decoder(size)
        self._size -= size

    @contextmanager
    def idle(self) -> Iterator[None]:
        """See Memory. At its end the decoder waits until it may run again."""
        try:
            with self._budget.idle_decoder():
                yield
        finally:
            self._run(0)

    def __enter__(self) -> DecodingMemory:
        """Wait until the decoder may run."""
        try:
            self._run(0)
        except BaseException:
            self._budget.stop_decoder(self, 0)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Give all memory back, and let the next decoder run."""
        size, self._size = self._size, 0
        if self._budget.needs_free_pages:
            return_freed_memory()
        self._budget.stop_decoder(self, size)

    def _run(self, size: int) -> None:
        timeout_s = 0.0
        while not self._budget.run_decoder(self, size, self._size + size, timeout_s):
            self._check_worker()
            timeout_s = _WORKER_CHECK_S
