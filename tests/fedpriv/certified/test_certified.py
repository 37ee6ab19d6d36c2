"""Certificates: the mathematics by two routes, and that nothing changes a prediction inside its radius."""

from __future__ import annotations

from itertools import product
from math import exp, inf, sqrt
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from polynomials import by_quadrature, label_loss, reconstruction, reconstruction_coefficients
from pytest import approx
from scipy.integrate import quad
from scipy.special import bdtr, bdtrc, ndtr, ndtri
from torch import nn

from clients.models.randomised import Noised, noised_network
from clients.robustness.certifying import Terms, averaged_score, estimated_scores, verdicts_of
from clients.robustness.input_attacks import Ensemble, Fgsm, IFgsm, Mim, Pgd
from fedpriv.certified import (
    FunctionalMechanism,
    GaussianSmoothing,
    LaplaceSmoothing,
    StoBatchSmoothing,
    certifies,
    gaussian_radius,
    laplace_radius,
    largest_polynomial_error,
    pixeldp_radius,
    polynomial_error,
    published_label_error,
    published_reconstruction_error,
    robustness_epsilon,
)
from fedpriv.certified._cube import Cube
from fedpriv.certified.confidence import (
    bernstein_interval,
    clopper_pearson,
    hoeffding_interval,
    leading_bounds,
    of_scores,
)
from fedpriv.certified.functional import epsilon_1_of
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError

shares = st.floats(0.001, 0.999)
MNIST: dict[str, Any] = {"inputs": 784, "patch": 25, "hidden": 196, "last": 256, "batch": 2499, "epsilon_2": 0.1}


# Radii


@given(lower=shares, upper=shares)
def test_cohens_radius_is_where_the_gaussian_curve_stops_to_certify(lower: float, upper: float) -> None:
    assume(lower > upper + 1e-3)
    radius = gaussian_radius(lower, upper, 1.0)
    assert certifies(Tradeoff.gaussian(radius * (1 - 1e-6)), lower, upper)
    assert not certifies(Tradeoff.gaussian(radius * (1 + 1e-6)), lower, upper)


@given(lower=shares, upper=shares, delta=st.sampled_from([0.0, 1e-3, 0.05]))
def test_pixeldps_check_holds_up_to_its_epsilon_and_the_curve_of_epsilon_and_delta_certifies_no_less(
    lower: float, upper: float, delta: float
) -> None:
    epsilon = robustness_epsilon(lower, upper, delta)
    assume(0 < epsilon < 20)
    inside, outside = epsilon * (1 - 1e-6), epsilon * (1 + 1e-6)
    assert lower > exp(2 * inside) * upper + (1 + exp(inside)) * delta
    assert not lower > exp(2 * outside) * upper + (1 + exp(outside)) * delta
    assert certifies(Tradeoff.pure(inside, delta), lower, upper)


def test_no_radius_without_a_lead() -> None:
    for lower, upper in ((0.4, 0.6), (0.5, 0.5), (0.0, 1.0)):
        assert robustness_epsilon(lower, upper) == gaussian_radius(lower, upper, 1.0) == 0
        assert laplace_radius(lower, upper, 1.0, 10) == Cube(10).shift(lower, upper) == 0
        assert not certifies(Tradeoff.gaussian(1e-9), lower, upper)
    assert robustness_epsilon(0.5, 0.0) == inf


@pytest.mark.parametrize(("lower", "upper"), [(0.9, 0.1), (0.6, 0.3)])
@pytest.mark.parametrize("dimension", [1, 2])
def test_the_cubes_curve_certifies_nothing_that_an_explicit_pair_refutes(
    lower: float, upper: float, dimension: int
) -> None:
    shift = Cube(dimension).shift(lower, upper)
    exact = Tradeoff.between(*grid_pair(shift, dimension))  # on a grid: gives away a little less than the densities
    assert exact(1 - lower) + exact(upper) >= 1 - 1e-6


