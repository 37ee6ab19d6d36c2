"""Numpy's numbers are taken wherever Python's are, and become Python's own: equal studies are written alike."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng

from clients.data import DATA_SETS
from clients.models import MODELS
from clients.robustness.input_attacks import INPUT_ATTACKS
from fedpriv import mechanisms
from fedpriv._base.tables import native_values
from fedpriv.accounting.event import Event
from fedpriv.accounting.ledger import Ledger
from fedpriv.aggregation import STEPS
from fedpriv.aggregation.optimisers import OPTIMISERS
from fedpriv.attacks import ATTACKS
from fedpriv.attacks.corruption import CORRUPTIONS, corruption_of
from fedpriv.bounds import Norm
from fedpriv.errors import FedprivError, probability
from fedpriv.mechanisms import COSTED
from fedpriv.population.dealing import SPLITS
from fedpriv.population.participation import PARTICIPATIONS
from fedpriv.releases import SUMS
from fedpriv.releases.hidden import HIDDEN
from fedpriv.releases.kept import KEPT
from fedpriv.studies import file as files
from fedpriv.studies.clients import Clients, Training
from fedpriv.studies.kinds import RULES
from fedpriv.studies.study import Kind
from fedpriv.studies.tables import Masking, Privacy, Run, Server
from fedpriv.trust import Local
from server import rounds
from simulations.runs.direct import Here

GIVEN: dict[str, Any] = {
    "clip": 2.0, "peak": 1.0, "scale": 4.0, "trials": 4, "noise": 1.0, "spread": 3.0, "levels": 4, "epsilon": 1.0,
    "delta": 1e-5, "sampling": 0.25, "trimmed": 12, "bound": 1.0, "failure": 1e-6, "count_noise": 5.0,
    "dropped": 2, "byzantine": 1, "number": 3, "rate": 1.0, "size": 2, "radius": 1.0, "share": 1.0, "path": "somewhere",
    "deviation": 2.0, "source": 1, "target": 2, "alpha": 2.0, "each": 2, "exponent": 1.0, "name": "a/set",
    "variance": 1.0, "grid": 1.0, "bins": 3, "batch": 4, "probability": 1.0, "kept": 2, "root": 8, "radii": 1.0,
    "threshold": 2.0, "low": 0.25, "high": 0.5, "margin": 12, "bands": 2, "apart": 4, "planned": 8, "blocks": 2,
    "penalty": 0.25, "steps": 4,
}  # fmt: skip
FAMILIES: dict[str, tuple[Mapping[str, type[Any]], Callable[[str, Any], Any]]] = {
    "mechanism": (COSTED, COSTED.made),
    "release": (SUMS, SUMS.made),
    "kept": (KEPT, KEPT.made),
    "hidden": (HIDDEN, HIDDEN.made),
    "attack": (ATTACKS, ATTACKS.made),
    "corruption": (CORRUPTIONS, lambda kind, own: corruption_of(kind, {"share": np.float64(1.0), **own})),
    "rule": (RULES, RULES.made),
    "step": (STEPS, STEPS.made),
    "split": (SPLITS, SPLITS.made),
    "participation": (PARTICIPATIONS, PARTICIPATIONS.made),
    "optimiser": (OPTIMISERS, OPTIMISERS.made),
    "data": (DATA_SETS, DATA_SETS.made),
    "model": (MODELS, MODELS.made),
    "attack on inputs": (INPUT_ATTACKS, INPUT_ATTACKS.made),
}
EVERY = [(family, kind) for family, (kinds, _) in FAMILIES.items() for kind in kinds]


def numpys(value: Any) -> Any:
    """All numbers numpy's, of the kind that numpy makes of them."""
    if isinstance(value, dict):
        return {name: numpys(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [numpys(each) for each in value]
    return np.asarray(value)[()] if isinstance(value, int | float) else value


def whole(value: Any) -> Any:
    """Whole numbers in the place of floats that are."""
    return int(value) if type(value) is float and value.is_integer() else value


def settings(family: str, kind: str) -> dict[str, Any]:
    """Every setting of a class, by its default or by hand."""
    cls = FAMILIES[family][0][kind]
    if not is_dataclass(cls) or kind == "Sgd":  # whose momentum is the server's
        return {}
    own = {each.name: each.default for each in fields(cls) if each.init and each.default is not MISSING}
    needed = {each.name for each in fields(cls) if each.init} - set(own)
    more: dict[str, Any] = {"network": {"kind": "Logistic"}, "path": "torch.nn:Flatten"} if family == "model" else {}
    if kind == "Table":
        more = {"levels": [-1.0, 1.0], "chances": [[0.75, 0.25], [0.25, 0.75]]}
    if (family, kind) == ("mechanism", "Ptr"):  # one of two of them is needed
        needed |= {"trimmed"}
    own |= {name: (GIVEN | more)[name] for name in needed if name in GIVEN | more}
    return {name: value for name, value in own.items() if value is not None}


def leaves(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [leaf for each in value.values() for leaf in leaves(each)]
    return [leaf for each in value for leaf in leaves(each)] if isinstance(value, list | tuple) else [value]


@pytest.mark.parametrize(("family", "kind"), EVERY, ids=[f"{family} {kind}" for family, kind in EVERY])
def test_every_class_that_a_study_names_is_the_same_made_of_numpys_numbers(family: str, kind: str) -> None:
    make, own = FAMILIES[family][1], settings(family, kind)
    found = make(kind, own)
    for others in (numpys(own), {name: whole(value) for name, value in own.items()}):
        made = make(kind, others)
        assert repr(made) == repr(found)
        assert made == found
        assert not [leaf for leaf in leaves(asdict(made)) if isinstance(leaf, np.generic)]


STUDY = """
name = "numbers"
data = { kind = "Digits", held_out = 360, divide = 16.0 }
attack = { kind = "SignFlip", factor = 2.0 }
corruption = { kind = "FeatureNoise", share = 0.1, deviation = 10.0 }
aggregation = { kind = "TrimmedMean", dropped = 4, before = [{ kind = "NormClipping", radius = 1.0 }] }
server = { step = 0.5, optimiser = { kind = "Adam", first = 0.9 }, fewest = 3, tolerance = false }
run = { rounds = 2, seed = 3 }
[clients]
count = 40
records = 10
byzantine = 0.1
split = { kind = "Dirichlet", alpha = 1.0 }
participation = { kind = "Poisson", rate = 1.0 }
[training]
model = { kind = "Mlp", hidden = [8] }
batch = 5
learning_rate = 1.0
[privacy]
mechanism = { kind = "Binomial", clip = 1.0, scale = 3.0, trials = 4 }
delta = 1e-5
"""


def test_a_study_of_numpys_numbers_is_the_same_study_of_the_same_id_and_text() -> None:
    table = tomllib.loads(STUDY)
    study, other = files.study_of(table), files.study_of(numpys(table))
    assert (other, other.id, files.study_text(other)) == (study, study.id, files.study_text(study))
    assert files.parsed_study(files.study_text(other)) == other


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("privacy.mechanism.clip", 1),
        ("privacy.mechanism.scale", 3),
        ("clients.split.alpha", 1),
        ("clients.participation.rate", 1),
        ("attack.factor", 2),
        ("corruption.deviation", 10),
        ("training.learning_rate", 1),
    ],
)
def test_a_whole_number_where_a_float_is_wanted_is_that_float(path: str, value: int) -> None:
    study, other = files.parsed_study(STUDY), files.parsed_study(STUDY, overrides=[f"{path}={value}"])
    assert (other, other.id, files.study_text(other)) == (study, study.id, files.study_text(study))


def test_studies_that_are_equal_have_equal_ids() -> None:
    """A class of which nothing is known here may take 1 for another thing than 1.0, so these are not equal."""
    one, other = (files.parsed_study(STUDY, overrides=[f"data.divide={value}"]) for value in ("16", "16.0"))
    assert (one == other) == (one.id == other.id)
    assert Kind("a:B", {"n": 1}) != Kind("a:B", {"n": 1.0})
    assert Kind("a:B", {"n": np.int64(1)}) == Kind("a:B", {"n": 1})


def test_tables_made_in_python_take_numpys_numbers_too() -> None:
    made: list[tuple[type[Any], dict[str, Any]]] = [
        (Clients, {"count": 10, "records": 2, "byzantine": 3}),
        (Clients, {"count": 10, "byzantine": 0.25}),
        (Training, {"batch": 3, "learning_rate": 1.0}),
        (Privacy, {"mechanism": Kind("Plain", {"clip": np.float64(1)}), "delta": 1e-6, "colluding": 2, "budget": 2.0}),
        (Server, {"step": 1.0, "momentum": 0.5, "fewest": 2, "tolerance": True}),
        (Masking, {"threshold": 0.5, "neighbours": 4, "rehearse": True}),
        (Run, {"rounds": 3, "seed": 2**40}),
    ]
    for cls, own in made:
        plain, other = cls(**own), cls(**{name: numpys(value) for name, value in own.items()})
        assert repr(plain) == repr(other)


def test_a_run_of_numpys_numbers_trains_and_writes_the_same_bytes(tmp_path: Path) -> None:
    table = tomllib.loads(STUDY)
    for name, own in (("python", table), ("numpy", numpys(table))):
        result = rounds.run_rounds(files.study_of(own), tmp_path / name, Here(), quiet=True)
        assert result["skipped"] == 0
        assert result["rejected"] == {}
    for file in ("study.toml", "records.jsonl"):
        assert (tmp_path / "python" / file).read_bytes() == (tmp_path / "numpy" / file).read_bytes()


@pytest.mark.parametrize(
    "value", [np.float16(0.5), np.float32(0.5), np.float64(0.5), np.longdouble(0.5), np.array(0.5)], ids=repr
)
def test_every_float_of_numpys_becomes_a_float(value: Any) -> None:
    assert type(native_values(value)) is float
    assert native_values(value) == 0.5


def test_what_is_wrong_with_a_number_of_numpys_is_said_in_plain_digits() -> None:
    with pytest.raises(FedprivError, match=r"^delta must be between 0 and 1, got 2\.0$"):
        probability(delta=np.float64(2.0))
    with pytest.raises(FedprivError, match=r"^Binomial: clip must be positive, got -1\.0$"):
        COSTED.made("Binomial", {"clip": np.float64(-1), "scale": 1.0, "trials": 4})


def test_mechanisms_made_by_hand_of_numpys_numbers_encode_and_cost_the_same() -> None:
    plain: dict[str, Any] = {"clip": 1.0, "scale": 3.0, "trials": 4}
    own, other = mechanisms.Binomial(**plain), mechanisms.Binomial(**numpys(plain))
    x = np.linspace(-1, 1, 9)
    assert (own.encode(x, default_rng(1)) == other.encode(x, default_rng(1))).all()
    assert own.tradeoff("replace").epsilon(1e-5) == other.tradeoff("replace").epsilon(1e-5)


def test_a_ledger_of_numpys_numbers_is_read_back_as_the_same_ledger(tmp_path: Path) -> None:
    facts: dict[str, Any] = {"dimension": 5, "rounds": 3}
    settings: dict[str, Any] = {"clip": 1.0, "scale": 3.0, "trials": 4}
    events = [
        Event(
            mechanism=mechanisms.Binomial(**made(settings)), bound=Norm(**made({"clip": 1.0})), trust=Local(),
            unit="client", adjacency="replace", **made(facts),
        )
        for made in (dict, numpys)
    ]  # fmt: skip
    for place, event in enumerate(events):
        Ledger().add(event).save(tmp_path / str(place))
    assert (tmp_path / "0").read_bytes() == (tmp_path / "1").read_bytes()
    assert Ledger.load(tmp_path / "1") == Ledger().add(events[0])
