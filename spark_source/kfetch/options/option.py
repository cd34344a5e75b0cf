"""One option: its declaration, and how its text becomes a value.

An option is declared once, with its name, default, converter and line of explanation. Parser,
default values, checks and documents read the declaration. Many options are fields of a dataclass:
``option_field`` declares such a field. Options that are read together stand in a table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from kfetch.errors import OptionError
from kfetch.options.secret import Secret

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")


class Treatment(Enum):
    """How kfetch treats an option."""

    BUILT = "built"
    BATCH = "batch reads only; in streams an error"
    PLANNED = "not built yet: an error"
    REFUSED = "an error"
    IGNORED = "accepted without effect, with a warning"


_OF_DEFAULT = object()


@dataclass(frozen=True, slots=True)
class Option:
    """The declaration of an option, and its row in docs/reference/options.md."""

    name: str
    """As documents write it. Users may write it in any case."""
    meaning: str
    """A line of explanation. It names pages of docs/ by their paths."""
    convert: Callable[[str], Any] = str
    """Returns the value of a text. Its ValueError completes "it must be …"."""
    default: str = "none"
    """The default text, as documents show it. If it depends on other options, ``OptionReader.text``
    reads the option."""
    unset: Any = _OF_DEFAULT
    """The value without the option, if it is not that of the default text."""
    treatment: Treatment = Treatment.BUILT
    streams_only: bool = False
    """Whether batch reads ignore it, with a warning."""

    @property
    def default_value(self) -> Any:
        """The value of an option that is not set."""
        if self.unset is not _OF_DEFAULT:
            return self.unset
        if self.default != "none":
            return self.convert(self.default)
        return "" if self.convert is str else None


def option_field(
    name: str,
    meaning: str,
    convert: Callable[[str], Any] = str,
    default: str = "none",
    **more: Any,
) -> Any:
    """Declare a field of a dataclass as an option. The arguments are those of ``Option``."""
    return field_of(Option(name, meaning, convert, default, **more))


def field_of(option: Option) -> Any:
    """Declare a field of a dataclass as an option that has a declaration elsewhere."""
    return field(default=option.default_value, metadata={"option": option})


def declared(kind: type[DataclassInstance]) -> tuple[Option, ...]:
    """Returns the options that a dataclass declares, in the order of its fields."""
    return tuple(each.metadata["option"] for each in fields(kind) if each.metadata)


def by_name(*options: Option) -> Mapping[str, Option]:
    """Returns a table of options by their names, in their order."""
    return {option.name: option for option in options}


class OptionReader:
    """Reads one option at a time. The error for an invalid text names the option."""

    def __init__(self, lowered: Mapping[str, str]) -> None:
        self._lowered = lowered

    def __contains__(self, name: str) -> bool:
        """Whether an option is set."""
        return name.lower() in self._lowered

    def names(self, prefix: str) -> list[str]:
        """Returns the names of the options that begin with ``prefix``, all in lower case."""
        return [name for name in self._lowered if name.startswith(prefix)]

    def text(self, name: str) -> str:
        """Returns the text of an option, empty if it is not set."""
        return self._lowered.get(name.lower(), "").strip()

    def __call__(self, option: Option) -> Any:
        """Returns the converted text of an option, or its default value if it is not set."""
        text = self._lowered.get(option.name.lower())
        if text is None:
            return option.default_value
        try:
            return option.convert(text.strip())
        except OptionError:
            raise
        except ValueError as problem:
            raise OptionError.about(option.name, f"is {text!r}, but it must be {problem}") from None

    def group(self, kind: type[T], **others: Any) -> T:
        """Returns a value of a dataclass with its options. ``others``: fields that are given."""
        options = [each for each in fields(kind) if each.metadata and each.name not in others]
        return kind(**{each.name: self(each.metadata["option"]) for each in options}, **others)

    def password(self, name: str) -> Secret | None:
        """Returns an option's secret with its outer white space, as JAAS keeps it.

        Only line ends at its end are left out, because a file's text has one. Java's client strips
        its own options of type PASSWORD, such as ``ssl.key.password``. They are read like others.
        """
        text = self._lowered.get(name.lower())
        return None if text is None else Secret(text.rstrip("\r\n"))