def test_in_one_dimension_the_cubes_curve_is_that_of_laplace() -> None:
    for lower, upper in ((0.9, 0.1), (0.6, 0.3), (0.999, 0.0005)):
        shift = Cube(1).shift(lower, upper)
        assert certifies(Tradeoff.laplace(shift), lower, upper)
        assert not certifies(Tradeoff.laplace(shift * 1.2), lower, upper)


def test_the_accountants_curve_gains_the_root_of_the_dimension_on_the_published_laplace_radius() -> None:
    kind = LaplaceSmoothing(noise=0.5, dimension=784)
    assert kind.radius(0.99, 0.01) > 20 * kind.published(0.99, 0.01)
    assert kind.radius(0.99, 0.01) == approx(gaussian_radius(0.99, 0.01, 0.5) / 28, rel=0.05)  # as if μ = √d·r/b


@given(lower=shares, upper=shares, psi=st.floats(1, 5), row=st.floats(0.1, 10))
@settings(max_examples=4, deadline=None)
def test_stobatchs_composed_radius_is_below_each_of_its_layers_and_the_certified_one_is_the_larger(
    lower: float, upper: float, psi: float, row: float
) -> None:
    assume(lower > upper)
    kind = StoBatchSmoothing(noise=0.5, divided=psi, dimension=16, hidden=16, row=row)
    epsilon = robustness_epsilon(lower, upper)
    kappa, phi = 0.5 * epsilon / 16, 1.0 * epsilon / (16 * row)
    assert kind.published(lower, upper) == approx(kappa * phi / (kappa + phi))
    assert kind.published(lower, upper) <= min(kappa, phi) * (1 + 1e-12)
    first, second = kind.drawn
    assert (first, second) == (0.5 / psi, 1.0 / psi)
    each = laplace_radius(lower, upper, first, 16), laplace_radius(lower, upper, second, 16) / row
    assert kind.radius(lower, upper) == max(each)


def test_appendix_n_prints_a_radius_that_what_it_draws_does_not_certify() -> None:
    """One coordinate, noise divided by ψ: a classifier that the printed radius is wrong for."""
    kind, scale = StoBatchSmoothing(noise=1.0, divided=8.0, dimension=1, hidden=1, row=0.0), 1 / 8
    score = 1 - exp(-1.0 / scale) / 2  # of x = 1 being above 0, under Lap(1/8)
    printed = kind.published(score, 1 - score)
    assert printed > 1.0  # a move by 1.5 ends below 0, and the prediction changes
    assert kind.radius(score, 1 - score) <= 1.0


def test_mechanisms_in_a_row_move_scores_by_the_sum_of_their_epsilons_at_most() -> None:
    """Lemma 5: two mechanisms' curve, composed exactly, lies above that of the sum."""
    both = [np.outer(*pair).ravel() for pair in zip(coin(0.5), coin(0.25), strict=True)]
    exact, lemma = Tradeoff.between(*both), Tradeoff.pure(0.5 + 0.25)
    levels = np.linspace(0, 1, 51)
    assert (exact(levels) >= lemma(levels) - 1e-12).all()
    assert exact(exp(-0.75) / 10) == approx(lemma(exp(-0.75) / 10))  # and meets it


def test_pixeldp_with_gaussian_noise_certifies_less_than_the_gaussian_curve() -> None:
    published = max(pixeldp_radius(0.95, 0.05, 0.5, 1e-5, epsilon) for epsilon in np.linspace(0.01, 1, 100))
    assert 0 < published < 0.2 * gaussian_radius(0.95, 0.05, 0.5)


# Confidence


@given(draws=st.integers(2, 300), share=shares, error=st.sampled_from([0.2, 0.01]))
@settings(max_examples=15, deadline=None)
def test_binomial_bounds_are_wrong_no_more_often_than_said(draws: int, share: float, error: float) -> None:
    bounds = [clopper_pearson([k, draws - k], draws, error) for k in range(draws + 1)]
    above = max((k for k in range(draws + 1) if bounds[k].upper[0] < share), default=None)
    below = min((k for k in range(draws + 1) if bounds[k].lower[0] > share), default=None)
    wrong = (0 if above is None else bdtr(above, draws, share)) + (
        0 if below is None else bdtrc(below - 1, draws, share)
    )
    assert wrong <= error / 2 * (1 + 1e-6)  # the other class has the other half


