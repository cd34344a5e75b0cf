"""Puts stand-ins into the modules of the product, for the time of one simulation.

The product imports modules whole (``import time``), so its module's global ``time`` is replaced.
No line of the product knows. A lock that a module made when it was imported is replaced as well.

What a module keeps in a variable belongs to a process, and simulated processes share one
interpreter. So ``ProcessGlobals`` gives each process its own value of these variables.
"""

from __future__ import annotations

import _thread
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from simulation.kernel.scheduler import Kernel, Process
from simulation.kernel.stand_ins import Lock, RLock

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
def substituted(
    kernel: Kernel, modules: list[ModuleType], stand_ins: Mapping[str, Any]
) -> Iterator[None]:
    """A context in which the modules' globals of these names are the stand-ins."""
    former: list[tuple[dict[str, Any], str, Any]] = []
    for module in modules:
        names = vars(module)
        for name, value in list(names.items()):
            stand_in = _stand_in(kernel, name, value, stand_ins)
            if stand_in is not None:
                former.append((names, name, value))
                names[name] = stand_in
    try:
        yield
    finally:
        for names, name, value in reversed(former):
            names[name] = value


def _stand_in(kernel: Kernel, name: str, value: Any, stand_ins: Mapping[str, Any]) -> Any:
    if isinstance(value, ModuleType):
        return stand_ins.get(value.__name__)
    if isinstance(value, _REAL_LOCKS):
        return RLock(kernel) if isinstance(value, _thread.RLock) else Lock(kernel)
    return None


class ProcessGlobals:
    """Values of module variables that each simulated process has for itself.

    ``initial``: by (module, variable), what makes the value of a new process.
    """

    def __init__(self, initial: Mapping[tuple[str, str], Callable[[], Any]]) -> None:
        self._initial = initial
        self._shown: Process | None = None

    def show(self, process: Process) -> None:
        """Put this process's values into the modules. A kernel calls it before each switch."""
        former = self._shown
        self._shown = process
        for key, make in self._initial.items():
            names = vars(sys.modules[key[0]])
            if former is not None:
                former.globals[key] = names[key[1]]
            if key not in process.globals:
                process.globals[key] = make()
            names[key[1]] = process.globals[key]
