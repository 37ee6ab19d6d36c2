"""The price of choosing: brute force over the number of trials and every order of scores, never past the bound."""

from __future__ import annotations

from itertools import permutations, product
from math import expm1, inf, log, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from pytest import approx
from scipy.optimize import brentq, minimize_scalar

from fedpriv.accounting.account import Account
from fedpriv.accounting.event import by_hand
from fedpriv.accounting.selection import Selection, TrialLaw, least_ratio
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import Binomial, Gaussian, RandomisedResponse, StochasticSign

Masses = NDArray[np.float64]
LAWS = st.builds(TrialLaw, gamma=st.floats(0.03, 1), eta=st.sampled_from([-0.9, -0.5, 0.0, 0.5, 1.0, 3.0]))
NUMBERS = np.arange(1, 3000)  # of trials: with γ ≥ 0.03 more never happen


def chances(law: TrialLaw) -> Masses:
    """P(K = k) from the definition, by the ratio of neighbours (1 − γ)(k + η)/(k + 1), brought to the sum 1."""
    ratios = (1 - law.gamma) * (NUMBERS[:-1] + law.eta) / (NUMBERS[:-1] + 1)
    found = np.concatenate(([1.0], np.cumprod(ratios)))
    return np.asarray(found / found.sum())


def best_of(masses: Masses, order: tuple[int, ...], law: TrialLaw) -> Masses:
    """How often each outcome is let out, the last of `order` being the best, trial by trial for every number."""
    ranked = masses[list(order)]
    below = np.concatenate(([0.0], np.cumsum(ranked)))
    powers = np.minimum(below, 1.0)[:, None] ** NUMBERS[None, :]
    found = np.empty(len(masses))
    found[list(order)] = np.diff(powers, axis=0) @ chances(law)
    return found


def hockey_stick(p: Masses, q: Masses, epsilon: float) -> float:
    return float(np.maximum(p - np.exp(epsilon) * q, 0).sum())


def distribution(outcomes: int) -> st.SearchStrategy[Masses]:
    weights = st.lists(st.floats(0.001, 1), min_size=outcomes, max_size=outcomes)
    return weights.map(lambda found: np.array(found) / sum(found))


PAIRS = st.integers(2, 4).flatmap(lambda n: st.tuples(distribution(n), distribution(n)))


@given(law=LAWS)
def test_the_law_is_the_one_that_its_chances_are_of(law: TrialLaw) -> None:
    assert law.mean == approx(float(NUMBERS @ chances(law)), rel=1e-6)
    for above, width in ((0.0, 0.3), (0.2, 0.5), (0.5, 0.5)):
        found = ((1 - above) ** NUMBERS - (1 - above - width) ** NUMBERS) @ chances(law)
        assert law.best_within(above, width) == approx(found, rel=1e-9)


@given(pair=PAIRS, law=LAWS, epsilon=st.floats(0, 3))
def test_no_score_gets_past_the_bound(pair: tuple[Masses, Masses], law: TrialLaw, epsilon: float) -> None:
    p, q = pair
    curve = Tradeoff.between(p, q)

    def profile(at: float) -> float:
        return max(curve.delta(at), curve.inverse.delta(at))

    whole = epsilon + (law.eta + 1) * least_ratio(profile, law.gamma)
    for order in permutations(range(len(p))):
        chosen = best_of(p, order, law), best_of(q, order, law)
        for first, second in (chosen, chosen[::-1]):
            assert hockey_stick(first, second, whole) <= law.mean * profile(epsilon) + 1e-12


