"""Families of classes that a study chooses from: a table's `kind` is a class's name, the rest of it are its settings.

A `Registry` knows a family's name, what its members must be able to do, and the members. A kind written `module:Class`
is anybody's own class that can do the same. A `Kind` is a table of a study; the object it stands for is made once.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from types import FunctionType
from typing import Any, Generic, TypeVar

from fedpriv._base.tables import native_values
from fedpriv.errors import FAULTS, FedprivError, nearest_hint, reason
from fedpriv.settings import settings_of

WHERE = "it must be installed or on PYTHONPATH, beside the study's file or in the directory one is in"
UNPROVED = (
    "what it gives away is not proved here. Put it beside those of its family, with its proof: CONTRIBUTING.md, "
    "'Adding a mechanism'"
)
Member = TypeVar("Member")


@dataclass(frozen=True)
class Kind:
    """A table that names a class: `kind`, and the settings that go to it."""

    kind: str  # the class's name, or `module:Class`
    settings: Mapping[str, Any] = field(default_factory=dict)  # numpy's numbers become Python's own

    def __post_init__(self) -> None:
        """Numpy's numbers in the settings become Python's own; room is made for the object the table will stand for."""
        object.__setattr__(self, "settings", native_values(self.settings))
        object.__setattr__(self, "_made", {})

    def __eq__(self, other: object) -> bool:
        """Whether two tables of a study are written alike: 1 is not 1.0 to a class of which nothing else is known."""
        return isinstance(other, Kind) and repr(self.table()) == repr(other.table())

    def __hash__(self) -> int:
        """Equal for tables of a study that are written alike: by them what was made once is found again."""
        return hash(repr(self.table()))

    def __reduce__(self) -> tuple[type[Kind], tuple[str, Mapping[str, Any]]]:
        """For pickle: the table alone is sent to another process, which makes the object it stands for anew."""
        return Kind, (self.kind, self.settings)

    def table(self) -> dict[str, Any]:
        """The table as it is written in a study's file: its `kind`, then its settings."""
        return {"kind": self.kind, **self.settings}

    def with_settings(self, settings: Mapping[str, Any]) -> Kind:
        """The table with those settings: itself, and so the object it stands for, where they are the ones it has."""
        return self if repr(native_values(settings)) == repr(self.settings) else Kind(self.kind, settings)

    def once(self, family: object, make: Callable[[Kind], Member]) -> Member:
        """The object that the table stands for in a family: made at the first call, the same one from then on."""
        objects: dict[int, Member] = self.__dict__["_made"]
        if id(family) not in objects:
            objects[id(family)] = make(self)
        return objects[id(family)]


