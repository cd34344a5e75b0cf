"""The error tree: each error survives pickling, has one shape, and stands in the docstring."""

from __future__ import annotations

import pickle
import re

import pytest

from kfetch import errors
from kfetch.admin.explanations import classes
from kfetch.agent.channel import ChannelClosed, ChannelTimeout
from kfetch.errors import KfetchError, OptionError
from kfetch_jobs import errors as jobs_errors
from kfetch_jobs.errors import ConfigError, RecordsLost

TREE = [
    found
    for found in vars(errors).values()
    if isinstance(found, type) and issubclass(found, KfetchError)
]
ALL = classes()
WHERE = {"topic": "clicks", "partition": 3, "offset": 2**62, "code": 6, "retriable": True}


def error_of(kind: type[KfetchError]) -> KfetchError:
    """Returns an error of this class."""
    if issubclass(kind, ConfigError):
        return kind("a.yml:1: wrong", "a.yml:2: wrong, too")
    return kind("clicks-3: gone", action="look elsewhere", **WHERE)


@pytest.mark.parametrize(
    "kind", [*ALL, ChannelClosed, ChannelTimeout], ids=lambda kind: kind.__name__
)
def test_pickling_keeps_everything(kind: type[KfetchError]) -> None:
    """An error of either tree arrives in another process with its class and all attributes."""
    sent = error_of(kind)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        arrived = pickle.loads(pickle.dumps(sent, protocol))

        assert kind is type(arrived)
        assert vars(sent) == vars(arrived)
        assert (str(sent), sent.args) == (str(arrived), arrived.args)


@pytest.mark.parametrize("kind", TREE, ids=lambda kind: kind.__name__)
def test_unknown_attribute_is_an_attribute_error(kind: type[KfetchError]) -> None:
    """A name that ``where`` lacks is no attribute, not a KeyError and not None."""
    with pytest.raises(AttributeError, match=r"^broker$"):
        _ = kind("message", topic="t").broker


def test_one_shape() -> None:
    """What happened, what to do and where are attributes; the sentence is made of the first two."""
    error = OptionError("option x is not known", action="did you mean y?", option="x")

    assert ("option x is not known", "did you mean y?") == (error.what, error.action)
    assert ({"option": "x"}, "x") == (error.where, error.option)
    assert "option x is not known: did you mean y?" == error.message
    assert "option x is not known: did you mean y? [OPTION_INVALID]" == str(error)


def test_without_advice() -> None:
    """An error without an action is its ``what`` alone."""
    assert "gone" == KfetchError("gone").message
    assert "gone [KFETCH_ERROR]" == str(KfetchError("gone"))


def test_advice_that_is_a_sentence() -> None:
    """An action with a capital letter follows a full stop."""
    assert "It is gone. Wait for it" == KfetchError("It is gone", action="Wait for it").message


def test_prefixed_keeps_the_parts() -> None:
    """With an activity in front, class, advice and context stay."""
    error = errors.BrokerError("no leader", action="wait", code=5).prefixed("planning")

    assert ("planning: no leader", "wait", {"code": 5}) == (error.what, error.action, error.where)
    assert errors.BrokerError is type(error)


def test_the_code_of_spark_is_not_repeated() -> None:
    """A sentence in Spark's own words begins with Spark's code, which is shown once."""
    sentence = "[KAFKA_MALFORMED_RECORD_TIMESTAMP] Record at topic t"

    assert sentence == str(errors.MalformedTimestamp(sentence))


def test_a_jobs_error_has_the_code_of_its_cause_too() -> None:
    """If an error of the source ends a run, the job's code comes first, then the source's code."""
    error = RecordsLost("job a failed", cause_condition="LOG_TRUNCATED")

    assert "job a failed [RECORDS_LOST.LOG_TRUNCATED]" == str(error)
    assert "job a failed [RECORDS_LOST]" == str(RecordsLost("job a failed"))


def test_codes_are_unique() -> None:
    """No two classes of both trees have one code, and a code is a word in capitals."""
    codes = [kind.condition for kind in ALL]

    assert len({*codes}) == len(codes) > 35
    assert [] == [code for code in codes if not re.fullmatch(r"[A-Z]+(_[A-Z]+)*", code)]
    assert [] == [kind for kind in ALL if "condition" not in vars(kind)]


@pytest.mark.parametrize("module", [errors, jobs_errors], ids=["kfetch", "kfetch_jobs"])
def test_docstring_draws_the_tree(module: object) -> None:
    """Every class stands in its module's docstring, below its base class."""
    drawn: dict[str, str] = {}
    above: dict[int, str] = {}
    for line in (module.__doc__ or "").splitlines():
        found = re.match(r"    ((?:│   |    )*)(?:[├└]── )?([A-Z]\w+)(?:\s|$)", line)
        if found is None:
            continue
        depth = len(found[1]) // 4 + ("── " in line)
        above[depth] = found[2]
        drawn[found[2]] = above[depth - 1] if depth else ""

    root = drawn.keys() & {"KfetchError", "JobsError"}
    built = {
        kind.__name__: "" if kind.__name__ in root else kind.__bases__[0].__name__
        for kind in classes()
        if kind.__module__ == vars(module)["__name__"]
    }
    assert built == drawn


def test_option_error_is_a_value_error() -> None:
    """Spark users who catch ValueError catch a bad option too."""
    assert issubclass(errors.OptionError, ValueError)
