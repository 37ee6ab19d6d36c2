"""A deployed client that keeps noised records: its key, its ledger, what it refuses; certificates of its training."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import numpy as np
import pytest
import torch

from clients.data.pool import Pool
from clients.node.costs import total_epsilon
from clients.node.guard import UNUSABLE, Node
from clients.node.own_key import KEPT, key_in
from clients.node.policy import Refused
from clients.robustness.certifying import Terms, averaged_score, verdicts_of
from clients.robustness.input_attacks import Pgd
from clients.robustness.stobatch import smoothed_network
from clients.training.stobatch_noise import secret_source
from fedpriv.accounting.account import Account
from fedpriv.accounting.event import Event
from fedpriv.certified import FunctionalMechanism
from fedpriv.errors import FedprivError
from fedpriv.node import own_ledger
from fedpriv.releases.kept import mechanism_of
from fedpriv.studies import file as study_file
from server.rounds import planned
from simulations.certify.run import load_certified
from simulations.command_line import main
from tests.clients.training.test_stobatch import study

TERMS = """
studies = "any"
mechanisms = "any"
unit = "record"
budget = { epsilon = 60.0, delta = 1e-5 }
"""
SMALL = {"patch": 4, "hidden": 4, "last": 4}


def node(folder: Path, terms: str = TERMS) -> Node:
    folder.mkdir(exist_ok=True)
    (folder / "policy.toml").write_text(terms)
    return Node.of({"policy": str(folder / "policy.toml"), "partition-id": 1, "num-partitions": 4})


def asked(own: Node, *overrides: str, round: int = 1, run: str = "", name: str = "kept") -> bytes:
    plan = planned(study(*overrides, f"name={name}"))
    return own.answer(study_file.study_text(plan.study), plan.net.initial(), round, np.array([1]), run=run)


def released(folder: Path) -> tuple[Event, ...]:
    with own_ledger.opened_ledger(folder / "ledger", (1, 4)) as ledger:
        return ledger.events()


def test_any_number_of_rounds_runs_and_studies_is_charged_once(tmp_path: Path) -> None:
    own = node(tmp_path)
    first = asked(own)
    assert asked(own) == first
    charge = released(tmp_path)
    kept = planned(study()).study.privacy.kept
    assert kept is not None
    assert charge == mechanism_of(kept).events
    asked(own, round=2), asked(own, run="another run"), asked(own, "server.step=1.0", name="another study")
    asked(own, "privacy.release.xi=2.0")
    assert released(tmp_path) == charge
    asked(own, "clients.split=in-order", name="in order")
    assert sum(each.rounds for each in released(tmp_path)) == 2 * sum(each.rounds for each in charge)  # other records
    asked(own, "clients.split=in-order", "run.seed=5", name="in order too")  # divides the same without a seed
    assert sum(each.rounds for each in released(tmp_path)) == 2 * sum(each.rounds for each in charge)
    assert total_epsilon(charge, 1e-5) == pytest.approx(Account(charge).upper_epsilon(1e-5))


def test_another_scale_is_another_release_with_noise_of_its_own_and_past_the_budget_refused(tmp_path: Path) -> None:
    own = node(tmp_path)
    asked(own)
    before = total_epsilon(released(tmp_path), 1e-5)
    asked(own, "privacy.release.epsilon=1.9", name="another study")
    assert total_epsilon(released(tmp_path), 1e-5) > 1.2 * before
    with pytest.raises(Refused, match="past the budget of 60"):
        asked(own, "privacy.release.epsilon=20.0", name="a third")
    with pytest.raises(Refused, match="one message would cost"):
        asked(node(tmp_path / "strict", TERMS + "round = { epsilon = 1.0, delta = 1e-5 }"))
    with pytest.raises(Refused, match="budget is of clients"):
        asked(node(tmp_path / "clients", TERMS.replace('unit = "record"', "")))


def test_once_paid_for_a_message_costs_nothing_under_a_bound_on_messages(tmp_path: Path) -> None:
    asked(node(tmp_path))
    strict = node(tmp_path, TERMS + "round = { epsilon = 1.0, delta = 1e-5 }")
    assert asked(strict, round=2)


def test_the_ledger_and_the_key_survive_a_restart_and_a_lost_key_is_a_new_release(tmp_path: Path) -> None:
    asked(node(tmp_path))
    file = tmp_path / "ledger" / "kept.key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(file.read_bytes()) == 32
    names = [json.loads(line).get("kept") for line in (tmp_path / "ledger" / "ledger.jsonl").read_text().splitlines()]
    asked(node(tmp_path), round=2)
    assert len(released(tmp_path)) == 2
    assert not any(key in (tmp_path / "ledger" / "ledger.jsonl").read_bytes() for key in (file.read_bytes(),))
    file.unlink()
    asked(node(tmp_path), round=3)
    assert [each.rounds for each in released(tmp_path)] == [2, 2]
    assert names[0] is None
    file.write_bytes(b"short")
    with pytest.raises(Refused, match="is no key of 32 bytes"):
        asked(node(tmp_path), round=4)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("batch = 20|batch = 200", "needs 2 fixed batches of batch = 200 records at each client, which has 40"),
        ('["IFgsm", "Mim", "Pgd"]|["Nobody"]', "attacks"),
        ("epsilon_1 = |spi = 1\nepsilon_1 = ", "no setting 'spi'"),
    ],
)
def test_a_server_that_asks_for_what_cannot_be_is_refused_before_anything_is_charged(
    change: str, why: str, tmp_path: Path
) -> None:
    plan = planned(study())
    text, (old, new) = study_file.study_text(plan.study), change.split("|")
    assert old in text
    with pytest.raises(Refused, match=why):
        node(tmp_path).answer(text.replace(old, new), plan.net.initial(), 1, np.array([1]))
    assert released(tmp_path) == ()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("sizes = [64, 9, 16, 4]|sizes = [64, 9, 1, 1]", "another model"),
        ("subtract = 1.0|subtract = 0.0", "must be in [-1, 1]"),
    ],
)
def test_what_does_not_fit_the_data_is_charged_once_like_what_does_and_said_in_the_nodes_log_alone(
    change: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, own = planned(study()), node(tmp_path, TERMS.replace("60.0", "200.0"))
    text, (old, new) = study_file.study_text(plan.study), change.split("|")
    assert old in text
    for round in (1, 2):
        with pytest.raises(Refused) as said:
            own.answer(text.replace(old, new), plan.net.initial(), round, np.array([1]))
        assert str(said.value) == UNUSABLE
        assert why in capsys.readouterr().err
    assert sum(each.rounds for each in released(tmp_path)) == sum(each.rounds for each in cost(text.replace(old, new)))


def cost(text: str) -> tuple[Event, ...]:
    kept = study_file.parsed_study(text).privacy.kept
    assert kept is not None
    return mechanism_of(kept).events


def pool(x: np.ndarray, **changed: float) -> Pool:
    test = np.zeros((1, 4), np.float32)
    about = {"divide": 1.0, "subtract": 0.0} | changed
    return Pool(x=x, y=np.arange(len(x)) % 2, x_test=test, y_test=np.zeros(1, np.int64), classes=2, **about)  # type: ignore[arg-type]


def test_the_noise_is_bound_to_everything_the_release_depends_on() -> None:
    x, held = np.random.default_rng(1).uniform(-1, 1, (6, 4)), [np.arange(6)]

    def noise(epsilon_1: float = 1.0, epsilon_2: float = 1.0, batch: int = 6) -> FunctionalMechanism:
        return FunctionalMechanism(**SMALL, inputs=4, batch=batch, epsilon_1=epsilon_1, epsilon_2=epsilon_2)

    mechanism = noise()
    moved = x.copy()
    moved[5, 3] += 1e-9
    key = bytes(32)
    first = secret_source(key, mechanism, pool(x), held, None)
    again = secret_source(key, mechanism, pool(x.copy()), held, None)
    varied = [
        *(
            secret_source(key, own, pool(x), held, None)
            for own in (noise(epsilon_1=2.0), noise(epsilon_2=2.0), noise(batch=3))
        ),
        secret_source(bytes(31) + b"1", mechanism, pool(x), held, None),
        secret_source(key, mechanism, pool(moved), held, None),
        secret_source(key, mechanism, pool(x, divide=2.0), held, None),
        secret_source(key, mechanism, pool(x), [np.arange(6)[::-1]], None),
        secret_source(key, mechanism, pool(x), [np.arange(3), np.arange(3, 6)], None),
        secret_source(key, mechanism, pool(x), held, "corrupted"),
    ]
    assert first.name == again.name
    assert first(0, "records").bytes(16) == again(0, "records").bytes(16)
    names = {own.name for own in varied} | {first.name}
    places = [(0, "records"), (0, "labels"), (1, "records")]
    drawn = {own(0, "records").bytes(16) for own in varied} | {first(*place).bytes(16) for place in places}
    assert len(names) == 10
    assert len(drawn) == 12
    assert "_key" not in repr(first)


def test_a_key_is_made_once(tmp_path: Path) -> None:
    assert key_in(tmp_path / "new", KEPT) == key_in(tmp_path / "new", KEPT) != key_in(tmp_path / "other", KEPT)


# What is refused


@pytest.mark.parametrize(
    ("overrides", "why"),
    [
        (["clients.split=pool"], "whose batches would overlap"),
        (["training.model={kind='Cnn'}"], "no first layer to reconstruct"),
        (["data.subtract=0.0"], r"data: inputs must be in \[-1, 1\], record 0 reaches"),
        (["privacy.release.batch=30"], "needs 2 fixed batches of batch = 30 records at each client, which has 40"),
        (["privacy.release.attacks=['Pdg']"], "attacks.*did you mean 'Pgd'"),
        (["privacy.release.attacks=[]"], "attacks must be a list of kinds"),
        (["privacy.release.epsilon_1=1.0"], "give one of them"),
        (["privacy.release.epsilon=0.4"], "epsilon must be larger than epsilon_2 = 0.5"),
        (["privacy.release.epsilon=nan"], "epsilon must be finite"),
        (["privacy.release.xi=-1.0"], "xi must be at least 0"),
        (["privacy.release.sizes=[64, 9, 16, 5]"], "sizes are those of another model or other data: last 5 for 4"),
        (["privacy.release.spi=1"], "StoBatch has no setting 'spi'"),
        (["privacy.adjacency=add-remove"], "adjacency 'replace'"),
        (["privacy.trust=central"], "protects records from the server too"),
        (["privacy.noise=cryptographic"], "own secret key"),
        (["training.batch=3"], "has fixed batches: privacy.release.batch"),
        (["training.local_steps=2"], "local_steps must be 1"),
        (["clients.split={kind='PowerSizes', exponent=2.0}"], "its fixed batches need"),
        (["training=StoBtach"], "training"),
    ],
)
def test_bad_input_is_refused_in_one_line_before_anything_is_spent(overrides: list[str], why: str) -> None:
    with pytest.raises(FedprivError, match=why) as found:
        planned(study(*overrides))
    assert "\n" not in str(found.value)


def test_what_does_not_divide_is_named_and_left_out(tmp_path: Path) -> None:
    settings, file = ["clients.records=47", "privacy.release.batch=20", "run.rounds=1"], tmp_path / "study.toml"
    file.write_text(study_file.study_text(study(*settings)))
    assert main(["run", str(file), "--driver", "direct", "--quiet", "--out", str(tmp_path / "run")]) == 0
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["left_out"] == (
        "7 of each client's 47, past its last pair of batches; 1,249 of all 1,437, which no client has"
    )


# Certificates


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("kept") / "run"
    easy = ["release.epsilon=60.0", "release.epsilon_2=20.0", "release.steps=1"]
    sets = [word for each in easy for word in ("--set", f"privacy.{each}")] + ["--set", "run.rounds=14"]
    assert main(["run", "stobatch", "--driver", "direct", "--quiet", "--out", str(place), *sets]) == 0
    return place


def test_certify_takes_the_noise_of_the_training_and_prints_both_radii_and_both_epsilons(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ["--images", "12", "--draws", "80", "--quiet", "--no-figure", "--workers", "1"]
    assert main(["certify", str(run), *few, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    kept = study_file.read_study(str(run / "study.toml")).privacy.kept
    assert kept is not None
    noise = mechanism_of(kept).noise
    assert found["smoothing"]["kind"] == "StoBatchSmoothing"
    assert found["drawn"] == pytest.approx([noise / 2, noise])
    assert (found["smoothing"]["hidden"], found["smoothing"]["maps"]) == (256, 16)
    assert found["smoothing"]["row"] <= 1 + 1e-5
    assert all(row["published"] <= row["accuracy"] for row in found["certified"])
    assert any("as published" in text for text in found["privacy"].values())
    assert main(["certify", str(run), *few, "--law", "laplace", "--noise", "0.1"]) == 0
    assert "Laplace noise of scale 0.1" in capsys.readouterr().out
    for words, why in (
        (["--psi", "0"], "psi must be positive"), (["--psi", "nan"], "psi must be finite"),
        (["--law", "stobatch", "--noise", "1"], "takes the noise that a run trained with"),
        (["--law", "gaussian", "--psi", "2"], "--psi divides the noise of --law stobatch"),
        (["--draws", "1"], "draws must be at least 2"), (["--confidence", "1"], "confidence must be above 0 and"),
    ):  # fmt: skip
        assert main(["certify", str(run), *few[:2], "--quiet", *words]) == 2
        assert why in capsys.readouterr().err


def test_no_attack_within_a_certified_radius_changes_a_prediction(run: Path) -> None:
    trained = load_certified(run, None, 24)
    network, kind = smoothed_network(trained.network, trained.x[0].shape, 0.5, 2.0)
    terms = Terms(smoothing=kind, draws=300)
    found = [each for each in verdicts_of(network, trained.x, terms) if each.prediction is not None and each.radius > 0]
    assert len(found) >= 8

    def changed(times: float) -> int:
        broken = 0
        for own in found:
            x, y = torch.tensor(trained.x[own.image : own.image + 1]), torch.tensor([own.best])
            attack = Pgd(size=own.radius * times, steps=10, restarts=2)
            towards = averaged_score(network, 8, np.random.default_rng(own.image))
            moved = attack(towards, x, y, torch.Generator().manual_seed(1))
            (after,) = verdicts_of(network, moved.numpy(), Terms(smoothing=kind, draws=300, seed=2))
            broken += after.prediction is not None and after.prediction != own.prediction
        return broken

    assert changed(1.0) == 0  # each verdict is wrong with probability 0.001 at most, over its draws
    assert changed(30.0) > 0  # the attack is one


def test_columns_longer_than_allowed_and_models_without_a_first_layer_have_no_such_certificate() -> None:
    with pytest.raises(FedprivError, match="first layer is an auto-encoder's"):
        smoothed_network(torch.nn.Linear(4, 2), (4,), 0.5, 2.0)