class Registry(Mapping[str, type[Any]], Generic[Member]):
    """One family, by the names of its classes.

    >>> from fractions import Fraction
    >>> Registry("fraction", Fraction, [Fraction]).made("Fractoin", {})
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: unknown fraction 'Fractoin' (did you mean 'Fraction'?); fractions: Fraction
    """

    def __init__(
        self,
        noun: str,  # what one of them is called in a message
        protocol: type[Member],  # what all of them can do
        members: Iterable[type[Any]],
        *,
        proof: str = "",  # why none of one's own is taken, where what it gives away would have to be proved
        optional: Iterable[str] = (),  # methods of the protocol that one of one's own may lack
        beside: type[Any] | None = None,  # a dataclass of what a table says besides the settings of its class
    ) -> None:
        """A family of classes that a study chooses from, such as its rules: those that ship, and what any must do."""
        self.noun = noun
        self.protocol = protocol
        self.proof = proof
        self._optional = frozenset(optional)
        self.beside = () if beside is None else settings_of(beside)
        self._members: dict[str, type[Any]] = {}
        for cls in members:
            if cls.__name__ in self._members:
                raise FedprivError(f"two {noun}s are called {cls.__name__}")
            self._members[cls.__name__] = cls

    def __getitem__(self, kind: str) -> type[Any]:
        """The class that ships with fedpriv under this name, such as `RULES["Krum"]`."""
        return self._members[kind]

    def __iter__(self) -> Iterator[str]:
        """The names of a family's classes that ship with fedpriv, in the order in which its module lists them."""
        return iter(self._members)

    def __len__(self) -> int:
        """How many classes of a family ship with fedpriv; somebody's own `module:Class` is not counted."""
        return len(self._members)

    def named(self, kind: Any) -> type[Any]:
        """The class that a table's `kind` names, ours or at `module:Class`; an error tells the nearest name."""
        if isinstance(kind, str) and kind in self._members:
            return self._members[kind]
        if isinstance(kind, str) and ":" in kind:
            if self.proof:
                raise FedprivError(f"{self.noun} {kind!r} is not certified: {self.proof}")
            return self._own(kind)
        hint = nearest_hint(str(kind), self)
        raise FedprivError(f"unknown {self.noun} {kind!r}{hint}; {self.noun}s: {', '.join(self)}")

    def made(self, kind: Any, settings: Mapping[str, Any]) -> Member:
        """A new object of a kind, such as a rule or a mechanism, with those settings; an error says which is wrong."""
        found: Member = built_kind(kind, self.named(kind), settings)
        return found

    def of(self, table: Kind) -> Member:
        """The object, such as a mechanism, that a study's table stands for: the same one whoever asks."""
        return table.once(self, lambda own: self.made(own.kind, own.settings))

    def settled(self, table: Kind) -> Kind:
        """A study's table with every setting checked and typed as its class has it; of an unknown class, as it is.

        A setting that is needed may be missing: it may be calibrated yet.
        """
        cls = self._members.get(table.kind)
        settings = fitted_settings(cls, table.settings)
        if cls is not None:
            _check_names(table.kind, cls, settings)
            for own in settings_of(cls):
                try:
                    if own.name in settings:
                        own.check(settings[own.name])
                except FedprivError as error:
                    raise FedprivError(f"{table.kind}: {error}") from None
        return table.with_settings(settings)

    def _own(self, path: str) -> type[Any]:
        """Somebody's own class at `module:Class`; refused where it lacks a method of the family, or arguments."""
        cls = imported_class(self.noun, path)
        for name, method in vars(self.protocol).items():
            if not isinstance(method, FunctionType) or (name.startswith("_") and name != "__call__"):
                continue
            if name in self._optional and not hasattr(cls, name):
                continue
            signature = inspect.signature(method)
            wanted = list(signature.parameters)
            told = f"{name}({', '.join(wanted[1:])})"
            own = getattr(cls, name, None)
            does = " ".join((method.__doc__ or "").split("\n\n")[0].split())
            if not callable(own):
                raise FedprivError(f"{self.noun} {path!r} has no {told}: {does}")
            try:
                inspect.signature(own).bind(*[None] * len(wanted))
            except TypeError:
                raise FedprivError(f"{self.noun} {path!r}: {name} must take ({', '.join(wanted)}): {does}") from None
            except ValueError:  # written in C, without a signature
                continue
        return cls


def kind_of(made: object) -> str:
    """How a study names the class of an object: those that ship by their name, any other by where it is.

    >>> from fractions import Fraction
    >>> from fedpriv.population.participation import All
    >>> kind_of(All()), kind_of(Fraction(1))
    ('All', 'fractions:Fraction')
    """
    cls = type(made)
    ours = cls.__module__.partition(".")[0] in ("fedpriv", "clients")
    return cls.__name__ if ours else f"{cls.__module__}:{cls.__qualname__}"


def built_kind(kind: str, cls: type[Any], settings: Mapping[str, Any]) -> Any:
    """The object of a class with a table's settings, checked by name; every error begins with the table's kind."""
    settings = fitted_settings(cls, settings)
    if is_dataclass(cls):
        _check_names(kind, cls, settings)
        needed = [each.name for each in fields(cls) if each.default is MISSING and each.default_factory is MISSING]
        if missing := [name for name in needed if name not in settings]:
            known = ", ".join(each.name for each in fields(cls))
            raise FedprivError(f"{kind} needs {', '.join(missing)}; settings: {known}")
    try:
        return cls(**settings)
    except FedprivError as error:
        raise FedprivError(f"{kind}: {error}") from None
    except TypeError as error:
        raise FedprivError(f"{kind}: settings {', '.join(settings) or 'none'} do not fit ({error})") from None
    except FAULTS as error:
        if ":" not in kind:  # a class of ours: its fault is for us to see
            raise
        raise FedprivError(f"{kind} cannot be made: {reason(error)}") from error