@given(k=st.integers(0, 500), error=st.sampled_from([0.2, 1e-3, 1e-9]))
def test_binomial_bounds_lie_within_hoeffdings(k: int, error: float) -> None:
    exact, loose = clopper_pearson([k, 500 - k], 500, error), hoeffding_interval([k / 500, 1 - k / 500], 500, error)
    assert (exact.lower >= loose.lower - 1e-9).all()
    assert (exact.upper <= loose.upper + 1e-9).all()


def test_bounds_of_scores_hold_as_often_as_said() -> None:
    rng, wrong, tighter, runs = np.random.default_rng(1), 0, 0, 2000
    for _ in range(runs):
        scores = rng.beta(8, 2, 200)
        found = of_scores([scores.mean(), 1 - scores.mean()], [scores.var(ddof=1)] * 2, 200, 0.1)
        wrong += not (found.lower[0] <= 0.8 <= found.upper[0])
        alone = hoeffding_interval([scores.mean(), 1 - scores.mean()], 200, 0.1)
        tighter += bool(found.lower[0] > alone.lower[0])
    assert wrong / runs <= 0.1
    assert tighter > 0.9 * runs


def test_the_variance_decides_which_bound_of_scores_is_taken() -> None:
    still, wild = (of_scores([0.5, 0.5], [v, v], 1000, 0.01) for v in (1e-4, 0.25))
    assert np.allclose(still.lower, bernstein_interval([0.5, 0.5], [1e-4] * 2, 1000, 0.005).lower)
    assert np.allclose(wild.lower, hoeffding_interval([0.5, 0.5], 1000, 0.005).lower)


@given(votes=st.lists(st.integers(0, 50), min_size=2, max_size=6))
def test_the_best_of_the_others_is_never_above_what_the_first_leaves(votes: list[int]) -> None:
    assume(sum(votes) > 0)
    found = clopper_pearson(votes, sum(votes), 0.01)
    best = int(np.argmax(votes))
    lower, upper = leading_bounds(found, best)
    assert upper <= 1 - lower
    assert upper <= max(np.delete(found.upper, best))


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: clopper_pearson([5, 6], 10, 0.0), "confidence must be above 0 and below 1"),
        (lambda: clopper_pearson([5, 11], 10, 0.1), "votes must be whole numbers from 0 to draws = 10"),
        (lambda: hoeffding_interval([0.5, float("nan")], 10, 0.1), "means of scores must be between 0 and 1"),
        (lambda: hoeffding_interval([0.5, 0.5], 0, 0.1), "draws must be at least 1"),
        (lambda: bernstein_interval([0.5, 0.5], [-1, 0], 10, 0.1), "variances must be at least 0"),
        (lambda: pixeldp_radius(0.9, 0.1, 1.0, 1e-5, 1.5), "epsilon must be at most 1"),
        (lambda: GaussianSmoothing(noise=0), "noise must be positive"),
        (lambda: LaplaceSmoothing(noise=1.0, dimension=0), "dimension must be at least 1"),
        (lambda: FunctionalMechanism(epsilon_1=float("nan"), **MNIST), "epsilon_1 must be finite"),
        (lambda: epsilon_1_of(0.05, 0.1, 2.0, 4.0), "epsilon must be larger than epsilon_2 = 0.1"),
        (lambda: Terms(smoothing=GaussianSmoothing(noise=1), confidence=1.0), "confidence must be above 0 and below 1"),
        (lambda: Terms(smoothing=GaussianSmoothing(noise=1), draws=1), "draws must be at least 2"),
    ],
)
def test_what_is_out_of_range_is_named(act: Any, words: str) -> None:
    with pytest.raises(FedprivError, match=words):
        act()


# The functional mechanism


