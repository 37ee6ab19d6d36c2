"""Training on records that were noised once: the noise, its price, the gradients, the distributed rounds."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from polynomials import label_loss, reconstruction

from clients.data.splits import records_of
from clients.models.stobatch import Encoded, encoded_of, sizes_of
from clients.training.cohort import Cohort, cohort_reply
from clients.training.prepared import Prepared, prepared_study
from clients.training.stobatch import Batch, adversarial_examples, noised_gradient
from fedpriv import records
from fedpriv.accounting.account import Account
from fedpriv.errors import FedprivError
from fedpriv.releases import kept
from fedpriv.studies import file as study_file
from fedpriv.studies import promise as guarantee
from fedpriv.studies.calibrating import calibrated_study
from fedpriv.studies.study import Study
from server import rounds
from server.rounds import planned
from simulations.command_line import main
from simulations.runs.direct import Here

STUDY = """
name = "kept"
training = "StoBatch"
data = { kind = "Digits", divide = 8.0, subtract = 1.0 }
clients = { count = 4, records = 40 }
privacy.release = { epsilon = 2.0, epsilon_2 = 0.5, steps = 2 }
server = { optimiser = { kind = "Adam" }, step = 0.03 }
run.rounds = 2
"""
MODEL = "training.model={kind='EncodedCnn', maps=[4], kernel=3, units=4}"
PAPER = (784, 25, 196, 256)


def study(*overrides: str) -> Study:
    return study_file.parsed_study(STUDY, overrides=[MODEL, *overrides])


def plan(*overrides: str) -> Prepared:
    return planned(study(*overrides))


def cohort(*overrides: str) -> Cohort:
    return Cohort(prepared_study(plan(*overrides).study))


def kept_of(own: Cohort, client: int) -> tuple[torch.Tensor, torch.Tensor]:
    assert own.keeping is not None
    batches = own.keeping.batches(client)
    return torch.cat([each.x for each in batches]), torch.cat([each.y for each in batches])


def noise_of(own: Cohort, client: int) -> np.ndarray:
    """What was added to a client's records, (records, 64)."""
    x, _ = kept_of(own, client)
    clean, _ = own.pool.batch(records_of(own.division, client)[None])
    return np.asarray(x.flatten(1).numpy() - clean[0].reshape(len(x), -1))


def updates(own: Cohort, round: int = 1, clients: int = 4) -> np.ndarray:
    assert own.keeping is not None
    out = np.empty((clients, own.net.dimension), np.float32)
    assert not own.keeping.updates(own.net.initial(), round, np.arange(clients), out)
    return out


# The noise and its price


def test_the_papers_settings_give_the_papers_noise_and_the_examples_own_price() -> None:
    own = kept.filled_kept(kept.StoBatch(epsilon=0.9786364), 4998, PAPER)
    mechanism = kept.mechanism_of(own)
    assert own.batch == 2499
    assert mechanism.epsilon_1 == pytest.approx(0.5, rel=1e-6)
    assert mechanism.noise == pytest.approx(4950 / 2499 / 0.5, rel=1e-6)  # Δ_R/(m·ε₁)
    assert mechanism.label_noise == pytest.approx(512 / 2499 / 0.1)  # Δ_L/(m·ε₂)
    assert mechanism.certified(0.0).upper == pytest.approx(2 * 784 / mechanism.noise + 2 / mechanism.label_noise)


def test_all_rounds_together_cost_what_the_noise_costs_once_and_both_epsilons_are_shown(tmp_path: Path) -> None:
    own = plan()
    costs = {guarantee.epsilon_after(own.study, own.net.dimension, rounds) for rounds in (1, 2, 10**6)}
    (cost,) = costs
    assert own.study.privacy.kept is not None
    mechanism = kept.mechanism_of(own.study.privacy.kept)
    assert cost.upper == mechanism.certified(1e-5).upper == Account(mechanism.events).epsilon(1e-5).bounds.upper
    result = rounds.run_rounds(own.study, tmp_path / "run", Here(), quiet=True)
    assert result["epsilon"]["upper"] == cost.upper
    assert result["epsilons"]["published"]["epsilon"] == pytest.approx(2.0)
    assert result["epsilons"]["example-level"]["epsilon"]["upper"] == cost.upper
    assert (result["unit"], result["adjacency"], result["trust"]) == ("record", "replace", "local")
    end = records.read_records(tmp_path / "run" / "records.jsonl").end
    assert end is not None
    assert end["releases_of_worst"] == 1