@given(pair=PAIRS, other=PAIRS, law=LAWS, epsilon=st.floats(0, 3))
def test_choosing_among_settings_costs_what_choosing_of_the_worst_one_costs(
    pair: tuple[Masses, Masses], other: tuple[Masses, Masses], law: TrialLaw, epsilon: float
) -> None:
    p, q = (np.concatenate((one, two)) / 2 for one, two in zip(pair, other, strict=True))
    curves = [each for own in (pair, other) for each in (Tradeoff.between(*own), Tradeoff.between(*own).inverse)]

    def profile(at: float) -> float:
        return max(each.delta(at) for each in curves)

    whole = epsilon + (law.eta + 1) * least_ratio(profile, law.gamma)
    ratios = np.argsort(p / q)
    for order in (tuple(ratios), tuple(ratios[::-1]), tuple(np.roll(ratios, len(ratios) // 2))):
        chosen = best_of(p, order, law), best_of(q, order, law)
        for first, second in (chosen, chosen[::-1]):
            assert hockey_stick(first, second, whole) <= law.mean * profile(epsilon) + 1e-12


@pytest.mark.parametrize("eta", [-0.5, 0.0, 1.0])
@pytest.mark.parametrize("delta", [0.0, 1e-3, 0.05])
def test_the_bounds_of_a_coin_stand_around_what_its_worst_score_reaches(eta: float, delta: float) -> None:
    """The score tosses coins of its own: some ones are best, some zeros next, the rest last; shares of all sizes."""
    law, epsilon, reached = TrialLaw(gamma=0.2, eta=eta), 1.0, 0.0
    one = np.exp(epsilon) / (1 + np.exp(epsilon))
    for best, second in product(np.linspace(0, 1, 31), (0.001, *np.linspace(0, 1, 21))):
        shares = np.array([1 - best, 1 - second, second, best])
        p, q = shares * [one, 1 - one, 1 - one, one], shares * [1 - one, one, one, 1 - one]
        chosen = [best_of(own, (0, 1, 2, 3), law) for own in (p, q)]
        for first, its in (chosen, chosen[::-1]):
            while hockey_stick(first, its, reached) > delta + 1e-12:
                reached += 1e-3
    event = by_hand(RandomisedResponse(clip=1, levels=1, epsilon=epsilon))
    low, high = Selection(law, ((event,),)).epsilon(delta).bounds
    assert 0.97 * reached <= low <= reached + 0.01
    assert reached <= high + 1e-3


EVENTS = (
    by_hand(Gaussian(clip=1, noise=1)),
    by_hand(Gaussian(clip=1, noise=1), sampling=0.05, rounds=200),
    by_hand(StochasticSign(clip=0.1, scale=10), rounds=1000),
    by_hand(Binomial(clip=1, peak=0.2, scale=20, trials=4), geometry="l2", dimension=650, rounds=30),
)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event.mechanism).__name__)
@pytest.mark.parametrize("mean", [1.5, 10, 1000])
def test_both_bounds_are_close_and_above_those_of_one_trial(event: object, mean: float) -> None:
    selection = Selection(TrialLaw.geometric(mean), ((event,),))  # type: ignore[arg-type]
    (low, high), own = selection.epsilon(1e-5).bounds, Account((event,)).epsilon(1e-5).bounds  # type: ignore[arg-type]
    assert own.lower <= low <= high <= 1.2 * low
    assert own.upper < high


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 0.4])
@pytest.mark.parametrize("mean", [1, 2, 1e4])
def test_a_witness_of_little_reaches_no_more_than_the_rounding_of_its_errors(epsilon: float, mean: float) -> None:
    """Of false alarms so rare as the last digit of 1, a power is that digit alone: ln 1.58, at any ε of a trial."""
    event = by_hand(RandomisedResponse(clip=1, levels=1, epsilon=epsilon))
    low, high = Selection(TrialLaw.geometric(mean), ((event,),)).epsilon(0.0).bounds
    assert 0.99 * epsilon <= low <= high <= 3 * epsilon * (1 + 1e-6)


def test_one_trial_costs_itself_whatever_may_be_chosen_from() -> None:
    account = Account((EVENTS[0],))
    assert Selection(TrialLaw.geometric(1), ((EVENTS[0],),) * 64).upper_epsilon(1e-5) == approx(
        account.upper_epsilon(1e-5), rel=1e-9
    )


def test_of_settings_that_cost_differently_both_bounds_lie_between_those_of_each() -> None:
    """Half of the trials tell next to nothing, so the witness reaches less than where none does."""
    law, weak, strong = TrialLaw.geometric(10), by_hand(Gaussian(clip=1, noise=5)), EVENTS[0]
    (low, high), alone = (Selection(law, own).epsilon(1e-5).bounds for own in (((weak,), (strong,)), ((strong,),)))
    assert high == approx(alone.upper, rel=1e-9)
    assert Selection(law, ((weak,),)).epsilon(1e-5).bounds.upper < low < alone.lower


@pytest.mark.parametrize("eta", [-0.5, 0.0, 1.0, 3.0])
def test_it_is_never_past_the_theorem_for_pure_privacy(eta: float) -> None:
    """Papernot and Steinke 2022, corollary 3: (2 + η)·ε, which is what few trials never reach."""
    event = by_hand(RandomisedResponse(clip=1, levels=1, epsilon=0.7))
    for gamma in (0.9, 0.1, 1e-3, 1e-6):
        found = Selection(TrialLaw(gamma=gamma, eta=eta), ((event,),)).upper_epsilon(0)
        assert 0.7 <= found <= (2 + eta) * 0.7 * (1 + 1e-3)


