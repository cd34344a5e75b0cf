"""Which of the events that a seed draws happen."""

from __future__ import annotations

from collections.abc import Sequence


class NoSuchEvent(ValueError):
    """A seed draws fewer events than a number says."""


def chosen(count: int, events: Sequence[int] | None) -> tuple[int, ...]:
    """Returns the numbers of the events that happen; None: all. Raises NoSuchEvent."""
    numbers = tuple(range(count) if events is None else events)
    if unknown := [number for number in numbers if not 0 <= number < count]:
        raise NoSuchEvent(
            f"--events: the simulation has {count} events, from 0 on, and none has the number "
            f"{unknown[0]}; the code or the arguments have changed since: run the seed without "
            "--events"
        )
    return numbers
