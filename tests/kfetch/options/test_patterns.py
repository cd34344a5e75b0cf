"""``subscribePattern``: what Java's regular expressions have and Python's lack."""

from __future__ import annotations

import re

import pytest

from kfetch.errors import OptionError
from kfetch.spark.options import parse

# A pattern of Java, its form in Python, names of topics that it chooses, and other names.
JAVA = [
    (r"^\Qa.b\E$", r"^a\.b$", ["a.b"], ["axb"]),
    (r"^\Qa.b", r"^a\.b", ["a.b"], ["axb"]),
    (r"^\p{Alpha}+$", r"^[a-zA-Z]+$", ["aB"], ["a1"]),
    (r"^\p{IsAlphabetic}\p{Nd}$", r"^[a-zA-Z][0-9]$", ["a1"], ["ab"]),
    (r"^[\p{Lower}_]+$", r"^[a-z_]+$", ["a_b"], ["A"]),
    (r"^[_\p{Lower}\p{Digit}]+$", r"^[_a-z0-9]+$", ["a_1"], ["A"]),
    (r"^\P{Upper}+$", r"^[^A-Z]+$", ["a-1"], ["aB"]),
    (r"^a\p{Punct}b$", r"^a[._\-]b$", ["a.b", "a-b"], ["a1b"]),
    (r"^a\h*b$", r"^a[ \t]*b$", ["ab"], ["axb"]),
    (r"a\z", r"a\Z", ["ba"], ["ab"]),
    (r"(?<kind>a|b)-\k<kind>", r"(?P<kind>a|b)-(?P=kind)", ["a-a"], ["a-b"]),
    ("^o-[a-z&&[^x]]+$", "^o-(?:(?![x])[a-z])+$", ["o-ab"], ["o-axb"]),
    ("^[a-z&&[def]]+$", "^(?:(?=[def])[a-z])+$", ["de"], ["da"]),
    ("^[a-z&&def]+$", "^(?:(?=[def])[a-z])+$", ["de"], ["da"]),
    ("^[a-d[m-p]]+$", "^[a-dm-p]+$", ["am"], ["e"]),
    (r"^[[a-d]\]]$", r"^[a-d\]]$", ["a"], ["e"]),
    (r"\\\p{Lower}", r"\\[a-z]", [], ["a"]),
    (r"\\p\z", r"\\p\Z", [], ["p"]),
]
# Both languages have these forms, with the same meaning for names of topics.
BOTH = ["a++", "a*+b", "a?+b", "a{1,2}+", "(?>a)b", "(?i)a", r"\w\d\b", r"\u0061", "[a-c]", r"[\[]"]
WITHOUT_A_REPLACEMENT = [
    r"\X",
    r"\p{Greek}",
    "a(?i)b",
    "(?<=a{1,2})b",
    "[[:alpha:]]",
    "[^a-d[m-p]]",
    "[a[-z]]",
    "[[a]-z]",
    "[a[b&&c]]",
]


def error(pattern: str) -> OptionError:
    """The error for a pattern."""
    with pytest.raises(OptionError) as refusal:
        parse({"kafka.bootstrap.servers": "h:1", "subscribePattern": pattern})
    return refusal.value


@pytest.mark.parametrize(("java", "python", "chosen", "others"), JAVA)
def test_the_error_gives_the_pattern_in_python(
    java: str, python: str, chosen: list[str], others: list[str]
) -> None:
    """The advice is the whole pattern in Python. It chooses the topics that Java would."""
    assert error(java).message.endswith(f": write {python}")
    assert [*chosen] == [name for name in (*chosen, *others) if re.search(python, name)]
    parse({"kafka.bootstrap.servers": "h:1", "subscribePattern": python})


@pytest.mark.parametrize("pattern", BOTH)
def test_what_both_languages_have_is_accepted(pattern: str) -> None:
    """Possessive quantifiers and atomic groups are in Python's ``re``, too."""
    parse({"kafka.bootstrap.servers": "h:1", "subscribePattern": pattern})


@pytest.mark.parametrize("pattern", WITHOUT_A_REPLACEMENT)
def test_no_advice_is_better_than_a_wrong_one(pattern: str) -> None:
    """If kfetch knows no pattern that means the same, the error only says what is wrong."""
    assert ": write " not in error(pattern).message
    assert "Python's re" in error(pattern).message