@given(seed=st.integers(0, 1000))
def test_coefficients_of_two_examples_differ_by_lemma_2_at_most(seed: int) -> None:
    rng, d, beta = np.random.default_rng(seed), 6, 4
    pairs = [reconstruction_coefficients(rng.choice([-1, 1], d), rng.choice([-1, 1], beta)) for _ in range(2)]
    half, x = (a - b for a, b in zip(*pairs, strict=True))
    moved = d * np.abs(half).sum() + np.abs(x).sum()  # ½h stands in each of the d terms
    assert moved <= d * (beta + 2)
    ends = [reconstruction_coefficients(np.full(d, s), np.full(beta, s)) for s in (-1, 1)]
    half, x = (a - b for a, b in zip(*ends, strict=True))
    assert d * np.abs(half).sum() + d * np.abs(x[:1]).sum() == d * (beta + 2)  # attained


@given(seed=st.integers(0, 1000), reach=st.floats(1e-3, 1.0))
def test_a_reconstruction_and_its_polynomial_differ_by_what_is_cut_off(seed: int, reach: float) -> None:
    rng, d, beta = np.random.default_rng(seed), 5, 3
    x, h = rng.uniform(-1, 1, d), rng.uniform(-1, 1, beta)
    theta = rng.uniform(-1, 1, (d, beta))
    theta *= reach / np.abs(theta @ h).max()
    z = theta @ h
    exact = (x * np.log1p(np.exp(-z)) + (1 - x) * np.log1p(np.exp(z))).sum()  # as the paper writes it
    error = exact - reconstruction(theta, *reconstruction_coefficients(x, h), h)
    assert error == approx(polynomial_error(z, 1).sum(), abs=1e-12)
    assert 0 <= error <= largest_polynomial_error(d, 1, reach) + 1e-12 <= published_reconstruction_error(d)


@given(seed=st.integers(0, 1000))
def test_a_label_loss_and_its_polynomial_differ_by_what_is_cut_off(seed: int) -> None:
    rng = np.random.default_rng(seed)
    z, y = rng.uniform(-1, 1, 10), np.eye(10)[seed % 10]
    exact = (np.log1p(np.exp(z)) - z * y).sum()
    assert exact - label_loss(z, y) == approx(polynomial_error(z, 2).sum(), abs=1e-12)
    assert abs(exact - label_loss(z, y)) <= largest_polynomial_error(10, 2) <= published_label_error(10)


@given(z=st.floats(-4, 4), order=st.sampled_from([1, 2]))
def test_what_is_cut_off_is_taylors_integral(z: float, order: int) -> None:
    def derivative(t: float) -> float:
        s = 1 / (1 + exp(-t))
        return s * (1 - s) if order == 1 else s * (1 - s) * (1 - 2 * s)

    remainder, _ = quad(lambda t: derivative(t) * (z - t) ** order / order, 0, z)
    assert (
        by_quadrature(z, order) == approx(float(polynomial_error(z, order)), abs=1e-12) == approx(remainder, abs=1e-9)
    )


def test_appendix_os_bounds_fail_where_its_scores_leave_the_unit_interval() -> None:
    assert largest_polynomial_error(1, 1, 1.0) < published_reconstruction_error(1) < largest_polynomial_error(1, 1, 4.0)
    assert largest_polynomial_error(1, 2, 1.0) < published_label_error(1) < largest_polynomial_error(1, 2, 4.0)


def test_theorem_4_and_its_inverse_agree() -> None:
    own = FunctionalMechanism(epsilon_1=0.3, **MNIST)
    assert (own.sensitivity_r, own.sensitivity_l) == ((14**2 + 2) * 25, 2 * 256)
    for norm in (0.5, 3.0):
        assert own.gamma(norm) == approx(2 * own.gamma_x / norm)
        total = own.published(norm)
        assert epsilon_1_of(total, 0.1, own.gamma_x, own.gamma(norm)) == approx(0.3)


def test_the_example_level_epsilon_is_that_of_laplace_noise_on_the_cube_and_on_the_label() -> None:
    own = FunctionalMechanism(epsilon_1=0.3, **MNIST)
    pure = 2 * 784 * 2499 * 0.3 / 4950 + 2 * 2499 * 0.1 / 512
    assert own.certified(0.0) == approx((pure, pure))
    low, high = own.certified(1e-5)
    assert 0.9 * high < low <= high < pure


