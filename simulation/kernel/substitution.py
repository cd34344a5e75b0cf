"""Puts stand-ins into the modules of the product, for the time of one simulation.

The product imports modules whole (``import time``), so its module's global ``time`` is replaced.
No line of the product knows.

What a module keeps in a variable belongs to a process, and simulated processes share one
interpreter. So ``ProcessGlobals`` gives each process its own value of these variables, and its own
lock in place of one that a module made when it was imported.
"""

from __future__ import annotations

import _thread
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any

from simulation.kernel.scheduler import Kernel, Process
from simulation.kernel.stand_ins import Lock, RLock

_MISSING = object()
_REAL_LOCKS = (_thread.LockType, _thread.RLock)


def modules_of(*packages: str) -> list[ModuleType]:
    """Returns the loaded modules of these packages, by name."""
    prefixes = tuple(f"{package}." for package in packages)
    return [
        module
        for name, module in sorted(sys.modules.items())
        if module is not None and (name in packages or name.startswith(prefixes))
    ]


@contextmanager
def substituted(modules: list[ModuleType], stand_ins: Mapping[str, Any]) -> Iterator[None]:
    """A context in which the modules' globals of these names are the stand-ins."""
    former: list[tuple[dict[str, Any], str, Any]] = []
    for module in modules:
        names = vars(module)
        for name, value in list(names.items()):
            stand_in = stand_ins.get(value.__name__) if isinstance(value, ModuleType) else None
            if stand_in is not None:
                former.append((names, name, value))
                names[name] = stand_in
    try:
        yield
    finally:
        for names, name, value in reversed(former):
            names[name] = value


@contextmanager
def patched(values: Mapping[tuple[str, str], Any]) -> Iterator[None]:
    """A context in which variables of modules have other values, by (module, variable).

    A module need not have the variable: its own ``open`` hides the built-in one.
    """
    former = {key: vars(sys.modules[key[0]]).get(key[1], _MISSING) for key in values}
    for (module, name), value in values.items():
        vars(sys.modules[module])[name] = value
    try:
        yield
    finally:
        for (module, name), value in former.items():
            if value is _MISSING:
                del vars(sys.modules[module])[name]
            else:
                vars(sys.modules[module])[name] = value


def locks_of(kernel: Kernel, modules: list[ModuleType]) -> dict[tuple[str, str], Callable[[], Any]]:
    """Returns what makes each lock that a module keeps in a variable, for ``ProcessGlobals``."""
    return {
        (module.__name__, name): partial(_lock_like, kernel, value)
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, _REAL_LOCKS)
    }


def _lock_like(kernel: Kernel, real: Any) -> Lock | RLock:
    return RLock(kernel) if isinstance(real, _thread.RLock) else Lock(kernel)


class ProcessGlobals:
    """Values of module variables that each simulated process has for itself."""

    def __init__(self, initial: Mapping[tuple[str, str], Callable[[], Any]]) -> None:
        """``initial``: by module and variable, what makes the value of a new process."""
        self._initial = [
            (vars(sys.modules[m]), v, (m, v), make) for (m, v), make in initial.items()
        ]
        self._shown: Process | None = None

    def show(self, process: Process) -> None:
        """Put this process's values into the modules. A kernel calls it before each switch."""
        former, self._shown = self._shown, process
        if former is process:
            return
        mine = process.globals
        for names, variable, key, make in self._initial:
            if former is not None:
                former.globals[key] = names[variable]
            if key not in mine:
                mine[key] = make()
            names[variable] = mine[key]

    @contextmanager
    def installed(self, kernel: Kernel) -> Iterator[None]:
        """A context in which each process has its own values."""
        real = [names[variable] for names, variable, _, _ in self._initial]
        kernel.on_switch = self.show
        try:
            yield
        finally:
            kernel.on_switch = None
            for (names, variable, _, _), value in zip(self._initial, real, strict=True):
                names[variable] = value
