"""Reading a study: TOML to frozen dataclasses, strict about keys, with `table.key=value` overrides."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_origin

from fedpriv._base.own_modules import look_for_modules
from fedpriv._base.tables import Table, flat_table, native_values, put_setting, toml_text
from fedpriv.errors import FedprivError, nearest_hint, one_of
from fedpriv.releases.kept import KEPT
from fedpriv.settings import WORDS, Setting, settings_of
from fedpriv.studies.study import Kind, Study

Changes = Iterable[str] | Mapping[str, Any]  # each "table.key=value", or values by their paths


def parsed_study(
    content: str | Mapping[str, Any],
    *,
    name: str = "study",
    overrides: Changes = (),
    given: str = "STUDY",  # what a command is given to find it
) -> Study:
    """The checked study of a TOML text, or of tables, after overrides; errors name `name` and the dotted path.

    >>> parsed_study('data.kind = "Digits"', overrides=["clients.count=10", "run.rounds=2"]).clients.count
    10
    >>> parsed_study('data.kind = "Digits"', overrides=["clients.cuont=10"])
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: study: clients has no key 'cuont' (did you mean 'count'?)
    """
    table = study_tables(content, name=name, overrides=overrides)
    if "sweep" in table:
        raise FedprivError(f"{name}: its [sweep] table makes it many studies: fedpriv sweep {given} runs them")
    try:
        return study_of(table)
    except FedprivError as error:
        raise FedprivError(f"{name}: {error}") from None


def study_tables(content: str | Mapping[str, Any], *, name: str = "study", overrides: Changes = ()) -> Table:
    """A study's TOML text as nested tables, after its overrides, nothing checked yet; [sweep] is flat, by paths.

    Tables may be given for the text, nested or by dotted path, as a Python dict has them.
    """
    try:
        table = tomllib.loads(content) if isinstance(content, str) else _nested(content, name)
    except FedprivError:
        raise
    except (ValueError, RecursionError) as error:  # not TOML, or a number of thousands of digits
        raise FedprivError(f"{name}: not TOML: {error}") from None
    if isinstance(table.get("sweep"), dict):
        table["sweep"] = flat_table(table["sweep"])
    try:
        _expand(table)
        _override(table, overrides)
    except FedprivError as error:
        raise FedprivError(f"{name}: {error}") from None
    table.setdefault("name", Path(name).stem)
    return table


def _nested(settings: Mapping[str, Any], name: str) -> Table:
    """A study's tables out of a Python dict, in which dots may stand for tables: {"run.rounds": 5}."""
    table: Table = {}
    try:
        change_settings(table, _by_path(settings))
    except FedprivError as error:
        raise FedprivError(f"{name}: {error}") from None
    return table


