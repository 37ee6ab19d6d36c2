"""Families: one name a class, classes of one's own that can do what their family does, and who is who."""

from __future__ import annotations

from inspect import signature
from types import FunctionType
from typing import Any

import pytest

from fedpriv.attacks import SignFlip, attack_of, knowledge_of
from fedpriv.errors import FedprivError
from fedpriv.registry import Kind, Registry, kind_of
from fedpriv.studies.file import parsed_study
from simulations.cli.list import FAMILIES

OPEN = {noun: family for noun, family in FAMILIES.items() if not family.proof}
METHODS = [
    pytest.param(family, name, method, id=f"{noun}.{name}")
    for noun, family in OPEN.items()
    for name, method in vars(family.protocol).items()
    if isinstance(method, FunctionType) and (name == "__call__" or not name.startswith("_"))
]


def located(monkeypatch: pytest.MonkeyPatch, members: dict[str, Any], name: str = "Mine") -> str:
    """The path of a new class with these members."""
    cls = type(name, (), {**members, "__module__": __name__})
    monkeypatch.setitem(globals(), name, cls)
    return f"{__name__}:{name}"


def test_two_classes_of_one_name_are_no_family() -> None:
    other = type("SignFlip", (), {})
    with pytest.raises(FedprivError, match="two attacks are called SignFlip"):
        Registry("attack", object, [SignFlip, other])


@pytest.mark.parametrize("noun", OPEN)
def test_a_class_of_one_s_own_with_every_method_is_taken(noun: str, monkeypatch: pytest.MonkeyPatch) -> None:
    protocol = OPEN[noun].protocol
    path = located(monkeypatch, {name: own for name, own in vars(protocol).items() if isinstance(own, FunctionType)})
    assert OPEN[noun].named(path).__name__ == "Mine"


@pytest.mark.parametrize(("family", "name", "method"), METHODS)
def test_a_class_that_lacks_a_method_is_refused_with_what_it_takes_and_does(
    family: Registry[Any], name: str, method: FunctionType, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = {
        each: own for each, own in vars(family.protocol).items() if isinstance(own, FunctionType) and each != name
    }
    path = located(monkeypatch, {**others, name: 3})
    takes = ", ".join(list(signature(method).parameters)[1:])
    does = (method.__doc__ or "").split("\n\n")[0].split()[0]
    with pytest.raises(FedprivError) as error:
        family.named(path)
    assert f"{family.noun} '{path}' has no {name}({takes}): {does}" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("family", "name", "method"), METHODS)
def test_a_method_that_takes_something_else_is_refused(
    family: Registry[Any], name: str, method: FunctionType, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = list(signature(method).parameters)
    wrong = eval(f"lambda {', '.join(f'a{index}' for index in range(len(wanted) + 1))}: None")
    others = {each: own for each, own in vars(family.protocol).items() if isinstance(own, FunctionType)}
    path = located(monkeypatch, {**others, name: wrong})
    with pytest.raises(FedprivError, match=rf"{name} must take \({', '.join(wanted)}\): ."):
        family.named(path)


@pytest.mark.parametrize("noun", [noun for noun in FAMILIES if noun not in OPEN])
def test_what_would_have_to_be_proved_is_not_taken(noun: str) -> None:
    with pytest.raises(FedprivError, match="is not certified: what it gives away is not proved here"):
        FAMILIES[noun].named("mine:Mechanism")


def test_a_class_of_one_s_own_with_a_shipped_name_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    path = located(monkeypatch, {"on_updates": lambda self, updates, view: updates, "knowledge": ("own",)}, "SignFlip")
    mine, shipped = attack_of(path, {}), attack_of("SignFlip", {})
    assert (kind_of(mine), kind_of(shipped)) == (path, "SignFlip")
    with pytest.raises(FedprivError, match=f"{path} works with knowledge 'own', not with 'byzantine'"):
        knowledge_of(mine, "byzantine")
    studies = [
        parsed_study(
            'data.kind = "Digits"',
            overrides=["clients.count=4", "clients.byzantine=1", "run.rounds=1", f"attack.kind={own}"],
        )
        for own in (path, "SignFlip")
    ]
    assert studies[0].id != studies[1].id
    assert [own.table()["attack"]["kind"] for own in studies] == [path, "SignFlip"]
    assert [kind_of(own.attacker) for own in studies] == [path, "SignFlip"]


def test_settings_that_are_given_are_checked_though_others_are_still_to_be_found() -> None:
    mechanisms = FAMILIES["mechanisms"]
    assert mechanisms.settled(Kind("Binomial", {"trials": 4, "clip": 1})).settings == {"trials": 4, "clip": 1.0}
    with pytest.raises(FedprivError, match="Binomial: trials must be a whole number"):
        mechanisms.settled(Kind("Binomial", {"trials": 0.5}))
    with pytest.raises(FedprivError, match=r"Binomial has no setting 'trails' \(did you mean 'trials'\?\)"):
        mechanisms.settled(Kind("Binomial", {"trails": 4}))