def test_both_epsilons_are_given_by_name() -> None:
    found = FunctionalMechanism(epsilon_1=0.3, **MNIST).guarantees(norm=1.0, delta=1e-5)
    assert list(found) == ["published", "example-level"]
    assert found["example-level"]["epsilon"]["lower"] > 100 * found["published"]["epsilon"]


def test_kept_noise_is_of_the_scale_that_is_charged() -> None:
    own = FunctionalMechanism(epsilon_1=0.3, **MNIST)
    rng = np.random.default_rng(1)
    drawn = own.perturbed(np.full((400, 784), 0.5), rng) - 0.5
    assert np.abs(drawn).mean() == approx(own.noise, rel=0.01)
    labels = own.perturbed_labels(np.full(20000, 3), 10, rng) - np.eye(10)[3]
    assert np.abs(labels).mean() == approx(own.label_noise, rel=0.01)


def test_examples_outside_the_box_and_labels_that_are_none_are_refused() -> None:
    own, rng = FunctionalMechanism(epsilon_1=0.3, **MNIST), np.random.default_rng(1)
    for bad in (1.1, float("nan")):
        with pytest.raises(FedprivError, match=r"must be in \[-1, 1\]|finite|number"):
            own.perturbed([0.0, bad], rng)
    with pytest.raises(FedprivError, match="labels must be whole numbers from 0 to 9"):
        own.perturbed_labels([10], 10, rng)


# Verified inference


def test_votes_and_scores_of_a_linear_network_are_those_of_theory() -> None:
    network = noised_network(linear([1.0, 2.0]), GaussianSmoothing(noise=0.5))
    found = estimated_scores(network, np.array([0.3, 0.1], np.float32), 20000, np.random.default_rng(1))
    share = float(ndtr(0.5 / (0.5 * sqrt(5))))
    assert found.votes.sum() == 20000
    assert found.votes[1] / 20000 == approx(share, abs=5 * sqrt(share * (1 - share) / 20000))
    assert found.means.sum() == approx(1, abs=1e-6)


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_a_noised_layer_draws_what_it_says(law: Any) -> None:
    layer = Noised(law, 0.7)
    layer.rng, layer.rows = np.random.default_rng(1), 200000
    drawn = layer(torch.full((1, 1), 2.0)).numpy() - 2
    spread = 0.7 if law == "gaussian" else 0.7 * sqrt(2)
    assert drawn.mean() == approx(0, abs=5 * spread / sqrt(200000))
    assert drawn.std() == approx(spread, rel=0.02)
    tail = 1 - ndtr(3) if law == "gaussian" else exp(-3) / 2
    assert (drawn > 2.1).mean() == approx(tail, abs=5 * sqrt(tail / 200000))


def test_noise_inside_a_network_is_drawn_for_every_draw() -> None:
    """What stands before it runs once."""
    network = nn.Sequential(linear([1.0, 2.0]), Noised("laplace", 0.5)).eval()
    found = estimated_scores(network, np.array([0.2, -0.2], np.float32), 20000, np.random.default_rng(1))
    t = 0.2 / 0.5  # the first logit leads by 0.2: the difference of two Laplace variables decides
    share = exp(-t) * (2 + t) / 4
    assert found.votes[1] / 20000 == approx(share, abs=5 * sqrt(share * (1 - share) / 20000))


def test_verdicts_do_not_depend_on_threads_or_on_the_other_images() -> None:
    network, x = noised_network(curved(), GaussianSmoothing(noise=0.3)), points(7)
    terms = Terms(smoothing=GaussianSmoothing(noise=0.3), draws=300)
    together = list(verdicts_of(network, x, terms, workers=2))
    assert together == list(verdicts_of(network, x, terms, workers=1))
    assert [together[5], together[2]] == list(verdicts_of(network, x, terms, [5, 2]))


def test_where_two_classes_are_level_the_verdict_is_an_abstention() -> None:
    kind = GaussianSmoothing(noise=0.5)
    (found,) = verdicts_of(
        noised_network(linear([1.0, 1.0]), kind), np.zeros((1, 2), np.float32), Terms(smoothing=kind, draws=500)
    )
    assert (found.prediction, found.radius) == (None, 0.0)


