"""kafka-python's message classes without its clients, for processes that run only kfetch's code.

The driver's source process and a new agent use only the messages. The first micro-batch waits for
their imports, and three unused clients would take 170 ms of that.
"""

import sys
from importlib.util import find_spec, module_from_spec
from typing import Any

_PACKAGE = "kafka"


def defer_clients() -> None:
    """Makes ``import kafka`` skip the package's ``__init__``, which imports the clients.

    The ``__init__`` runs when code reads an attribute of the package (PEP 562). If it has already
    run, nothing changes. A user's process must not call this, because its threads may import
    kafka at the same time.
    """
    spec = find_spec(_PACKAGE)
    if _PACKAGE in sys.modules or spec is None or spec.loader is None:
        return
    module, loader = module_from_spec(spec), spec.loader

    def run_init(name: str) -> Any:
        module.__dict__.pop("__getattr__", None)
        loader.exec_module(module)
        return getattr(module, name)

    module.__getattr__ = run_init  # type: ignore[method-assign]
    sys.modules[_PACKAGE] = module
