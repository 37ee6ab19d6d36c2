"""Baselines and the estimators that look at every candidate: goldens, guarantees, sensitivities, what they refuse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from fedpriv import aggregation
from fedpriv.accounting.account import Account
from fedpriv.accounting.event import by_hand
from fedpriv.aggregation import Aid
from fedpriv.bounds import Norm
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError
from fedpriv.estimation import (
    ESTIMATORS,
    Coinpress,
    CoordinateMedian,
    DpMean,
    EmpiricalMean,
    GeometricMedian,
    MedianOfMeans,
    MedianPtr,
    TrimmedDistance,
    TrimmedSumPtr,
    TukeyMedian,
    method_of,
    spelled_name,
)
from fedpriv.estimation._covers import MOST_POINTS, directions, exponential, grid
from fedpriv.estimation._trimmed import stability
from fedpriv.estimation._tukey import depths
from fedpriv.estimation.private_mean import PrivateMean
from fedpriv.mechanisms import Exponential
from fedpriv.randomness.streams import stream
from fedpriv.studies import file as study_file
from fedpriv.studies import promise as guarantee
from fedpriv.studies.calibrating import calibrated_study
from fedpriv.trust import Central
from server import rounds
from server.rounds.driver import Answer, Task
from simulations.runs import direct

RHO_HALF = Tradeoff.gaussian(1.0).epsilon(1e-5)  # ρ = μ²/2 = .5
PRIVATE: list[Any] = [
    DpMean(epsilon=1, delta=1e-5),
    DpMean(epsilon=20, delta=0.01),
    DpMean(epsilon=1, delta=1e-6, bound=20),
    Coinpress(epsilon=1, delta=1e-5, bound=100),
    Coinpress(epsilon=1, delta=1e-5, bound=100, steps=4),
    TrimmedDistance(epsilon=1, delta=1e-5, corruption=0.05, bound=10),
    TukeyMedian(epsilon=0.5, bound=10),
    MedianPtr(epsilon=4, delta=1e-5),
    MedianPtr(epsilon=4, delta=1e-5, bound=10),
    TrimmedSumPtr(epsilon=4, delta=1e-5, bound=12),
]
OPEN: list[Any] = [EmpiricalMean(), CoordinateMedian(), GeometricMedian(), MedianOfMeans()]


def normal(n: int, d: int, seed: int = 1, mean: float = 3.0) -> np.ndarray:
    return stream(seed, "test sample").standard_normal((n, d)) + mean


@pytest.mark.parametrize(
    ("steps", "n", "published", "repeats"), [(2, 1000, 0.289, 40), (4, 1000, 0.269, 40), (2, 10_000, 0.0753, 8)]
)
def test_coinpress_has_the_errors_that_its_authors_print(steps: int, n: int, published: float, repeats: int) -> None:
    method = Coinpress(epsilon=RHO_HALF, delta=1e-5, bound=10 * 50**0.5, steps=steps)
    found = []
    for seed in range(repeats):
        data = normal(n, 50, seed, mean=0.0)
        found.append(np.linalg.norm(method.estimate(data, stream(seed, "noise")).mean))
    assert np.mean(found) == approx(published, rel=0.06)  # theirs are few runs too: 4 standard errors


def test_coinpress_grows_little_with_the_ball_it_begins_in() -> None:
    errors = []
    for bound in (100.0, 10_000.0):
        method = Coinpress(epsilon=5, delta=1e-5, bound=bound, steps=4)
        errors.append(np.linalg.norm(method.estimate(normal(4000, 10), stream(1, "noise")).mean - 3))
    assert max(errors) < 0.15


@pytest.mark.parametrize("method", PRIVATE, ids=repr)
def test_a_private_estimate_costs_what_was_asked_for_and_its_ledger_is_its_plan(method: Any) -> None:
    data = normal(4000, 2)
    plan = method.events(*data.shape)
    found = method.estimate(data, stream(2, "noise"))
    assert found.ledger.epsilon(found.delta).upper == found.epsilon.upper <= method.epsilon
    assert sum(own.rounds for own in found.ledger.events) == sum(own.rounds for own in plan) == len(found.made)
    assert {(own.unit, own.trust, own.adjacency) for own in plan} == {("record", Central(), "replace")}


@pytest.mark.parametrize("method", PRIVATE, ids=repr)
def test_a_private_estimate_is_near_and_the_same_from_the_same_generator(method: Any) -> None:
    data = normal(4000, 2)
    found = [method.estimate(data, stream(2, "noise")).mean for _ in range(2)]
    assert (found[0] == found[1]).all()
    assert np.linalg.norm(found[0] - 3) < 0.35


@pytest.mark.parametrize("method", PRIVATE, ids=repr)
def test_records_that_are_no_numbers_move_a_private_estimate_little_and_are_not_dropped(method: Any) -> None:
    data = normal(4000, 2)
    data[0] = np.nan
    data[1, 0], data[2, 1] = np.inf, -np.inf
    found = method.estimate(data, stream(2, "noise"))
    assert found.ledger.events == method.estimate(normal(4000, 2), stream(2, "noise")).ledger.events
    assert np.linalg.norm(found.mean - 3) < 0.4


@pytest.mark.parametrize("method", OPEN, ids=repr)
def test_an_open_estimate_hides_nothing_says_so_and_refuses_what_is_no_number(method: Any) -> None:
    data = normal(500, 3)
    found = method.estimate(data, stream(1, "blocks"))
    assert found.epsilon.lower == found.epsilon.upper == np.inf
    assert not found.ledger.events
    assert np.linalg.norm(found.mean - 3) < 0.3
    data[7, 1] = np.nan
    with pytest.raises(FedprivError, match=r"record 7 \(counting from 0\) holds nan"):
        method.estimate(data, stream(1, "blocks"))


@pytest.mark.parametrize("seed", range(3))
def test_the_geometric_median_of_many_records_is_that_of_the_aggregation_rule(seed: int) -> None:
    data = normal(60, 4, seed)
    data[:12] += 30
    expected = aggregation.GeometricMedian()(data)
    assert GeometricMedian().estimate(data, stream(1, "unused")).mean == approx(expected, abs=1e-6)


def test_half_of_the_blocks_may_hold_anything() -> None:
    data = normal(400, 2)
    data[:5] = 1e9  # of 20 blocks at most 5
    assert np.linalg.norm(MedianOfMeans(blocks=20).estimate(data, stream(1, "blocks")).mean - 3) < 0.5
    assert np.linalg.norm(EmpiricalMean().estimate(data, stream(1, "unused")).mean - 3) > 1e6


def test_dp_mean_is_private_and_not_robust() -> None:
    data = normal(40_000, 25)
    data[:2000] += 1.5
    found = DpMean(epsilon=20, delta=0.01).estimate(data, stream(1, "noise")).mean
    assert np.linalg.norm(found - 3) == approx(0.05 * 1.5 * 5, rel=0.1)  # α·1.5·√d


@given(
    numbers=st.lists(st.floats(-5, 5), min_size=8, max_size=14),
    place=st.integers(0, 7),
    other=st.floats(-9, 9),
    width=st.floats(0.1, 12),
)
@settings(max_examples=75, deadline=None)
def test_replacing_a_record_moves_stability_by_one_and_a_stable_middle_by_its_width(
    numbers: list[float], place: int, other: float, width: float
) -> None:
    cut, first = 2, np.array(numbers)
    second = first.copy()
    second[place] = other
    rows = [np.sort(own)[None] for own in (first, second)]
    spare = [stability(own, cut, width) for own in rows]
    assert abs(spare[0] - spare[1]) <= 1
    middles = [own[0, cut : len(first) - cut].sum() for own in rows]
    if max(spare) > 0:  # one of the two is known to be dense
        assert abs(middles[0] - middles[1]) <= width * (1 + 1e-9) + 1e-9


def test_stability_is_how_many_records_an_attacker_must_replace() -> None:
    numbers = np.array([0.0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    assert stability(numbers[None], 3, 5.0) == 1  # kept and its neighbours: 7 − 2
    worst = 0.0
    for place, other in product(range(10), (-50.0, 50.0)):
        changed = numbers.copy()
        changed[place] = other
        changed.sort()
        worst = max(worst, changed[7] - changed[2])
    assert worst == 6.0 > 5.0


@given(
    numbers=st.lists(st.tuples(st.floats(-3, 3), st.floats(-3, 3)), min_size=5, max_size=12),
    place=st.integers(0, 4),
    other=st.tuples(st.floats(-3, 3), st.floats(-3, 3)),
)
@settings(max_examples=50, deadline=None)
def test_replacing_a_record_moves_no_depth_by_more_than_one(
    numbers: list[tuple[float, float]], place: int, other: tuple[float, float]
) -> None:
    first, candidates = np.array(numbers), grid(3.0, 1.0, 2)
    second = first.copy()
    second[place] = other
    assert np.abs(depths(first, candidates, 8) - depths(second, candidates, 8)).max() <= 1


def test_the_depth_on_a_line_is_the_smaller_side_and_over_more_angles_never_larger() -> None:
    line = np.array([[-1.0], [0.0], [2.0], [5.0]])
    found = depths(line, np.array([[0.0], [1.0], [9.0]]), 1)
    assert found.tolist() == [2.0, 2.0, 0.0]
    data, candidates = normal(200, 2, mean=0.0), grid(2.0, 0.5, 2)
    few, many = depths(data, candidates, 4), depths(data, candidates, 64)  # every fourth angle is one of the few
    assert (many <= few).all()
    assert many.max() <= 100


def test_the_exponential_mechanism_draws_in_proportion() -> None:
    rng, scores = stream(1, "draws"), np.log([1.0, 2.0, 7.0])
    counts = np.bincount([exponential(2.0, 1.0, scores, rng) for _ in range(20_000)], minlength=3) / 20_000
    assert counts == approx([0.1, 0.2, 0.7], abs=4 * 0.5 / 20_000**0.5)


def test_the_exponential_mechanism_never_tells_neighbours_apart_by_more_than_epsilon() -> None:
    candidates, epsilon = grid(2.0, 0.5, 1), 0.8
    first = np.array([[-1.0], [0.0], [0.4], [1.0], [1.2]])
    for place, other in product(range(5), (-2.0, 0.1, 2.0)):
        second = first.copy()
        second[place] = other
        weights = [np.exp(epsilon / 2 * depths(own, candidates, 1)) for own in (first, second)]
        ratios = np.log((weights[0] / weights[0].sum()) / (weights[1] / weights[1].sum()))
        assert np.abs(ratios).max() <= epsilon


@pytest.mark.parametrize("d", [1, 2, 3])
def test_directions_are_of_length_one_and_cover_the_half_sphere(d: int) -> None:
    ways = directions(d, 200)
    assert np.linalg.norm(ways, axis=1) == approx(np.ones(len(ways)))
    for any_way in normal(50, d, mean=0.0):
        nearest = np.abs(ways @ (any_way / np.linalg.norm(any_way))).max()
        assert nearest > 0.98


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("kind", [TukeyMedian, TrimmedDistance])
def test_a_share_of_corrupted_records_moves_a_robust_estimate_little(kind: type[Any], d: int) -> None:
    data = normal(8000, d, mean=1.0)
    data[:400] = 9.0
    own = {"epsilon": 1.0, "bound": 5.0} | ({"delta": 1e-5, "corruption": 0.05} if kind is TrimmedDistance else {})
    assert np.linalg.norm(kind(**own).estimate(data, stream(1, "noise")).mean - 1) < 0.3


def test_sparse_records_fail_the_test_and_that_is_charged_all_the_same() -> None:
    data = np.where(np.arange(4000)[:, None] % 2, -20.0, 20.0)
    method = TrimmedDistance(epsilon=1, delta=1e-5, corruption=0.05, bound=30)
    found = method.estimate(data, stream(1, "noise"))
    assert found.mean is None
    assert found.failure is not None
    assert found.failure.startswith("the width of what is kept")
    assert found.ledger.events == method.events(4000, 1)


def test_an_empty_range_is_a_failure_that_says_so() -> None:
    data = np.full((4000, 1), np.nan)
    found = DpMean(epsilon=1, delta=1e-5).estimate(data, stream(1, "noise"))
    assert (found.mean, found.failure) == (None, "range: a coordinate has no bin that passes")
    assert len(found.ledger.events) == 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DpMean(epsilon=0, delta=1e-5), "epsilon must be positive"),
        (lambda: DpMean(epsilon=1, delta=0), "delta must be positive"),
        (lambda: DpMean(epsilon=1, delta=1), "delta must be below 1"),
        (lambda: DpMean(epsilon=float("nan"), delta=1e-5), "epsilon must be finite"),
        (lambda: Coinpress(epsilon=1, delta=1e-5, bound=-1), "bound must be positive"),
        (lambda: Coinpress(epsilon=1, delta=1e-5, bound=1, steps=0), "steps must be at least 1"),
        (lambda: TrimmedDistance(epsilon=1, delta=1e-5, corruption=0.2, bound=1), "below 1/6"),
        (lambda: TukeyMedian(epsilon=1, bound=float("inf")), "bound must be finite"),
        (lambda: MedianOfMeans(blocks=2.5), "blocks must be a whole number"),
        (lambda: MedianOfMeans(blocks=50).estimate(normal(20, 1), stream(1, "b")), "50 blocks need as many records"),
        (lambda: DpMean(epsilon=0.1, delta=1e-5).events(100, 5), r"n = 100 is too few .*: [\d,]+ records would do"),
        (lambda: TukeyMedian(epsilon=1, bound=5).events(100, 4), "for at most 3, Prime or DpMean for more"),
        (lambda: TukeyMedian(epsilon=1, bound=500).events(100, 2), "a spacing of"),
        (lambda: TrimmedDistance(epsilon=1, delta=1e-5, corruption=0.01, bound=5).events(100, 1), "would do"),
        (lambda: method_of("dp-maen"), "did you mean 'dp-mean'"),
        (lambda: EmpiricalMean().estimate(np.zeros((0, 3)), stream(1, "x")), "must be a matrix, a row a record"),
        (lambda: DpMean(epsilon=1, delta=1e-5).estimate([["a"]], stream(1, "x")), "must be numbers"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(make: Any, message: str) -> None:
    with pytest.raises(FedprivError, match=message):
        make()


def test_the_number_of_records_that_would_do_does() -> None:
    for method in (DpMean(epsilon=0.1, delta=1e-5), TrimmedDistance(epsilon=1, delta=1e-5, corruption=0.01, bound=5)):
        with pytest.raises(FedprivError, match="would do") as refused:
            method.events(100, 1)
        words = str(refused.value).split(" records would do")[0].split()[-1]
        assert method.events(int(words.replace(",", "")), 1)


def test_the_spacing_that_is_named_is_small_enough() -> None:
    with pytest.raises(FedprivError, match="a spacing of") as refused:
        grid(500, 0.05, 2)
    spacing = float(str(refused.value).split("a spacing of ")[1].split(",")[0])
    assert len(grid(500, spacing * 1.01, 2)) <= MOST_POINTS


def test_every_method_is_found_by_the_name_it_is_spelled_by() -> None:
    assert {method_of(spelled_name(name)) for name in ESTIMATORS} == set(ESTIMATORS.values())


def test_a_draw_is_costed_as_epsilon_and_the_chance_that_its_test_was_wrong() -> None:
    release = by_hand(mechanism=Exponential(epsilon=0.7, failure=1e-6), trust="central", unit="record")
    assert Account((release,)).epsilon(2e-6).bounds.upper == approx(0.7, rel=1e-3)
    assert Account((release,)).epsilon(5e-7).bounds.upper == np.inf
    twice = Account((replace(release, rounds=2),))
    assert 0.7 < twice.epsilon(1e-5).bounds.upper <= 1.4 + 1e-9


CENTRAL = """
name = "central"
data.kind = "Digits"
clients = {count = 400, byzantine = 20}
attack.kind = "SignFlip"
privacy = {trust = "central", delta = 1e-5, mechanism = {kind = "Plain", clip = 2.0}}
aggregation = {kind = "PrivateMean", epsilon = 0.5, delta = 1e-6}
run = {rounds = 4, seed = 1}
"""


def central(*overrides: str) -> study_file.Study:
    return study_file.parsed_study(CENTRAL, overrides=overrides)


def test_a_round_of_a_private_rule_costs_what_it_was_given_and_rounds_are_composed() -> None:
    study = calibrated_study(central(), 650)
    release = guarantee.promised_event(study, 650)
    assert (release.unit, release.trust, release.adjacency, release.bound) == (
        "client",
        Central(),
        "replace",
        Norm(2.0),
    )
    one = Account((release,)).epsilon(1e-6).bounds.upper
    assert 0.49 < one <= 0.5
    assert one < guarantee.epsilon_after(study, 650, 4).upper < 4 * 0.5
    assert study.aggregation.settings["bound"] == 2.0


def test_a_private_rule_is_near_the_mean_and_no_row_moves_it_by_more_than_its_bound() -> None:
    rows = 0.1 + 0.01 * normal(500, 6, mean=0.0)
    rule = PrivateMean(epsilon=5, delta=1e-5, bound=1.0)
    honest = rule(rows, Aid(stream(3, "round")))
    assert honest == approx(rows.mean(axis=0), abs=6 * rule.mechanism.noise / 500)
    rows[0] = 1e20
    far = rule(rows, Aid(stream(3, "round")))
    rows[0] = np.nan
    none = rule(rows, Aid(stream(3, "round")))
    assert np.linalg.norm(far - none) <= 2 * 1.0 / 500 * (1 + 1e-9)  # the same noise


def test_prime_as_a_rule_costs_one_release_of_the_same_budget() -> None:
    plain = PrivateMean(epsilon=1, delta=1e-5, bound=1.0)
    robust = replace(plain, method="prime", corruption=0.1, scale=0.3)
    assert robust.mechanism.noise == approx(plain.mechanism.noise, rel=1e-4)
    rows = 0.2 + 0.3 * normal(20_000, 2, mean=0.0)
    rows[:2000] += 0.6
    errors = [np.linalg.norm(rule(rows, Aid(stream(3, "round"))) - 0.2) for rule in (plain, robust)]
    assert errors[1] < 0.5 * errors[0]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("privacy.trust=local", "privacy.trust must be 'central', got 'local'"),
        ("privacy.trust=secure-aggregation", "privacy.trust must be 'central', got 'secure-aggregation'"),
        ("aggregation={kind='Median'}", "it must be a curator with no before"),
        ("aggregation.before=[{kind='Nnm'}]", "with no before"),
        ("privacy.mechanism={kind='Plain'}", "must be Plain with a clip under trust 'central'"),
        ("privacy.mechanism={kind='Gaussian', clip=1.0, noise=1.0}", "the noise is the server's"),
        ("privacy.noise=cryptographic", "knows noise = 'seeded'"),
        ("privacy.adjacency=add-remove", "who sends none is seen to be absent: 'replace'"),
        ("server.fewest=3", "counts as one that sends 0"),
        ("aggregation.bound=3.0", "must be the mechanism's clip = 2.0"),
        ("aggregation.method=prme", "did you mean 'prime'"),
        ("aggregation.method=prime", "needs corruption and scale"),
        ("aggregation.scale=0.1", "are of method = 'prime'"),
        ("aggregation.epsilon=0", "epsilon must be positive"),
    ],
)
def test_a_private_rule_is_refused_where_it_would_promise_nothing(override: str, message: str) -> None:
    with pytest.raises(FedprivError, match=message):
        central(override)


def test_too_few_clients_for_prime_are_refused_before_the_first_round() -> None:
    study = central("aggregation.method=prime", "aggregation.corruption=0.1", "aggregation.scale=0.05")
    with pytest.raises(FedprivError, match=r"too few for ε = 0\.5 .* would do"):
        calibrated_study(study, 650)
    with pytest.raises(FedprivError, match="dropouts and colluding count only under secure-aggregation"):
        calibrated_study(central("privacy.dropouts=1"), 650)


class Losing(direct.Here):
    """Clients up to one do not answer."""

    def __init__(self, lost: int) -> None:
        super().__init__()
        self._lost = lost

    def ask(self, task: Task) -> Iterator[Answer]:
        yield from super().ask(replace(task, clients=task.clients[self._lost :]))
        if self._lost:
            yield Answer(task.clients[: self._lost], None, "raised: its data")


def test_a_client_that_does_not_answer_moves_a_private_mean_by_its_bound_and_no_more(tmp_path: Path) -> None:
    study = central("run.rounds=1", "server.step=1.0")
    models = []
    for lost in (0, 1, 400):
        found = rounds.run_rounds(study, tmp_path / str(lost), Losing(lost), quiet=True)
        assert found["why"] == "finished"
        models.append(np.load(tmp_path / str(lost) / "checkpoint.npz")["weights"])
    assert 0 < np.linalg.norm(models[0] - models[1]) <= 2.0 / 400 * (1 + 1e-6)  # the same noise
    noise = guarantee.promised_event(calibrated_study(study, 650), 650).mechanism.noise / 400
    assert 0.8 * noise < models[2].std() < 1.2 * noise


def test_trimmed_distance_asks_for_so_many_records_that_some_are_kept() -> None:
    method = TrimmedDistance(epsilon=10, delta=1e-5, corruption=0.1666, bound=5, spacing=0.5)
    with pytest.raises(FedprivError, match=r"0 would be kept; ([\d,]+) records would do") as told:
        method.events(100, 1)
    enough = int(str(told.value).split("; ")[1].split()[0].replace(",", ""))
    assert method.events(enough, 1)
    found = method.estimate(np.zeros((enough, 1)), stream(1, "many"))
    assert found.mean is not None