def test_wrong_networks_and_inputs_are_refused_before_any_draw() -> None:
    kind = GaussianSmoothing(noise=0.5)
    terms, x = Terms(smoothing=kind, draws=10), np.zeros((2, 2), np.float32)
    batch = nn.Sequential(Noised("gaussian", 1.0), nn.BatchNorm1d(2), nn.Linear(2, 2))
    without = nn.Sequential(Noised("gaussian", 1.0), nn.BatchNorm1d(2, track_running_stats=False)).eval()
    for network, words in [
        (batch, "takes its statistics from the batch"), (without, "takes its statistics from the batch"),
        (nn.Sequential(Noised("gaussian", 1.0), nn.Dropout()), "is in training mode"),
        (linear([1.0, 1.0]), "no Noised layer"),
    ]:  # fmt: skip
        with pytest.raises(FedprivError, match=words):
            list(verdicts_of(network, x, terms))
    x[1, 0] = 1.5
    with pytest.raises(FedprivError, match="input 1 reaches"):
        list(verdicts_of(noised_network(linear([1.0, 1.0]), kind), x, terms))


# Soundness


@pytest.mark.parametrize(
    ("kind", "by"),
    [
        (GaussianSmoothing(noise=0.4), "votes"),
        (GaussianSmoothing(noise=0.4), "scores"),
        (LaplaceSmoothing(noise=0.4, dimension=2), "votes"),
    ],
)
def test_no_point_of_a_fine_grid_inside_the_radius_has_another_prediction(kind: Any, by: Any) -> None:
    """Two dimensions, every direction and distance: the true expected scores by quadrature over the noise."""
    network = curved()
    terms = Terms(smoothing=kind, draws=1500, confidence=0.99, by=by)
    x, wrong, certified = points(14), 0, 0
    for place, found in enumerate(verdicts_of(noised_network(network, kind), x, terms, workers=2)):
        if found.prediction is None or not found.radius:
            continue
        certified += 1
        around = x[place] + found.radius * directions(kind.norm)
        scores = expected(network, around, kind, by)
        wrong += bool((scores.argmax(1) != found.prediction).any())
    assert certified >= 8
    assert wrong <= 1  # of so many, one per cent each


def test_the_two_dimensional_radius_is_not_idle() -> None:
    """Twice the radius is enough to change some predictions: the search above could have failed."""
    kind, network, x = GaussianSmoothing(noise=0.4), curved(), points(16)
    changed = 0
    for place, found in enumerate(
        verdicts_of(noised_network(network, kind), x, Terms(smoothing=kind, draws=1500), workers=2)
    ):
        scores = expected(network, x[place] + 2 * found.radius * directions("l2"), kind, "votes")
        changed += found.prediction is not None and bool((scores.argmax(1) != found.prediction).any())
    assert changed >= 3


@pytest.mark.parametrize("kind", [GaussianSmoothing(noise=0.3), LaplaceSmoothing(noise=0.5, dimension=12)])
def test_no_attack_of_a_thousand_steps_with_restarts_changes_a_prediction_inside_its_radius(kind: Any) -> None:
    network, y = trained(), torch.arange(16) % 3
    x = blobs(y, seed=9)
    randomised = noised_network(network, kind)
    terms = Terms(smoothing=kind, draws=1000, confidence=0.99)
    found = list(verdicts_of(randomised, x.numpy(), terms, workers=2))
    scores = averaged_score(randomised, 2, np.random.default_rng(3))
    changed = certified = 0
    for radius, rows in by_radius(found):
        own, label = x[rows], torch.tensor([found[row].prediction for row in rows])
        thousand = Pgd(size=radius, steps=1000, norm=kind.norm) if radius == max(v.radius for v in found) else None
        attack = thousand or Ensemble(attacks=tuple(attacks(radius, kind.norm)))
        moved = attack(scores, own, label, torch.Generator().manual_seed(4))
        for row, near in zip(rows, moved.numpy(), strict=True):
            certified += 1
            fresh = estimated_scores(randomised, near, 4000, np.random.default_rng(5 + row))
            changed += int(fresh.votes.argmax()) != found[row].prediction
    assert certified >= 8
    assert changed == 0