def _by_path(settings: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The settings of a Python dict by dotted path, Python's own numbers for numpy's; refused where a path is none."""
    for path in settings:
        if not isinstance(path, str) or not all(path.split(".")):
            raise FedprivError(f"a setting's path is table.key, got {path!r}")
    return list(flat_table(native_values(settings)).items())


def _expand(table: Table) -> None:
    """Write out a study's `training = "StoBatch"`, or "AdLm", in place: the model and the release of that name.

    Their settings may still be given.
    """
    word = table.get("training")
    if not isinstance(word, str):
        return
    one_of(KEPT, training=word)
    table["training"] = {"model": {"kind": "EncodedCnn"}}
    privacy = table.setdefault("privacy", {})
    if isinstance(privacy, dict):
        release = privacy.setdefault("release", {})
        if isinstance(release, dict) and release.setdefault("kind", word) != word:
            raise FedprivError(f"training = {word!r}, and privacy.release.kind = {release['kind']!r}: give one of them")


def study_of(table: Mapping[str, Any]) -> Study:
    """The checked study that nested tables describe, such as a sweep's cell or a run's resolved one."""
    study: Study = _made(Study, native_values(table), "")
    return study


def read_study(source: str, overrides: Changes = ()) -> Study:
    """The study of a file, of a name among those that ship with fedpriv, or of a TOML text, after its overrides."""
    content, name = content_of(source)
    return parsed_study(content, name=name, overrides=overrides, given="STUDY" if "\n" in source else source)


def open_study(source: Study | str | PathLike[str] | Mapping[str, Any], overrides: Changes = ()) -> Study:
    """`fedpriv.read_study`: the study of a file, of a name that ships, of TOML text or of a dict, after changes.

    Changes are a dict by path, or words as `--set` takes them. A file's own module:Class are beside it.

    >>> open_study("digits", {"run.rounds": 2}).run.rounds
    2
    """
    if isinstance(overrides, str) or not isinstance(source, Study | str | PathLike | Mapping) or not source:
        raise FedprivError(
            "a study is read from a file, a name, TOML text or a dict, and overrides are a dict or a list: "
            f"got {source!r}, {overrides!r}"
        )
    if isinstance(source, Study):
        return parsed_study(source.table(), name=source.name, overrides=overrides) if overrides else source
    if isinstance(source, Mapping):
        return parsed_study(source, overrides=overrides)
    if "\n" not in str(source) and Path(source).is_file():
        look_for_modules(Path(source).parent)
    return read_study(str(source), overrides)


def content_of(source: str) -> tuple[str, str]:
    """The TOML text of a study's source (file, name, or text), and what errors call it."""
    if "\n" in source:
        return source, "study"
    path = study_path(source)
    try:
        return path.read_text(encoding="utf-8-sig"), path.name  # some editors begin a file with a mark
    except (OSError, UnicodeError) as error:
        raise FedprivError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None


def study_path(source: str) -> Path:
    """The path of a study's file, given as a path or as the name of one that ships with fedpriv."""
    path = Path(source)
    if "\0" not in source and (path.is_file() or path.suffix == ".toml" or len(path.parts) != 1):
        return path
    ships = shipped_studies()
    if source not in ships:
        hint = nearest_hint(source, ships)
        raise FedprivError(f"no study {source!r}{hint}: a file, or one of {', '.join(ships)}")
    return ships[source]


def shipped_studies() -> dict[str, Path]:
    """The files of the studies that ship with fedpriv (catalogue/), by name, for `fedpriv list` and `run`."""
    folder = Path(__file__).parent / "catalogue"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def study_text(study: Study) -> str:
    """The whole study as TOML, defaults filled in, as runs and nodes are handed it: `parsed_study(text) == study`."""
    return toml_text(study.table())


def change_settings(table: Table, settings: Iterable[tuple[str, Any]]) -> None:
    """Set a study's settings in its tables by dotted paths, whatever their order: tables and kinds come first."""
    for path, value in sorted(settings, key=lambda each: (each[0].count("."), not each[0].endswith(".kind"))):
        if path == "training" and isinstance(value, str):
            one_of(KEPT, training=value)
            privacy = table.get("privacy")
            release = privacy.get("release") if isinstance(privacy, dict) else None
            trains = isinstance(release, dict) and release.get("kind") in KEPT
            put_setting(table, "privacy.release.kind", value)
            if not trains:  # what trains with the other of them keeps its model
                table["training"] = value
        else:
            put_setting(table, path, value)
    _expand(table)


def _override(table: Table, overrides: Changes) -> None:
    """Put overrides, of Python or of `--set`, into a study's tables: those of the grid into [sweep], others by path."""
    own, sweep = [], table.get("sweep")
    for path, value in changes_by_path(overrides):
        if path.startswith("sweep.") and isinstance(sweep, dict):
            sweep[path.removeprefix("sweep.")] = value
        else:
            own.append((path, value))
    try:
        change_settings(table, own)
    except FedprivError as error:
        raise FedprivError(f"--set {error}" if own and not isinstance(overrides, Mapping) else str(error)) from None


def changes_by_path(overrides: Changes) -> list[tuple[str, Any]]:
    """Changes of a study, words of `--set` or a dict of Python, as paths and values.

    >>> changes_by_path(["run.rounds=5"]), changes_by_path({"run": {"rounds": 5}})
    ([('run.rounds', 5)], [('run.rounds', 5)])
    """
    if isinstance(overrides, Mapping):
        return _by_path(overrides)
    if isinstance(overrides, str) or not isinstance(overrides, Iterable):
        raise FedprivError(
            f"overrides are a dict by path, or a list of words such as 'run.rounds=5', got {overrides!r}"
        )
    return [_pair(words) for words in overrides]


def _pair(words: str) -> tuple[str, Any]:
    """The path and the value of a `--set table.key=value`."""
    path, equals, value = words.partition("=") if isinstance(words, str) else ("", "", "")
    if not equals or not all(path.strip().split(".")):
        raise FedprivError(f"--set takes table.key=value, got {words!r}")
    path, value = path.strip(), value.strip()
    try:
        return path, tomllib.loads(f"value = {value}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError, KeyError):
        return path, value  # a bare word is a string
    except ValueError:
        raise FedprivError(f"--set takes numbers of fewer digits, got {value[:20]}…") from None


def _made(cls: type[Any], table: Mapping[str, Any], path: str) -> Any:
    """One table of a study's file as its dataclass, keys checked; errors name the dotted path."""
    settings = {own.name: own for own in settings_of(cls)}
    given: Table = {}
    where = path or "the study"
    for key, value in table.items():
        if key not in settings:
            raise FedprivError(
                f"{where} has no {'key' if path else 'table'} {key!r}{nearest_hint(key, list(settings))}"
            )
        given[key] = _fitting(settings[key], value, f"{path}.{key}" if path else key)
    for name, own in settings.items():
        if own.needed and name not in given:
            raise FedprivError(f"{where} needs {name if path or name == 'name' else f'a [{name}] table'}")
    try:
        return cls(**given)
    except FedprivError as error:
        raise FedprivError(f"{path}: {error}" if path else str(error)) from None


def _fitting(setting: Setting, value: Any, path: str) -> Any:
    """A study's value as a type that its setting may have, or an error; the dataclass checks words and bounds."""
    types = [own.type for own in setting.options]
    if type(value) is int and not abs(value) < 2**1000:
        raise FedprivError(f"{path} must be a number that can be meant")
    for each in types:
        if get_origin(each) is tuple:
            return value
        if get_origin(each) is Literal and not (isinstance(value, dict) and Kind in types):
            return value
        if isinstance(each, type) and is_dataclass(each):
            if not isinstance(value, dict):
                hint = f': {path}.kind = "{value}"' if isinstance(value, str) and each is Kind else ""
                raise FedprivError(f"{path} must be a table, got {value!r}{hint}")
            if each is not Kind:
                return _made(each, value, path)
            settings = dict(value)
            if not isinstance(kind := settings.pop("kind", None), str):
                raise FedprivError(f'{path} needs kind = "…", got {kind!r}')
            return Kind(kind, settings)
        if each is float and type(value) in (int, float):
            return float(value) if int not in types else value
        if type(value) is each:
            return value
    raise FedprivError(f"{path} must be {next(WORDS[each] for each in types if each in WORDS)}, got {value!r}")
