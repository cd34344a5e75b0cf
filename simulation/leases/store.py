"""A store of one lease, and a table that refuses a second commit of a number, as Delta does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from kfetch.storage.lease import parse
from kfetch.storage.versions import Version
from simulation.kernel import Kernel

REQUEST_S = 5.0
"""A caller gives up after this: a sixth of a lease, as a run's requests."""
_LATE_S = 4.0
"""A store carries out within this time what its caller has given up: less than a lease's margin."""


class Client(Protocol):
    """A host that asks the store, and what it is told of its requests."""

    @property
    def cut_until(self) -> float:
        """Until then, it can't reach the store."""

    def looked(self, epoch: int | None) -> None:
        """Its process has read the lease, which had this epoch then; None: without an answer."""

    def writes(self, content: bytes) -> None:
        """Its process is about to write the lease."""


class Store:
    """Its state, and what its requests cost."""

    def __init__(self, kernel: Kernel, on_change: Callable[[bytes], object]) -> None:
        """``on_change`` gets each new version of the lease."""
        self._kernel, self.on_change = kernel, on_change
        self._draw = kernel.random
        self.versions: list[bytes] = []
        self.committed: dict[int, str] = {}
        """The host of each micro-batch."""
        self.last_commit_s = 0.0
        self.trouble_until = 0.0
        """Until then, requests fail by chance."""

    @property
    def epoch(self) -> int:
        """The epoch of the lease, whether anybody holds it or not."""
        lease = parse(self.versions[-1]) if self.versions else None
        return lease.epoch if lease else 0

    def ask(self, client: Client, apply: Callable[[], Any]) -> Any:
        """Carry out a client's request. Raises OSError without an answer.

        The store carries it out whatever becomes of the process that has asked.
        """
        kernel, answer, waiters = self._kernel, list[Any](), []  # type: ignore[var-annotated]

        def carry_out() -> None:
            answer.append(apply())
            kernel.after(self._draw.uniform(0.001, 0.05), kernel.wake, waiters)

        fate = self._fate(client)
        if fate == "refused":
            kernel.sleep(0.02)
            raise OSError(5, "503 Slow Down")
        if fate != "lost before":
            late_s = REQUEST_S + self._draw.uniform(0, _LATE_S) if fate == "late" else 0.0
            kernel.after(late_s + self._draw.uniform(0.001, 0.05), carry_out)
        if fate == "well":
            kernel.wait(waiters)
            return answer[0]
        kernel.sleep(REQUEST_S)
        raise OSError(5, "no answer")

    def _fate(self, client: Client) -> str:
        now = self._kernel.now
        if now < client.cut_until:
            return "lost before"
        if now < self.trouble_until and self._draw.random() < 0.5:
            return self._draw.choice(("refused", "lost before", "lost after", "late"))
        return "well"


class LeaseFile:
    """The lease as a client sees it: a ``VersionedFile``."""

    def __init__(self, client: Client, store: Store) -> None:
        self._client, self._store = client, store

    def __str__(self) -> str:
        return "s3a://lake/ck.lease"

    def read(self) -> Version | None:
        """Returns the present version."""
        version: Version | None
        try:
            version, epoch = self._store.ask(
                self._client, lambda: (self._present(), self._store.epoch)
            )
        except OSError:
            self._client.looked(None)
            raise
        self._client.looked(epoch)
        return version

    def write(self, content: bytes, before: str | None) -> str | None:
        """Write the next version, if the one before is the present one."""
        self._client.writes(content)
        return self._store.ask(self._client, lambda: self._replaced(content, before))  # type: ignore[no-any-return]

    def is_conditional(self) -> bool:
        """Returns True."""
        return True

    def _present(self) -> Version | None:
        versions = self._store.versions
        return Version(str(len(versions)), versions[-1]) if versions else None

    def _replaced(self, content: bytes, before: str | None) -> str | None:
        versions = self._store.versions
        if before != (str(len(versions)) if versions else None):
            return str(len(versions)) if versions[-1] == content else None
        versions.append(content)
        self._store.on_change(content)
        return str(len(versions))