def test_a_target_is_met_by_epsilon_1_and_a_budget_below_the_one_price_is_refused() -> None:
    own = plan("privacy.release={kind='StoBatch', epsilon_2=0.5}", "privacy.epsilon=20.0")
    assert 19.9 < guarantee.epsilon_after(own.study, own.net.dimension, 2).upper <= 20
    assert calibrated_study(own.study, own.net.dimension) == own.study
    price = guarantee.epsilon_after(plan().study, 1, 1).upper
    assert guarantee.affordable_rounds(plan(f"privacy.budget={price}").study, 1) == 2
    with pytest.raises(FedprivError, match="does not pay for one round"):
        plan(f"privacy.budget={price * 0.99}")
    with pytest.raises(FedprivError, match=r"labels alone cost"):
        plan("privacy.release={kind='StoBatch', epsilon_2=5.0}", "privacy.epsilon=0.5")


def test_what_is_kept_is_the_same_in_every_round_and_run_and_others_under_another_scale_or_seed() -> None:
    first, again = cohort(), cohort("run.rounds=9", "server.step=1.0", "privacy.release.xi=0.5")
    for client in (0, 3):
        before = kept_of(first, client)
        updates(first, round=1), updates(first, round=2)
        for mine, theirs in zip(before, kept_of(again, client), strict=True):
            assert torch.equal(mine, theirs)
        assert torch.equal(before[0], kept_of(first, client)[0])
    for other in ("privacy.release.epsilon=3.0", "run.seed=2"):
        changed = cohort(other)
        mine, theirs = (noise_of(own, 0) for own in (first, changed))
        assert abs(np.corrcoef(mine.ravel(), theirs.ravel())[0, 1]) < 0.08  # 2,560 coordinates: four standard errors


def test_every_record_has_noise_of_its_own_of_the_laplace_law() -> None:
    own = cohort("clients.count=1", "clients.records=1400", "privacy.release.epsilon=20.0")
    assert own.keeping is not None
    noise = noise_of(own, 0)
    b = own.keeping._mechanism.noise
    assert np.abs(noise).mean() == pytest.approx(b, rel=4 / noise.size**0.5)
    assert (noise**2).mean() == pytest.approx(2 * b * b, rel=4 * 5**0.5 / noise.size**0.5)
    assert abs(np.corrcoef(noise[0], noise[1])[0, 1]) < 0.5
    assert np.linalg.matrix_rank(noise[:64]) == 64  # one vector for all would have rank 1


def test_one_record_replaced_moves_what_is_kept_of_it_alone_by_the_sensitivity_that_is_charged() -> None:
    one, other = cohort(), cohort()
    row = int(records_of(one.division, 1)[7])
    other.pool = other.keeping._pool = type(one.pool)(  # type: ignore[union-attr]
        x=np.where((np.arange(len(one.pool.x)) == row)[:, None, None], 16 - one.pool.x, one.pool.x),
        y=np.where(np.arange(len(one.pool.y)) == row, (one.pool.y + 1) % 10, one.pool.y),
        x_test=one.pool.x_test, y_test=one.pool.y_test, classes=10, divide=8.0, subtract=1.0,
    )  # fmt: skip
    for client in range(4):
        (x, y), (x2, y2) = kept_of(one, client), kept_of(other, client)
        moved = np.flatnonzero((x != x2).flatten(1).any(1).numpy() | (y != y2).any(1).numpy())
        assert moved.tolist() == ([7] if client == 1 else [])
        if client == 1:
            assert float((x - x2).abs().max()) <= 2 + 1e-5
            assert sorted((y - y2).abs().sum(0).round(decimals=4).tolist())[-3:] == pytest.approx([0, 1, 1], abs=1e-4)


def test_who_tells_two_records_apart_by_what_is_kept_wins_no_more_than_the_certificate_allows() -> None:
    mechanism = kept.mechanism_of(kept.filled_kept(kept.AdLm(epsilon_1=0.05), 100, (16, 4, 4, 4)))
    rng, corner, draws = np.random.default_rng(1), np.ones(16), 20_000
    best = [np.sign(mechanism.perturbed(np.tile(x, (draws, 1)), rng)).sum(1) for x in (corner, -corner)]
    epsilon = Account(mechanism.events[:1]).epsilon(1e-3).bounds.upper
    for threshold in (0, 2, 4, 8):
        right, wrong = ((each > threshold).mean() for each in best)
        assert right <= np.exp(epsilon) * wrong + 1e-3 + 4 * (right / draws) ** 0.5 * np.exp(epsilon) ** 0.5


