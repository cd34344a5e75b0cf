"""kafka-python's message classes without its clients, for processes that are kfetch's alone.

Of kafka-python only the messages are used here, and the first micro-batch waits for each import of
the driver's source process and of a new agent: 170 ms for three clients that nobody there asks for.
"""

import sys
from importlib.util import find_spec, module_from_spec
from typing import Any

_PACKAGE = "kafka"


def defer_clients() -> None:
    """Let messages be imported without the package's ``__init__``, which imports the clients.

    It runs when somebody asks the package for something of its own (PEP 562). Where it has run
    already, nothing changes. Not for a user's process, which may do so from several threads.
    """
    spec = find_spec(_PACKAGE)
    if _PACKAGE in sys.modules or spec is None or spec.loader is None:
        return
    module, loader = module_from_spec(spec), spec.loader

    def run(name: str) -> Any:
        module.__dict__.pop("__getattr__", None)
        loader.exec_module(module)
        return getattr(module, name)

    module.__getattr__ = run  # type: ignore[method-assign]
    sys.modules[_PACKAGE] = module
