"""What can be chosen about a demo, and the limits that can not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One demo."""

    project: Path
    """The project file whose job ``clicks`` is run."""
    seconds: float = 40
    """How long events are produced."""
    rate: int = 20_000
    """Events a second."""
    keep: bool = False
    """Leave the broker's data, the table and the logs behind."""
    picture: Path
    """Where the PNG goes."""
    job: str = "clicks"
    partitions: int = 12
    stall_timeout_s: float = 120
    """Nothing may stand still for longer than this: machines differ, hangs don't."""

    @property
    def events(self) -> int:
        """How many events there will be."""
        return int(self.rate * self.seconds)
