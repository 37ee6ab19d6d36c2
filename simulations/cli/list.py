"""`fedpriv list` and `fedpriv schema`: what there is to choose from, for people, for programs and for editors."""

from __future__ import annotations

import argparse
import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from clients.data import DATA_SETS
from clients.data.features import FEATURES
from clients.models import MODELS
from clients.models.losses import LOSSES
from clients.robustness.input_attacks import INPUT_ATTACKS
from fedpriv._base.own_modules import look_for_modules
from fedpriv._base.tables import inline_toml
from fedpriv.aggregation import STEPS
from fedpriv.aggregation.optimisers import OPTIMISERS
from fedpriv.attacks import ATTACKS
from fedpriv.attacks.corruption import CORRUPTIONS
from fedpriv.errors import FAULTS, FedprivError, nearest_hint, reason
from fedpriv.estimation import ESTIMATORS
from fedpriv.mechanisms import COSTED
from fedpriv.population.dealing import SPLITS
from fedpriv.population.participation import PARTICIPATIONS
from fedpriv.registry import Kind, Registry, imported_class
from fedpriv.settings import Setting, fixed_tables, settings_of
from fedpriv.studies import file as study_file
from fedpriv.studies.kinds import CARRIERS, RELEASES, RULES
from fedpriv.studies.schema import study_schema
from fedpriv.studies.study import Study
from simulations.cli._command import JSON, Commands, add_command, flag, option
from simulations.cli._words import print_json, show_found
from simulations.report.latex.references import bibtex_file

FAMILIES: Mapping[str, Registry[Any]] = {
    "mechanisms": CARRIERS,
    "releases": RELEASES,
    "attacks": ATTACKS,
    "corruptions": CORRUPTIONS,
    "rules": RULES,
    "pre-aggregators": STEPS,
    "optimisers": OPTIMISERS,
    "models": MODELS,
    "losses": LOSSES,
    "data sets": DATA_SETS,
    "features": FEATURES,
    "splits": SPLITS,
    "participations": PARTICIPATIONS,
    "attacks on inputs": INPUT_ATTACKS,
    "estimators": ESTIMATORS,
}
HELP = """\
NAME is a family (mechanisms), a kind (Ternary), a table of a study (privacy) or a class of your own (module:Class).

examples:
  fedpriv list
  fedpriv list rules
  fedpriv list Ternary
  fedpriv list Krum --bibtex
"""
SCHEMA_HELP = """\
A study whose first line is "#:schema study.schema.json" is completed and checked by editors that know TOML.

example:
  fedpriv schema > study.schema.json
"""


def add_to(commands: Commands) -> None:
    """Add `fedpriv list` and `fedpriv schema` to the command's parser."""
    name = option("name", "NAME", "a family, a kind or a table: each of its settings", nargs="*")
    bibtex = flag("--bibtex", "the papers of NAME's kinds, or of all, as BibTeX")
    add_command(
        commands, "list", run_list, (name, bibtex, JSON), description="What a study can choose from.", epilog=HELP
    )
    schema = "The JSON Schema of a study, for editors."
    add_command(commands, "schema", lambda _: print(schema_text(), end=""), (), description=schema, epilog=SCHEMA_HELP)


