"""Tables of what a study may choose from: its own tables, every kind of every family, and every setting of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from clients.data.features import FEATURES
from fedpriv._base.tables import inline_toml
from fedpriv.attacks import ATTACKS, METHODS
from fedpriv.registry import Kind, Registry
from fedpriv.settings import Setting, fixed_tables, settings_of
from fedpriv.studies.kinds import CARRIERS
from fedpriv.studies.study import Study
from simulations.cli.list import FAMILIES, first_line

ACTS_ON = dict(zip(METHODS, ("data", "update", "message", "sum", "bytes"), strict=True))
BY_NOUN = {family.noun: family for family in FAMILIES.values()}


def study_tables() -> str:
    """Each table of a study: its keys with their defaults, or the kinds it may be of."""
    rows = [["top", _keys(own for own in settings_of(Study) if own.options[0].type is str)], *_rows(Study, "")]
    return table(["table", "what it says"], rows)


def _rows(cls: type[Any], path: str) -> Iterator[list[str]]:
    for own in settings_of(cls):
        if own.family is not None:
            family = BY_NOUN[own.family.noun]
            yield [f"`[{path}{own.name}]`", f"`kind` = {', '.join(called(each) for each in family.values())}"]
        elif own.options[0].is_table:
            inner = own.options[0].type
            yield [f"`[{path}{own.name}]`", _keys(each for each in settings_of(inner) if not _is_kind(each))]
            yield from _rows(inner, f"{own.name}.")


def _is_kind(setting: Setting) -> bool:
    return all(option.type is Kind for option in setting.options)


def _keys(settings: Iterable[Setting]) -> str:
    return "<br>".join(
        f"`{own.name}`{f' ({told})' if (told := default(own)) else ''}: {own.sentence}" for own in settings
    )


def default(setting: Setting) -> str:
    """A default as it would be written in a study; nothing where there is none to write."""
    own = setting.default
    empty = setting.needed or own in (None, "", (), {})
    return "" if empty else f"`{inline_toml(own.table() if isinstance(own, Kind) else own)}`"


def called(cls: type[Any]) -> str:
    """A class with the names of its settings.

    >>> from fedpriv.mechanisms import Gaussian
    >>> called(Gaussian)
    '`Gaussian(clip, noise)`'
    """
    names = ", ".join(own.name for own in settings_of(cls))
    return f"`{cls.__name__}({names})`" if names else f"`{cls.__name__}`"


def attacks() -> str:
    """Every attack by what it acts on, and what it can know."""
    rows = [
        [place, called(cls), first_line(cls), ", ".join(cls.knowledge)]
        for method, place in ACTS_ON.items()
        for cls in ATTACKS.values()
        if hasattr(cls, method)
    ]
    return table(["acts on", "`kind`", "what is sent", "knowledge, the default first"], rows)


def feature_maps() -> str:
    """Every kind of features: what it is, and the meaning of its settings."""
    rows = [[f"`{kind}`", first_line(cls), _meanings(settings_of(cls))] for kind, cls in FEATURES.items()]
    return table(["`kind`", "what it is", "settings"], rows)


def mechanisms() -> str:
    """Every mechanism with the meaning of its settings."""
    rows = [[f"`{kind}`", _meanings(settings_of(cls))] for kind, cls in CARRIERS.items()]
    return table(["kind", "settings"], rows)


def _meanings(settings: Iterable[Setting]) -> str:
    return "<br>".join(f"`{own.name}`: {own.sentence}" for own in settings)


def every_setting() -> str:
    """Every setting of every table and of every kind: what it is, what it must be, and its default."""
    parts = ["## Tables of a study", ""]
    for path, own in fixed_tables(Study).items():
        about = f"{own.sentence[0].upper()}{own.sentence[1:]}."
        parts += [f"### `[{path}]`", "", about, "", described(settings_of(own.options[0].type))]
    for noun, family in FAMILIES.items():
        parts += [f"## {noun.capitalize()}", "", *_beside(family)]
        for kind, cls in family.items():
            parts += [f"### `{kind}`", "", escaped(first_line(cls)), ""]
            parts += [described(settings_of(cls))] if settings_of(cls) else []
    return "\n".join(parts)


def _beside(family: Registry[Any]) -> list[str]:
    about = f"Beside the settings of its kind, the table of any {family.noun} takes:"
    return [about, "", described(family.beside)] if family.beside else []


def described(settings: Iterable[Setting]) -> str:
    """Settings, a row each."""
    rows = [[f"`{own.name}`", own.sentence, own.words(), "needed" if own.needed else default(own)] for own in settings]
    return table(["setting", "what it is", "what it must be", "default"], rows)


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    """Markdown's own.

    >>> print(table(["x"], [["|1|"]]), end="")
    | x |
    |---|
    | \\|1\\| |
    """
    lines = [head, ["---"] * len(head), *([escaped(field) for field in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines).replace(" --- ", "---")


def escaped(words: str) -> str:
    """Words as they stand in a field of a table: a bar would end it.

    >>> escaped("P(|x| > 1)")
    'P(\\\\|x\\\\| > 1)'
    """
    return words.replace("|", "\\|")
