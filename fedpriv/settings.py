"""What a setting may be, declared once at its field: its type, what bounds it, and one sentence about it.

A field `clip: Annotated[float, positive, "c, the ℓ2 norm of an input"]` gives the check and its message
(`check_fields`), the help of `fedpriv list`, the tables of the docs and the JSON Schema of a study. What relates two
settings stays in a class's own `__post_init__`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from numbers import Integral
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from fedpriv.errors import Constraint, FedprivError, truth, word_among

WORDS = {int: "a whole number", float: "a number", str: "a word", bool: "true or false"}
_KNOWN: dict[type[Any], tuple[Setting, ...]] = {}  # by class: to read a class's hints takes longer than all the rest


@dataclass(frozen=True)
class Family:
    """A family of classes in another folder, by what one of them is called."""

    noun: str  # as in a message: "mechanism"


@dataclass(frozen=True, eq=False)
class Option:
    """One type that a setting may have, and what bounds it there: words of a Literal, and bool, are constraints too."""

    type: Any  # as it is annotated: a class, a Literal, a generic such as Mapping[str, Any]
    constraints: tuple[Constraint, ...] = ()  # all of which a value must meet

    def fits(self, value: Any) -> bool:
        """Whether a study's value is meant for this of a field's types: of whole number and share, `1` is the first."""
        if self.type in (int, float):
            return isinstance(value, Integral) == (self.type is int)
        if get_origin(self.type) is Literal:
            return isinstance(value, str)
        return not isinstance(self.type, type) or isinstance(value, self.type)

    def words(self) -> str:
        """What a setting of this type must be, for `fedpriv list` and the docs, such as "a number, positive"."""
        bounds = [own.words for own in self.constraints if own.words]
        if get_origin(self.type) is Literal or (bounds and bounds[0].startswith(WORDS.get(self.type, "a list"))):
            return ", ".join(bounds)
        return ", ".join([WORDS.get(self.type) or ("a table" if self.is_table else "a list"), *bounds])

    @property
    def holds_tables(self) -> bool:
        """Whether a setting of this type is a table of the study, or a list of them."""
        return self.is_table or any(is_dataclass(own) for own in get_args(self.type))

    @property
    def is_table(self) -> bool:
        """Whether a setting of this type is written as a table in the study's file."""
        return is_dataclass(self.type) or get_origin(self.type) is Mapping


@dataclass(frozen=True, eq=False)
class Setting:
    """A field of a class that is made from a table: what it may be, and what it is if nobody says."""

    name: str  # of the field
    sentence: str  # about it, for people
    options: tuple[Option, ...]  # the types it may have, in the order they are written in
    default: Any  # MISSING where it must be given
    family: Any = None  # of a table with a kind: its registry, or a `Family`

    @property
    def needed(self) -> bool:
        """Whether a study must give the setting, there being no default."""
        return self.default is MISSING

    def check(self, value: Any) -> None:
        """Refuse a value that the field does not allow, in one line; None is allowed where it is the default."""
        if value is None and self.default is None:
            return
        first = self.options[0]
        option = first if len(self.options) == 1 else next((own for own in self.options if own.fits(value)), first)
        for constraint in option.constraints:
            constraint(**{self.name: value})

    def words(self) -> str:
        """What the setting must be, for `fedpriv list` and the docs: a type and its bounds, or several with "or"."""
        noun = "" if self.family is None else f" that says which {self.family.noun}"
        return "; or ".join(option.words() + noun * option.holds_tables for option in self.options)