def test_certified_accuracy_is_never_above_accuracy_under_attack() -> None:
    network, kind = trained(), GaussianSmoothing(noise=0.3)
    y = torch.arange(30) % 3
    x = blobs(y, seed=11)
    randomised = noised_network(network, kind)
    found = list(verdicts_of(randomised, x.numpy(), Terms(smoothing=kind, draws=1000), workers=2))
    scores = averaged_score(randomised, 4, np.random.default_rng(3))
    for radius in (0.05, 0.2, 0.4):
        certified = sum(v.prediction == int(label) and v.radius >= radius for v, label in zip(found, y, strict=True))
        for attack in attacks(radius, "l2"):
            moved = attack(scores, x, y, torch.Generator().manual_seed(4)).numpy()
            right = sum(
                int(estimated_scores(randomised, near, 1000, np.random.default_rng(place)).votes.argmax()) == int(label)
                for place, (near, label) in enumerate(zip(moved, y, strict=True))
            )
            assert certified <= right, (radius, attack)


# What the tests stand on


def attacks(size: float, norm: Any) -> list[Any]:
    return [
        Fgsm(size=size, norm=norm), IFgsm(size=size, steps=20, norm=norm), Mim(size=size, steps=20, norm=norm),
        Pgd(size=size, steps=20, restarts=3, norm=norm),
    ]  # fmt: skip


def by_radius(found: Any) -> list[tuple[float, list[int]]]:
    radii = sorted({v.radius for v in found if v.prediction is not None and v.radius > 0})
    return [(radius, [v.image for v in found if v.radius == radius]) for radius in radii]


def linear(weights: list[float]) -> nn.Module:
    network = nn.Linear(len(weights), 2, bias=False)
    with torch.no_grad():
        network.weight.copy_(torch.tensor([[0.0] * len(weights), weights]))
    return network.eval()


def curved() -> nn.Module:
    """Three classes in the plane, of ragged borders."""
    with torch.random.fork_rng():
        torch.manual_seed(5)
        network = nn.Sequential(nn.Linear(2, 24), nn.Tanh(), nn.Linear(24, 3))
        with torch.no_grad():
            network[0].weight.mul_(6)
            network[2].weight.mul_(12)
        return network.eval()


