"""How a sample fits a schema, with documents of many levels."""

from __future__ import annotations

import pytest

from kfetch.formats.columns.ddl import fields_text, parse_schema
from kfetch.formats.json import reference
from kfetch.formats.json.fit import fit, inferred
from kfetch.formats.json.infer import schema_of
from kfetch.formats.json.times import Zones

_GOOD = b'{"a":1}'


def _nested(levels: int, opening: str, closing: str) -> bytes:
    """Returns an object with that many levels."""
    inner = levels - 1
    return f'{{"b":{opening * inner}1{closing * inner}}}'.encode()


_FORMS = [('{"b":', "}"), ("[", "]")]


@pytest.mark.parametrize(("opening", "closing"), _FORMS)
@pytest.mark.parametrize("levels", [33, 100, 600, 1000, 1001, 20_000])
def test_a_document_of_too_many_levels_does_not_fit(
    levels: int, opening: str, closing: str
) -> None:
    """It counts as one that does not fit, says why, and changes no schema."""
    deep = _nested(levels, opening, closing)
    schema = schema_of(inferred([_GOOD, deep]))
    assert parse_schema("a BIGINT") == schema
    found = fit([_GOOD, deep], schema, Zones())
    assert (1, ()) == (found.good, found.unknown)
    ((at, problem),) = found.problems
    assert at == 1
    assert "levels lie inside each other" in problem.what
    assert problem.at <= len(deep)


@pytest.mark.parametrize(("opening", "closing"), _FORMS)
def test_a_schema_may_have_as_many_levels_as_ddl(opening: str, closing: str) -> None:
    """A document of 32 levels has a schema that kfetch reads, and fits it."""
    deep = _nested(32, opening, closing)
    schema = schema_of(inferred([deep]))
    assert schema == parse_schema(fields_text(schema))
    assert 1 == fit([deep], schema, Zones()).good


@pytest.mark.parametrize(("opening", "closing"), _FORMS)
@pytest.mark.parametrize("ddl", ["b STRING", "x INT", "b ARRAY<ARRAY<INT>>", "b MAP<STRING, INT>"])
def test_the_exact_decoder_survives_many_levels(opening: str, closing: str, ddl: str) -> None:
    """Up to 1,000 levels are read, and more are a problem of the record."""
    for levels in (600, 1000, 1001, 20_000):
        problem = reference.decode(
            _nested(levels, opening, closing), parse_schema(ddl), Zones()
        ).problem
        too_deep = problem is not None and "more than 1000 levels" in problem.what
        assert too_deep or levels <= 1000
