"""fedpriv list and fedpriv schema: every family, kind, table and setting, by the laws that all of them obey."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_origin

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from clients.node.policy import Policy
from fedpriv.accounting.ledger import Budget
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import COSTED
from fedpriv.registry import built_kind
from fedpriv.settings import Setting, settings_of
from fedpriv.studies import file as study_file
from fedpriv.studies.clients import Clients, Training
from fedpriv.studies.schema import setting_schema, study_schema
from fedpriv.studies.tables import Masking, Privacy, Run, Server
from simulations.cli.list import FAMILIES
from simulations.command_line import main

TABLES = (Clients, Training, Privacy, Server, Masking, Run)
KINDS = {f"{noun}: {kind}": (family, kind) for noun, family in FAMILIES.items() for kind in family}
ALONE = {f"fedpriv account: {kind}": (COSTED, kind) for kind in COSTED if kind not in FAMILIES["mechanisms"]}
CLASSES = [
    *((name, family[kind], kind) for name, (family, kind) in (KINDS | ALONE).items()),
    *((cls.__name__, cls, cls.__name__) for cls in (*TABLES, Policy)),
]
DECLARED = [
    pytest.param(cls, kind, own, id=f"{name}.{own.name}") for name, cls, kind in CLASSES for own in settings_of(cls)
]
CHECKED = [  # but the lists of a policy, whose words its file's reader checks
    each for each in DECLARED if each.values[0] is not Policy or get_origin(each.values[2].options[0].type) is not tuple
]
SCALARS = st.one_of(
    st.sampled_from([True, "", "no such word", -1, 0, -0.5, 0.5, 1.5]), st.integers(), st.floats(-2, 2), st.floats()
)
SCHEMA = study_schema(FAMILIES.values())


LISTS: dict[Any, Any] = {tuple[float, ...]: [0.0, 1.0], tuple[tuple[float, ...], ...]: [[0.5, 0.5], [0.5, 0.5]]}


def fine(setting: Setting) -> Any:
    """A value that its own declaration allows."""
    if setting.options[0].type is str:
        return "torch.nn:Linear"
    if setting.options[0].type in LISTS:
        return LISTS[setting.options[0].type]
    if setting.options[0].type is Budget:
        return Budget(epsilon=1.0, delta=1e-5)
    tried = [*([] if setting.needed else [setting.default]), 1, 2, 0.1, 0.5, 1.0, "word"]
    for value in tried:
        try:
            setting.check(value)
        except FedprivError:
            continue
        return value
    raise AssertionError(f"nothing fits {setting.name}")


@pytest.mark.parametrize(("cls", "kind", "setting"), DECLARED)
def test_every_setting_has_a_sentence_and_bounds(cls: type[Any], kind: str, setting: Setting) -> None:
    assert setting.sentence, f"{kind}.{setting.name} has no sentence"
    assert setting.sentence[0] not in "(,;"
    assert not setting.sentence.endswith(".")
    for option in setting.options:
        assert option.constraints or option.type not in (int, float), f"nothing bounds {kind}.{setting.name}"
    assert setting.words()


@pytest.mark.parametrize(("cls", "kind", "setting"), DECLARED)
def test_a_default_is_within_its_own_bounds(cls: type[Any], kind: str, setting: Setting) -> None:
    if not setting.needed:
        setting.check(setting.default)


@pytest.mark.parametrize(("cls", "kind", "setting"), CHECKED)
@settings(max_examples=20, suppress_health_check=list(HealthCheck), deadline=None)
@given(value=SCALARS)
def test_what_the_schema_refuses_of_a_setting_the_class_refuses_by_its_name(
    cls: type[Any], kind: str, setting: Setting, value: Any
) -> None:
    assume(not Draft202012Validator({**setting_schema(setting), "$defs": SCHEMA["$defs"]}).is_valid(value))
    table = {own.name: fine(own) for own in settings_of(cls)} | {setting.name: value}
    with pytest.raises(FedprivError, match=rf"\b{setting.name}\b"):
        built_kind(kind, cls, table)


# --- the schema of a study ----------------------------------------------------------------------------------------


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", study_file.shipped_studies())
def test_shipped_studies_are_valid_and_name_their_schema(name: str) -> None:
    path = study_file.shipped_studies()[name]
    text = path.read_text(encoding="utf-8")
    Draft202012Validator(SCHEMA).validate(study_file.tomllib.loads(text))
    first = text.splitlines()[0]
    assert first.startswith("#:schema ")
    assert json.loads((path.parent / first.removeprefix("#:schema ")).read_text(encoding="utf-8")) == SCHEMA


PLACES = [
    (name, path)
    for name, file in study_file.shipped_studies().items()
    for path in study_file.flat_table(study_file.study_tables(file.read_text(encoding="utf-8")))
    if not path.startswith("sweep")
]


def changed(name: str, path: str, change: Any) -> dict[str, Any]:
    """The tables of a shipped study, without its grid, one of them changed."""
    table = study_file.tomllib.loads(study_file.shipped_studies()[name].read_text(encoding="utf-8"))
    table.pop("sweep", None)
    *above, last = path.split(".")
    inner = table
    for key in above:
        inner = inner.setdefault(key, {})
    change(inner, last)
    return table


def refused(table: dict[str, Any]) -> bool:
    """Whether a study of these tables is refused where it is read, or where what it names of clients/ is made."""
    try:
        study = study_file.study_of(table)
        FAMILIES["data sets"].of(study.data)
        FAMILIES["models"].of(study.training.model)
    except FedprivError:
        return True
    return False


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(place=st.sampled_from(PLACES), value=SCALARS)
def test_what_the_schema_refuses_of_a_study_the_study_refuses(place: tuple[str, str], value: Any) -> None:
    table = changed(*place, lambda inner, key: inner.__setitem__(key, value))
    assume(not Draft202012Validator(SCHEMA).is_valid(table))
    assert refused(table), f"{place} = {value!r}"


@given(place=st.sampled_from(PLACES))
def test_a_key_that_nobody_knows_is_refused_by_both(place: tuple[str, str]) -> None:
    table = changed(*place, lambda inner, key: inner.__setitem__("nobody_knows", 1))
    assert not Draft202012Validator(SCHEMA).is_valid(table)
    assert refused(table)


def test_the_schema_takes_what_a_study_takes() -> None:
    own = {
        "data": {"kind": "mine:Data", "anything": 1}, "clients": {"count": 4, "byzantine": 0.25}, "run": {"rounds": 1},
        "training": "StoBatch", "privacy": {"release": {"epsilon": 2.0}}, "attack": {"kind": "mine:Attack", "x": 1},
        "aggregation": {"kind": "Krum", "before": [{"kind": "Nnm"}, {"kind": "mine:Step"}]},
    }  # fmt: skip
    Draft202012Validator(SCHEMA).validate(own)


# --- the commands -------------------------------------------------------------------------------------------------


def listed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["list", *words]) == 0
    return capsys.readouterr().out


def test_everything_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    text, found = listed(capsys), json.loads(listed(capsys, "--json"))
    assert set(found) == {*FAMILIES, "studies"}
    for noun, family in FAMILIES.items():
        assert [entry["kind"] for entry in found[noun]] == list(family)
        assert all(f"  {kind} " in text for kind in family)
        assert all(entry["is"] and set(entry["about"]) == set(entry["settings"]) for entry in found[noun])
    assert {entry["name"] for entry in found["studies"]} == set(study_file.shipped_studies())


def test_a_family_a_kind_and_a_table_are_listed_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert listed(capsys, "data", "sets").startswith("data sets\n  Digits ")
    assert "  spread  A, how little a sign says: above peak (a number, finite; needed)\n" in listed(capsys, "Ternary")
    assert '"clip" or "normalise" or "coordinates"; "clip" if not given' in listed(capsys, "privacy")
    assert listed(capsys, "GeometricMedian").count("GeometricMedian  (") == 2  # a rule, and an estimator
    assert json.loads(listed(capsys, "Histogram", "--json"))["found"][0]["settings"] == dict.fromkeys(
        ["noise", "threshold"], "needed"
    )


def test_a_class_of_one_s_own_is_asked_for_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "listed_here.py").write_text(OWN, encoding="utf-8")
    assert "  kept  how many rows (a whole number of at least 1; 3 if not given)" in listed(
        capsys, "listed_here:Nearest"
    )
    assert "Made with (kept=0.5)" in listed(capsys, "listed_here:Plainly")


OWN = '''
from dataclasses import dataclass
from typing import Annotated

from fedpriv.errors import whole


@dataclass
class Nearest:
    """Rows near by."""

    kept: Annotated[int, whole, "how many rows"] = 3


class Plainly:
    def __init__(self, kept=0.5):
        self.kept = kept
'''


def test_what_has_no_such_name_is_refused_naming_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong, near in (("Tenary", "Ternary"), ("mechanism", "mechanisms"), ("privcy", "privacy")):
        assert main(["list", wrong]) == 2
        assert f"(did you mean '{near}'?)" in capsys.readouterr().err


def test_the_schema_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == SCHEMA
