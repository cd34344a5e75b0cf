"""Talking to brokers: connections, messages, versions. The only place with broker sockets.

``connection`` is one blocking connection for every API; ``messages`` asks the small questions
(Metadata, ListOffsets, OffsetsForLeaderEpoch); ``fetch`` encodes and decodes Fetch, the one big
message, without copying record bytes; ``cluster`` knows which broker to ask and tries again.

Of kafka-python only the message classes are used here, and whoever starts a query waits for each
import; so the package's own ``__init__``, which imports three clients, runs when somebody asks the
package for something of theirs.
"""

import sys
from importlib.util import find_spec, module_from_spec
from typing import Any


def _defer(package: str) -> None:
    """Let submodules be imported before their package's ``__init__`` has run (PEP 562)."""
    spec = find_spec(package)
    if package in sys.modules or spec is None or spec.loader is None:
        return
    module, loader = module_from_spec(spec), spec.loader

    def run(name: str) -> Any:
        module.__dict__.pop("__getattr__", None)
        loader.exec_module(module)
        return getattr(module, name)

    module.__getattr__ = run  # type: ignore[method-assign]
    sys.modules[package] = module


_defer("kafka")