@pytest.mark.parametrize("mu", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("eta", [-0.5, 0.0, 1.0])
@pytest.mark.parametrize("gamma", [0.5, 0.1, 0.001])
def test_it_is_below_the_theorem_for_renyi_divergences(mu: float, eta: float, gamma: float) -> None:
    """Papernot and Steinke 2022, theorem 2, at its best orders, of a Gaussian pair: D_λ = λμ²/2."""
    law, delta = TrialLaw(gamma=gamma, eta=eta), 1e-5

    def ratio(order: float) -> float:
        return (order - 1) * mu**2 / 2 + log(1 / gamma) / order

    def converted(order: float) -> float:
        divergence = order * mu**2 / 2 + (1 + eta) * least + log(law.mean) / (order - 1)
        return divergence + log(1 - 1 / order) - log(delta * order) / (order - 1)

    least = min(minimize_scalar(lambda t: ratio(1 + np.exp(t)), bounds=(-9, 9), method="bounded").fun, ratio(1.0))
    theirs = minimize_scalar(lambda t: converted(1 + np.exp(t)), bounds=(-9, 9), method="bounded").fun
    event = by_hand(Gaussian(clip=1, noise=1 / mu))
    assert Selection(law, ((event,),)).upper_epsilon(delta) < theirs


def test_the_geometric_law_leaves_trials_the_most() -> None:
    """docs/proofs/choosing.md, section 4: what a trial may cost, at one ε of the choice and one expected rank."""
    shares = np.concatenate((1 - np.logspace(-6, 0, 2001)[::-1], [1.0]))
    delta, found = 1e-5, {}
    for eta in (0.0, 1.0, 3.0, 10.0):

        def law(mean_log: float, eta: float = eta) -> TrialLaw:
            return TrialLaw(gamma=float(np.exp(-mean_log)), eta=eta)

        def rank(mean_log: float) -> float:
            return 1 - float(np.trapezoid(law(mean_log).best_within(1 - shares, shares), shares))

        own = law(brentq(lambda at: rank(at) - 0.85, 0.01, 12))

        def excess(noise: float, own: TrialLaw = own) -> float:
            return Selection(own, ((by_hand(Gaussian(clip=1, noise=noise)),),)).upper_epsilon(delta) - 4

        noise = brentq(excess, 0.3, 10, xtol=1e-4)
        found[eta] = own.mean, Account((by_hand(Gaussian(clip=1, noise=noise)),)).upper_epsilon(delta)
    for eta, told in {0.0: (111.9, 2.19), 1.0: (12.7, 2.47), 3.0: (8.6, 2.45), 10.0: (7.2, 2.37)}.items():
        assert found[eta] == approx(told, rel=0.01)


def test_the_number_of_trials_is_geometric() -> None:
    law, rng = TrialLaw.geometric(4), np.random.default_rng(1)
    drawn = np.array([law.drawn(rng) for _ in range(5_000)])
    for number in range(1, 12):
        chance = 0.25 * 0.75 ** (number - 1)
        assert (drawn == number).mean() == approx(chance, abs=5 * (chance / 5_000) ** 0.5)


def test_the_ratio_is_the_least_that_is_proved() -> None:
    curve, gamma = Tradeoff.gaussian(1.0), 0.1
    found = least_ratio(curve.delta, gamma)
    assert curve.delta(found) <= expm1(found) * gamma / (1 - gamma)
    assert curve.delta(found * 0.999) > expm1(found * 0.999) * gamma / (1 - gamma)


@pytest.mark.parametrize("gamma", [1e-6, 0.1, 0.5, 0.999])
def test_where_a_trial_hides_nothing_or_everything_there_is_a_ratio_too(gamma: float) -> None:
    assert least_ratio(lambda _: 1.0, gamma) == approx(-log(gamma), rel=1e-3)
    assert least_ratio(lambda _: 0.0, gamma) < 1e-11


@pytest.mark.parametrize("mean", [nan, inf, 0.5, 0, -1, 1e9])
def test_a_mean_that_no_number_of_trials_has_is_refused(mean: float) -> None:
    with pytest.raises(FedprivError, match="trials must be"):
        TrialLaw.geometric(mean)


@pytest.mark.parametrize("settings", [{"gamma": 0}, {"gamma": 1.5}, {"gamma": nan}, {"gamma": 0.5, "eta": -1}])
def test_a_law_that_is_none_is_refused(settings: dict[str, float]) -> None:
    with pytest.raises(FedprivError, match=r"gamma|eta"):
        TrialLaw(**settings)


def test_what_is_drawn_is_geometric_or_refused() -> None:
    with pytest.raises(FedprivError, match="eta = 1, got eta = 0"):
        TrialLaw(gamma=0.5, eta=0).drawn(np.random.default_rng(1))


def test_a_selection_of_nothing_or_of_two_units_is_refused() -> None:
    law = TrialLaw.geometric(2)
    with pytest.raises(FedprivError, match="one setting at least"):
        Selection(law, ())
    with pytest.raises(FedprivError, match="different unit"):
        Selection(law, ((EVENTS[0],), (EVENTS[2],)))