# The gradients


def test_gradients_are_those_of_the_polynomials_as_they_are_written() -> None:
    own = plan("privacy.release.hidden_noise=0.0")
    module = encoded_of(own.net)
    rng = np.random.default_rng(3)
    x, y = torch.from_numpy(rng.normal(size=(3, 1, 8, 8))).float(), torch.from_numpy(rng.normal(size=(3, 10)))
    batch = Batch(x, y.float())
    found = noised_gradient(module, batch, 0.5, 0.25, 0.0, rng)
    with torch.no_grad():
        theta, hidden = module.first.theta.double().numpy(), module.first(x).double().numpy()
    patches = torch.nn.functional.unfold(x.double(), 3, padding=1, stride=2).numpy()  # (records, 9, 16)

    def r(maps: np.ndarray) -> float:
        total = 0.0
        for record in range(3):
            for own_map in range(4):
                h = np.clip(hidden[record, own_map].ravel(), -1, 1)
                rows = maps[own_map].reshape(9, 1)
                for place in range(16):
                    args = rows, h[place : place + 1] / 2, patches[record, :, place], h[place : place + 1]
                    total += reconstruction(*args) - 9 * np.log(2)
        return total * 0.5 / 16

    def slope(make: Any, at: np.ndarray, place: int) -> float:
        step = np.zeros(at.size)
        step[place] = 1e-5
        return float((make(at + step.reshape(at.shape)) - make(at - step.reshape(at.shape))) / 2e-5)

    weights = module.first.weight.detach().double().numpy()

    def brought(w: np.ndarray) -> np.ndarray:
        return w / np.maximum(np.abs(w).sum((1, 2, 3), keepdims=True) * (1 + 1e-6), 1)

    assert theta == pytest.approx(brought(weights), rel=1e-5)
    for place in (0, 7, 35):
        assert float(found[place]) == pytest.approx(slope(lambda w: r(brought(w)), weights, place), rel=1e-3, abs=1e-5)
    with torch.no_grad():
        features = module.rest(module.first(x)).double().numpy()
    last = module.last.weight.detach().double().numpy()

    def labelled(w: np.ndarray) -> float:
        return sum(label_loss(w @ features[i], y[i].numpy()) for i in range(3)) * 0.25

    tail = found[-last.size :]
    for place in (0, 11, 39):
        assert float(tail[place]) == pytest.approx(slope(labelled, last, place), rel=1e-3, abs=1e-5)


def test_columns_of_the_first_layer_stay_within_norm_one_whatever_the_server_sends() -> None:
    own = plan()
    for scale in (0.0, 1e-3, 1.0, 1e6):
        module = cast(Encoded, own.net.module(own.net.initial() * np.float32(scale)))
        norms = module.first.theta.detach().double().abs().sum((1, 2, 3))
        assert float(norms.max()) <= 1
    assert sizes_of(own.net) == (64, 9, 16, 4)


@pytest.mark.parametrize("kind", ["Fgsm", "IFgsm", "Mim", "Pgd"])
def test_adversarial_examples_stay_within_their_size_outside_of_the_box_too_and_never_help(kind: str) -> None:
    module = encoded_of(plan().net)
    x = torch.from_numpy(np.random.default_rng(4).normal(scale=3, size=(20, 1, 8, 8)).astype(np.float32))
    moved = adversarial_examples(module, x, kind, 0.3, 4, torch.Generator().manual_seed(1))
    assert float((moved - x).abs().max()) == pytest.approx(0.3, abs=1e-4)
    with torch.no_grad():
        predicted = module(x).argmax(1)
        before, after = (torch.nn.functional.cross_entropy(module(each), predicted) for each in (x, moved))
    assert after > before


# Distributed


def test_four_clients_of_one_pair_are_one_client_of_four_pairs() -> None:
    four = updates(cohort("clients.records=40", "privacy.release.batch=20"))
    one = updates(cohort("clients.count=1", "clients.records=160", "privacy.release.batch=20"), clients=1)
    assert np.abs(four).max() > 0
    assert four.mean(0) == pytest.approx(one[0], abs=1e-6 * float(np.abs(one).max()))