def settings_of(cls: type[Any]) -> tuple[Setting, ...]:
    """The settings of a dataclass by its annotated fields, in order; of any other class, none. For checks and help.

    >>> from fedpriv.mechanisms import Gaussian
    >>> [(own.name, own.words()) for own in settings_of(Gaussian)]
    [('clip', 'a number, positive'), ('noise', 'a number, positive')]
    """
    if cls in _KNOWN:
        return _KNOWN[cls]
    hints = get_type_hints(cls, include_extras=True) if is_dataclass(cls) else {}
    found = []
    for own in [each for each in fields(cls) if each.init] if hints else []:
        hint: Any = hints[own.name]
        notes = hint.__metadata__ if get_origin(hint) is Annotated else ()
        bare = hint.__origin__ if notes else hint
        types = get_args(bare) if get_origin(bare) in (Union, UnionType) else (bare,)
        bounds = tuple(note for note in notes if isinstance(note, Constraint))
        sentences = [note for note in notes if isinstance(note, str)]
        families = [note for note in notes if not isinstance(note, str | Constraint)]
        default = own.default if own.default_factory is MISSING else own.default_factory()
        options = tuple(_option(each, bounds) for each in types if each is not type(None))
        found.append(Setting(own.name, "; ".join(sentences), options, default, families[0] if families else None))
    _KNOWN[cls] = tuple(found)
    return _KNOWN[cls]


def fixed_tables(cls: type[Any], path: str = "") -> dict[str, Setting]:
    """The tables of fixed keys in a study, and those within them, by path: for `fedpriv list` and the docs.

    >>> from fedpriv.studies.study import Study
    >>> [path for path in fixed_tables(Study) if path.startswith("run")]
    ['run', 'run.stop']
    """
    found: dict[str, Setting] = {}
    for own in settings_of(cls):
        inner: Any = own.options[0].type
        if own.family is None and is_dataclass(inner):
            found |= {path + own.name: own, **fixed_tables(inner, f"{path}{own.name}.")}  # type: ignore[arg-type]
    return found


def check_fields(made: object) -> None:
    """Refuse an object whose fields hold what their declarations forbid: first thing in its `__post_init__`."""
    for setting in settings_of(type(made)):
        setting.check(getattr(made, setting.name))


def _option(hint: Any, bounds: tuple[Constraint, ...]) -> Option:
    """One of a field's types as `settings_of` lists it: with the bounds of the whole field and those of its own."""
    if get_origin(hint) is Annotated:
        return _option(
            hint.__origin__, (*bounds, *(note for note in hint.__metadata__ if isinstance(note, Constraint)))
        )
    if isinstance(hint, type) and is_dataclass(hint):
        return Option(
            hint, (Constraint("", {}, lambda own: "" if isinstance(own, hint) else f"must be a table, got {own!r}"),)
        )
    if get_origin(hint) is Literal:
        return Option(hint, (word_among(get_args(hint)), *bounds))
    return Option(hint, (truth, *bounds) if hint is bool else bounds)


def settings_from(words: Iterable[str]) -> dict[str, Any]:
    """The settings of a mechanism from words `name=value`: 2 and 1e6 are whole, 1.0 is real, lists are as in TOML."""
    found: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals:
            raise FedprivError(f"settings are written name=value, got {word!r}")
        if name in found:
            raise FedprivError(f"{name} is given twice")
        if text.startswith("["):
            try:
                found[name] = tomllib.loads(f"own = {text}")["own"]
            except (tomllib.TOMLDecodeError, RecursionError, ValueError):
                raise FedprivError(f"{name} must be a list such as [0.5, 0.5], got {text[:40]!r}") from None
            continue
        try:
            value = int(text) if text.lstrip("+-").isdigit() else float(text.replace("∞", "inf"))
        except ValueError:
            found[name] = text
            continue
        real = "." in text or "e" not in text.lower() or abs(value) >= 2**53  # 1e6 is whole; 1.0 and 1e-3 are not
        found[name] = value if real or value != int(value) else int(value)
    return found


def kind_and_settings(text: str) -> tuple[str, dict[str, Any]]:
    """A class's name and its settings from one line, as `fedpriv account` and a Flower app's configuration have them.

    >>> kind_and_settings("StochasticSign clip=1 peak=.25")
    ('StochasticSign', {'clip': 1, 'peak': 0.25})
    """
    if not (words := text.split()):
        raise FedprivError("a kind and its settings must be given, as in 'StochasticSign clip=1 peak=.25 scale=1'")
    return words[0], settings_from(words[1:])