def points(count: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(2).uniform(-1, 1, (count, 2)).astype(np.float32)


def directions(norm: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The border of the unit ball and what lies inside, finely."""
    angles = np.linspace(0, 2 * np.pi, 48, endpoint=False)
    border = np.stack([np.cos(angles), np.sin(angles)], 1)
    if norm == "linf":
        border /= np.abs(border).max(1, keepdims=True)
    return np.concatenate([border * part for part in (0.5, 0.999)])


def expected(network: nn.Module, x: np.ndarray[Any, Any], kind: Any, by: str) -> np.ndarray[Any, Any]:
    """Expected scores at every x, by the midpoint rule over quantiles of the noise."""
    u = (np.arange(48) + 0.5) / 48
    noise = ndtri(u) * kind.noise if kind.norm == "l2" else -kind.noise * np.sign(u - 0.5) * np.log1p(-2 * abs(u - 0.5))
    around = np.array(list(product(noise, noise)), np.float32)
    found = []
    for each in x:
        with torch.no_grad():
            logits = network(torch.tensor(np.float32(each) + around))
        own = nn.functional.one_hot(logits.argmax(1), 3).double() if by == "votes" else logits.softmax(1).double()
        found.append(own.mean(0).numpy())
    return np.array(found)


def trained() -> nn.Module:
    """Three blobs in 12 dimensions, learnt in a few steps under noise."""
    with torch.random.fork_rng():
        torch.manual_seed(7)
        network = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 3))
        steps = torch.optim.Adam(network.parameters(), lr=0.02)
        y = torch.arange(300) % 3
        for step in range(60):
            x = blobs(y, seed=step)
            loss = nn.functional.cross_entropy(network(x + 0.3 * torch.randn(x.shape)), y)
            steps.zero_grad()
            loss.backward()
            steps.step()
        return network.eval()


def blobs(y: torch.Tensor, seed: int) -> torch.Tensor:
    centres = 0.35 * torch.tensor(np.random.default_rng(0).choice([-1, 1], (3, 12)), dtype=torch.float32)
    noise = torch.randn((len(y), 12), generator=torch.Generator().manual_seed(seed))
    return (centres[y] + 0.25 * noise).clamp(-1, 1)


def coin(epsilon: float) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The pair whose curve is that of pure ε."""
    likely = 1 / (1 + exp(-epsilon))
    return np.array([likely, 1 - likely]), np.array([1 - likely, likely])


def grid_pair(shift: float, dimension: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Laplace noise cut into cells, moved by `shift` in every coordinate: two finite distributions."""
    cells = 400 if dimension == 1 else 60 if dimension == 2 else 8
    edges = np.concatenate(([-inf], np.linspace(-6, 6 + shift, cells - 1), [inf]))

    def masses(centre: float) -> np.ndarray[Any, Any]:
        z = edges - centre
        below = np.where(z < 0, np.exp(-np.abs(z)) / 2, 1 - np.exp(-np.abs(z)) / 2)
        return np.diff(below)

    p = q = np.ones(1)
    for _ in range(dimension):
        p, q = np.multiply.outer(p, masses(0.0)).ravel(), np.multiply.outer(q, masses(shift)).ravel()
    return p, q


class Centred(nn.Module):
    """Inputs meet in it, though it has no statistics of batches."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - x.mean(0, keepdim=True)


def test_a_network_in_which_inputs_meet_is_refused_whatever_it_is_made_of() -> None:
    kind = GaussianSmoothing(noise=0.3)
    meeting = noised_network(nn.Sequential(Centred(), linear([1.0, 2.0])).eval(), kind)
    with pytest.raises(FedprivError, match="depends on the inputs beside it"):
        list(verdicts_of(meeting, np.array([[0.2, 0.5]], np.float32), Terms(smoothing=kind, draws=10)))


class Stretched(nn.Module):
    """Brings what a batch reaches to [0, 1]: inputs that reach as far by themselves do not meet, noised ones do."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - x.min()) / (x.max() - x.min())


def test_inputs_that_meet_only_in_the_company_of_others_are_found() -> None:
    kind = GaussianSmoothing(noise=0.3)
    meeting = noised_network(nn.Sequential(Stretched(), linear([1.0, 2.0])).eval(), kind)
    with pytest.raises(FedprivError, match="depends on the inputs beside it"):
        list(verdicts_of(meeting, np.array([[-1.0, 1.0], [1.0, -1.0]], np.float32), Terms(smoothing=kind, draws=10)))


class Viewed(nn.Module):
    """Convolves, and views what comes of it as a row: with channels last there is no such view."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(1, 3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = self.convolution(x[:, None])
        return found.view(-1, 12)[:, :2]


def test_a_network_that_cannot_have_channels_last_is_asked_as_it_is() -> None:
    kind, x = GaussianSmoothing(noise=0.1), np.zeros((2, 3, 3), np.float32)
    assert len(list(verdicts_of(noised_network(Viewed().eval(), kind), x, Terms(smoothing=kind, draws=10)))) == 2


def test_images_and_threads_that_cannot_be_are_refused_in_a_line() -> None:
    kind, x = GaussianSmoothing(noise=0.3), np.zeros((2, 2), np.float32)
    network = noised_network(linear([1.0, 2.0]), kind)
    for asked in ({"images": [2]}, {"images": [-1]}, {"workers": 0}):
        with pytest.raises(FedprivError):
            list(verdicts_of(network, x, Terms(smoothing=kind, draws=10), **asked))  # type: ignore[arg-type]
    assert len(list(verdicts_of(network, x, Terms(smoothing=kind, draws=10), workers=10**9))) == 2
