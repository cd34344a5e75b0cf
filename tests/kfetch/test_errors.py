"""The error tree: picklable to the last attribute, and as its docstring draws it."""

from __future__ import annotations

import pickle
import re

import pytest

from kfetch import errors
from kfetch.errors import KfetchError

TREE = [
    found
    for found in vars(errors).values()
    if isinstance(found, type) and issubclass(found, KfetchError)
]
CONTEXT = {"topic": "clicks", "partition": 3, "offset": 2**62, "code": 6, "retriable": True}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("kind", TREE, ids=lambda kind: kind.__name__)
def test_pickling_keeps_everything(kind: type[KfetchError], protocol: int) -> None:
    """An error arrives in another process with its class, its message and its context."""
    sent = kind("clicks-3: gone", **CONTEXT)
    arrived = pickle.loads(pickle.dumps(sent, protocol))

    assert kind is type(arrived)
    assert "clicks-3: gone" == str(arrived) == arrived.message
    assert CONTEXT == arrived.context
    assert 2**62 == arrived.offset


@pytest.mark.parametrize("kind", TREE, ids=lambda kind: kind.__name__)
def test_unknown_attribute_is_an_attribute_error(kind: type[KfetchError]) -> None:
    """A name that the context lacks is no attribute, not a KeyError and not None."""
    with pytest.raises(AttributeError, match=r"^broker$"):
        _ = kind("message", topic="t").broker


def test_docstring_draws_the_tree() -> None:
    """Every class stands in the module's docstring, below its base class."""
    drawn: dict[str, str] = {}
    above: dict[int, str] = {}
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"    ((?:│   |    )*)(?:[├└]── )?([A-Z]\w+)(?:\s|$)", line)
        if found is None:
            continue
        depth = len(found[1]) // 4 + ("── " in line)
        above[depth] = found[2]
        drawn[found[2]] = above[depth - 1] if depth else "Exception"

    built = {kind.__name__: kind.__bases__[0].__name__ for kind in TREE}
    assert built == drawn


def test_option_error_is_a_value_error() -> None:
    """Spark users who catch ValueError catch a bad option too."""
    assert issubclass(errors.OptionError, ValueError)