def test_adlm_is_the_benign_half_and_uses_every_batch() -> None:
    both = cohort("privacy.release.xi=0.0", "privacy.release.hidden_noise=0.0", "privacy.release.batch=20")
    alone = cohort(
        "privacy.release={kind='AdLm', epsilon=2.0, epsilon_2=0.5, hidden_noise=0.0, batch=20}", "clients.records=40"
    )
    first = encoded_of(both.net).first.weight.numel()
    assert both.keeping is not None
    assert alone.keeping is not None
    assert len(alone.keeping.batches(0)) == len(both.keeping.batches(0)) == 2
    mixed, own = updates(both)[0, first:], updates(alone)[0, first:]
    assert not np.allclose(mixed, own)
    x, y, _ = both.keeping.batches(0)[0]
    benign = noised_gradient(both.keeping._module, Batch(x, y), 1.0, 1 / 20, 0.0, np.random.default_rng(0))[first:]
    assert mixed == pytest.approx(benign.numpy(), abs=1e-5)


def test_the_study_that_ships_learns_and_its_records_do_not_depend_on_cohorts(tmp_path: Path) -> None:
    easy = ["run.rounds=12", "privacy.release.epsilon=500.0", "privacy.release.epsilon_2=100.0",
            "privacy.release.steps=1", "privacy.release.hidden_noise=0.0"]  # fmt: skip
    for cohorts in (1, 3):
        own = study_file.read_study("stobatch", easy)
        result = rounds.run_rounds(own, tmp_path / str(cohorts), Here(cohorts), quiet=True)
        assert result["accuracy"] > 0.35
        assert "5 of all 1,437" in result["left_out"]
    one, three = ((tmp_path / each / "records.jsonl").read_bytes() for each in ("1", "3"))
    assert one == three


def test_a_kill_between_rounds_changes_nothing(tmp_path: Path) -> None:
    rounds.run_rounds(study(), tmp_path / "whole", Here(), quiet=True)

    class Stops:
        def ask(self, task: Any) -> Any:
            if task.round == 2:
                raise KeyboardInterrupt
            return Here().ask(task)

        def close(self) -> None: ...

    with suppress(KeyboardInterrupt):
        rounds.run_rounds(study(), tmp_path / "cut", Stops(), quiet=True)
    rounds.run_rounds(study(), tmp_path / "cut", Here(), quiet=True, resume=True)
    lines = [json.loads((tmp_path / each / "result.json").read_text())["epsilon"] for each in ("whole", "cut")]
    assert lines[0] == lines[1]
    whole, cut = (records.read_records(tmp_path / each / "records.jsonl").rounds for each in ("whole", "cut"))
    assert whole == cut


SECURE = "privacy.trust=secure-aggregation"
ONE_BAD = "clients.byzantine=1"


@pytest.mark.parametrize(
    "overrides",
    [
        ["privacy.mechanism={kind='StochasticSign', clip=1.0, scale=8.0}", SECURE],
        ["privacy.mechanism={kind='Skellam', clip=1.0, levels=64, noise=0.05}", SECURE],
        [ONE_BAD, "attack.kind=SignFlip", "aggregation.kind=Median"],
        [ONE_BAD, "attack.kind=LabelFlip", "aggregation={kind='TrimmedMean', dropped=1}"],
        [ONE_BAD, "attack={kind='FeatureNoise', deviation=9.0}"],
        ["corruption={kind='LabelFlip', share=0.5}"],
    ],
)
def test_attackers_robust_rules_any_wire_and_secure_aggregation_work_as_elsewhere(
    overrides: list[str], tmp_path: Path
) -> None:
    result = rounds.run_rounds(study(*overrides), tmp_path / "run", Here(2), quiet=True)
    assert result["why"] == "finished"
    assert not Counter(result["rejected"]) + Counter(result["failed"])
    assert (result["skipped"], result["unit"]) == (0, "record")
    assert result["epsilon"]["upper"] == guarantee.epsilon_after(plan().study, 1, 1).upper  # whatever carries it


def test_an_attackers_own_records_are_poisoned_before_they_are_noised_and_nobody_elses() -> None:
    plain, attacked = cohort(), cohort("clients.byzantine=1", "attack.kind=LabelFlip")
    (bad,) = attacked.byzantine.clients.tolist()
    for client in range(4):
        same = torch.equal(kept_of(plain, client)[1], kept_of(attacked, client)[1])
        assert same == (client != bad)


def test_a_reply_is_one_frame_of_one_gradient() -> None:
    own = plan()
    reply = cohort_reply(study_file.study_text(own.study), own.net.initial(), 1, np.array([2]))
    assert 4 * own.net.dimension < len(reply) < 4 * own.net.dimension + 200


def test_the_forecast_shows_both_epsilons_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "stobatch", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "records kept      ε = 5 as published" in said
    assert "for one example replaced, to whoever sees its noised record" in said