def fitted_settings(cls: type[Any] | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as the class has them, whoever wrote them: Python's own numbers, floats where it wants floats.

    So settings that are equal make equal objects, and are written alike.

    >>> from fedpriv.population.participation import Poisson
    >>> fitted_settings(Poisson, {"rate": 1})
    {'rate': 1.0}
    """
    if cls is not None and hasattr(cls, "filled"):  # it reads some of them from a file
        settings = cls.filled(settings)
    types: dict[str, list[Any]] = {}
    with suppress(*FAULTS):  # somebody's own class may have types that are none of ours
        types = {} if cls is None else {own.name: [each.type for each in own.options] for own in settings_of(cls)}
    floats = [name for name, options in types.items() if float in options and int not in options]
    own = {name: native_values(value) for name, value in settings.items()}
    return {
        name: float(value) if name in floats and type(value) is int and abs(value) < 2**1000 else value
        for name, value in own.items()
    }


def imported_class(noun: str, path: str) -> type[Any]:
    """The class at `module:Class` that a study names for its own rule, attack, …; a failure is an error of one line."""
    module, _, name = path.partition(":")
    _check_source(f"{noun} {path!r}", module)
    try:
        found = getattr(importlib.import_module(module), name)
    except FedprivError:  # of what fp.run was given: it says itself what to do
        raise
    except FAULTS as error:
        where = f"; {WHERE}" if isinstance(error, ModuleNotFoundError) else ""
        if isinstance(error, AttributeError) and module in sys.modules:
            where = f"; the module is {getattr(sys.modules[module], '__file__', 'built in')}"
        raise FedprivError(f"{noun} {path!r} cannot be imported: {reason(error)}{where}") from None
    if not isinstance(found, type):
        raise FedprivError(f"{noun} {path!r} is not a class")
    return found


_SOURCES: dict[str, bytes] = {}  # of the modules imported here: what their files held then


def _check_source(what: str, module: str) -> None:
    """Refuse a module whose file is not what this process has imported: another of that name, or edited since.

    Every package on the way to it is looked at as well.
    """
    places: Sequence[str] | None = None
    parts = module.split(".")
    for name in (".".join(parts[: depth + 1]) for depth in range(len(parts))):
        spec = PathFinder.find_spec(name, places)
        if spec is None:
            return
        places = spec.submodule_search_locations
        if spec.has_location and spec.origin:
            _check_file(what, name, Path(spec.origin))


def _check_file(what: str, module: str, file: Path) -> None:
    """Refuse a file of a study's own module that this process imported from elsewhere, or with other content."""
    try:
        here = file.read_bytes()
    except OSError as error:
        raise FedprivError(f"{what}: {file} cannot be read ({error.strerror})") from None
    if module not in sys.modules:
        _SOURCES[module] = here
        return
    # of what others have imported nothing is known but where it was
    before = Path(getattr(sys.modules[module], "__file__", None) or "")
    if _SOURCES[module] != here if module in _SOURCES else not (before.is_file() and before.samefile(file)):
        other = "it was edited since this process imported it: begin another process"
        if before != file:
            other = f"this process has imported another {module!r}, {before}: rename one, or begin another process"
        raise FedprivError(f"{what} is in {file}, but {other}")


def _check_names(kind: str, cls: type[Any], settings: Mapping[str, Any]) -> None:
    """Refuse names of a table's settings that its class has not; the error names the nearest and lists all."""
    known = [each.name for each in fields(cls)]
    for name in settings:
        if name not in known and (why := getattr(cls, "refused", {}).get(name)):
            raise FedprivError(f"{kind} has no {name}: {why}")
        if name not in known:
            listed = ", ".join(known) or "none"
            raise FedprivError(f"{kind} has no setting {name!r}{nearest_hint(str(name), known)}; settings: {listed}")