def schema_text() -> str:
    """What `fedpriv schema` prints: the JSON Schema of a study, by which editors complete and check it."""
    return json.dumps(study_schema(FAMILIES.values()), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def run_list(options: argparse.Namespace) -> None:
    """Run `fedpriv list`: print all families and shipped studies, or one family, or each setting of a kind or table."""
    name = " ".join(options.name)
    found = _named(name) if name and name not in FAMILIES else []
    if options.bibtex:
        families_of = [FAMILIES[name]] if name in FAMILIES else [] if name else FAMILIES.values()
        text = bibtex_file([each["kind"] for each in found] + [kind for family in families_of for kind in family])
        show_found({"bibtex": text}, text.rstrip(), options.json)
        return
    if found:
        show_found({"found": found}, "\n\n".join(map(_page, found)), options.json)
        return
    families = {name: FAMILIES[name]} if name else FAMILIES
    shipped = {} if name else study_file.shipped_studies()
    texts = {own: file.read_text(encoding="utf-8") for own, file in shipped.items()}
    studies = {own: str(study_file.study_tables(text)["about"]) for own, text in texts.items()}
    if options.json:
        entries: dict[str, Any] = {
            noun: [kind_entry(noun, kind, cls, family.beside) for kind, cls in family.items()]
            for noun, family in families.items()
        }
        ships = {"studies": [{"name": own, "is": about} for own, about in studies.items()]} if studies else {}
        print_json(entries | ships)
        return
    tables = {
        noun: [(kind_signature(cls, family), first_line(cls)) for cls in family.values()]
        for noun, family in families.items()
    }
    for noun, rows in (tables | ({"studies": list(studies.items())} if studies else {})).items():
        width = max(len(words) for words, _ in rows)
        print("\n".join([noun, *(f"  {words:<{width}}  {doc}" for words, doc in rows)]))


def _named(name: str) -> list[dict[str, Any]]:
    """What `fedpriv list NAME` finds: kinds of every family, a table of a study, or somebody's own class, as data."""
    tables = fixed_tables(Study)
    if ":" in name:
        look_for_modules(Path.cwd())
        cls, family = imported_class("class", name), "classes of one's own"
        try:
            if is_dataclass(cls):
                return [kind_entry(family, name, cls, ())]
            about = f"{first_line(cls)} Made with {inspect.signature(cls)}".strip()
            return [{"family": family, "kind": name, "is": about}]
        except FAULTS as error:  # hints, or a signature, that cannot be read
            raise FedprivError(f"{name} cannot be asked for its settings: {reason(error)}") from None
    if name in tables:
        return [kind_entry("a study's tables", f"[{name}]", tables[name].options[0].type, ())]
    kinds = {**FAMILIES, "fedpriv account alone": COSTED}
    found = [(noun, each) for noun, each in kinds.items() if name in each]
    if not found:
        known = [*FAMILIES, *tables, *(kind for family in kinds.values() for kind in family)]
        raise FedprivError(f"nothing is called {name!r}{nearest_hint(name, known)}; families: {', '.join(FAMILIES)}")
    if len(found) > 1:
        found = [(noun, each) for noun, each in found if each is not COSTED]
    return [kind_entry(noun, name, each[name], each.beside) for noun, each in found]


def kind_entry(family: str, kind: str, cls: type[Any], beside: Sequence[Setting]) -> dict[str, Any]:
    """A kind as `fedpriv list --json` has it: settings with defaults, and of each what it is and must be."""
    own = [each.name for each in settings_of(cls)]  # which stand over what need not be said beside them
    beside = [each for each in beside if each.needed or each.name not in own]
    settings = (*settings_of(cls), *beside, *getattr(cls, "read_once", ()))
    levels = tuple(getattr(cls, "knowledge", ()))  # what an attack can work with, the default first
    defaults: dict[str, Any] = {}  # as they would be written in a study
    for own in settings:
        value = "needed" if own.needed else own.default
        value = list(value) if isinstance(value, tuple) else value
        defaults[own.name] = value.table() if isinstance(value, Kind) else value
    return {
        "family": family,
        "kind": kind,
        "is": first_line(cls),
        "settings": defaults | ({"knowledge": levels[0]} if levels and "knowledge" in defaults else {}),
        "about": {own.name: {"is": own.sentence, "must be": own.words()} for own in settings},
    }


def _page(found: Mapping[str, Any]) -> str:
    """A kind as `fedpriv list NAME` prints it: a line a setting, with what it is, must be, and is by default."""
    lines = [f"{found['kind']}  ({found['family']})", f"  {found['is']}"]
    about, defaults = found.get("about", {}), found.get("settings", {})
    width = max((len(name) for name in about), default=0)
    for name, own in about.items():
        default = defaults[name]
        value = (
            "needed" if default == "needed" else "" if default in (None, []) else f"{inline_toml(default)} if not given"
        )
        words = "; ".join(part for part in (own["must be"], value) if part)
        lines.append(f"  {name:<{width}}  {own['is']} ({words})" if own["is"] else f"  {name:<{width}}  ({words})")
    return "\n".join(lines)


def kind_signature(cls: type[Any], family: Registry[Any]) -> str:
    """A kind's name and settings as a line of `fedpriv list` shows them, optional ones in brackets."""
    levels = getattr(cls, "knowledge", ()) if family is ATTACKS else ()
    beside = [own.name for own in family.beside if own.needed]
    settings = [own.name if own.needed else f"[{own.name}]" for own in settings_of(cls)]
    return " ".join([cls.__name__, *beside, *settings, *(["[knowledge]"] if len(levels) > 1 else [])])


def first_line(cls: type[Any]) -> str:
    """What a kind is, as `fedpriv list` shows it: the first line of its class's docstring."""
    return (cls.__doc__ or "").split("\n")[0]
