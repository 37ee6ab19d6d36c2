"""What releases cost: the acceptance values, brackets for every kind and setting, and every refusal."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import exp, inf, sqrt
from time import perf_counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx
from tried import others

from fedpriv.accounting.account import Account
from fedpriv.accounting.event import Event, by_hand, event_as_data, event_of
from fedpriv.accounting.published.comparisons import published_values
from fedpriv.curves.compose import Bounds
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import (
    Binomial,
    BinomialNoise,
    Cldp,
    DiscreteGaussian,
    Gaussian,
    Laplace,
    Mechanism,
    NoisySign,
    Skellam,
    StochasticSign,
    Ternarize,
    Ternary,
)
from fedpriv.trust import Central, Local

WIDE = StochasticSign(clip=0.1, scale=10)
EVERY: list[Any] = [
    WIDE,
    StochasticSign(clip=1, peak=0.2, scale=2),
    Binomial(clip=0.1, scale=1, trials=16),
    Cldp(clip=1, epsilon=0.5),
    NoisySign(clip=1, noise=8),
    Ternary(clip=0.1, spread=0.25, scale=0.5),
    Ternarize(clip=1e-7, scale=1),
    BinomialNoise(clip=1, levels=4, trials=400),
    BinomialNoise(clip=1, levels=2, trials=300, bias=0.3),
    DiscreteGaussian(clip=1, levels=4, noise=4),
    Skellam(clip=1, levels=4, noise=4),
    Gaussian(clip=1, noise=5),
    Laplace(clip=1, noise=10),
]
EVERY += others(EVERY)
SUMMED = [
    m for m in EVERY if isinstance(m, StochasticSign | Binomial | Cldp | NoisySign | BinomialNoise | Skellam | Gaussian)
]


def epsilon(mechanism: Mechanism, delta: float = 1e-5, **facts: Any) -> Bounds:
    return Account((by_hand(mechanism=mechanism, **facts),)).epsilon(delta).bounds


def delta(mechanism: Mechanism, at: float, **facts: Any) -> Bounds:
    return Account((by_hand(mechanism=mechanism, **facts),)).delta(at).bounds


def close(bounds: Bounds, value: float, rel: float = 1e-9) -> None:
    assert bounds.lower <= value * (1 + rel)
    assert bounds.upper >= value * (1 - rel)
    assert bounds.upper == approx(value, rel=rel)


# --- acceptance ---------------------------------------------------------------------------------------------------


def test_ternary_has_delta_one_twentieth_at_ln_two() -> None:
    close(delta(Ternary(clip=0.1, spread=0.25, scale=0.5), 0.6931471805599453), 0.05, 1e-12)


def test_mu_of_a_hundred_thousand_coordinates_against_the_published_one() -> None:
    account = Account((by_hand(mechanism=WIDE, dimension=100_000, geometry="l2"),))
    assert account.mu == approx(0.0250669, abs=5e-8)
    assert published_values(account, 1e-5)["[F] Theorem 7"]["mu"] == approx(126.33, abs=0.005)


@pytest.mark.parametrize("rounds", [100, 1000, 10_000])
@pytest.mark.parametrize("at", [1e-5, 1e-8, 1e-12])
def test_a_vectors_bounds_lie_within_a_tenth(rounds: int, at: float) -> None:
    low, high = epsilon(WIDE, at, dimension=100_000, geometry="l2", rounds=rounds)
    assert 0 < low <= high <= 1.10 * low


def test_golden_compositions() -> None:
    ternary = Ternary(clip=0.1, spread=0.25, scale=0.5)
    close(epsilon(ternary, rounds=10), 8.0227624848)
    close(epsilon(ternary, rounds=200), 67.2245593462)
    close(epsilon(Binomial(clip=0.1, scale=1, trials=16), 1e-20, rounds=100), 104.544756788)
    close(epsilon(Binomial(clip=0.1, scale=1, trials=16), rounds=1000), 427.740752948407, 1e-10)


def test_golden_gaussians() -> None:
    close(epsilon(Gaussian(clip=1, noise=1)), 4.377, 2e-4)
    close(epsilon(Gaussian(clip=1, noise=1), adjacency="replace"), 9.997, 1e-4)
    close(epsilon(Gaussian(clip=1, noise=1), sampling=0.01, rounds=1000), 1.82823, 1e-4)
    close(epsilon(DiscreteGaussian(clip=0.5, levels=1, noise=4), rounds=1000), 64.1689422, 1e-8)


@pytest.mark.parametrize(
    ("clients", "mechanism", "at", "upper", "lower"),
    [
        (20, Binomial(clip=1, scale=2.5, trials=3), 1e-4, 1.3121824899, 1.2365862054),
        (200, Binomial(clip=1, scale=5, trials=2), 1e-5, 0.1414575559, 0.1311040764),
    ],
)
def test_golden_secure_aggregation(clients: int, mechanism: Any, at: float, upper: float, lower: float) -> None:
    found = epsilon(mechanism, at, trust="secure-aggregation", clients=clients)
    assert found.upper == approx(upper, rel=1e-8)
    assert found.lower == approx(lower, rel=1e-8)


def test_golden_secure_aggregation_of_vectors() -> None:
    mechanism = Binomial(clip=1, peak=0.2, scale=0.911, trials=4)
    facts: dict[str, Any] = {"dimension": 650, "geometry": "l2", "trust": "secure-aggregation", "rounds": 40}
    found = epsilon(mechanism, clients=1294, **facts)
    assert 3.3 < found.lower <= found.upper < 4.01


def test_golden_sampled_signs() -> None:
    sign = StochasticSign(clip=0.1, scale=0.25)
    close(epsilon(sign, sampling=0.1, rounds=100, adjacency="add-remove"), 3.8383544263, 1e-5)
    replaced = epsilon(sign, sampling=0.1, rounds=100)
    assert replaced.upper == approx(4.328971549, rel=1e-5)
    assert replaced.lower <= 4.328971549
    twice = delta(sign, 0.1, sampling=0.1, rounds=2)
    assert twice.upper == approx(0.0222177, abs=5e-8)
    assert twice.lower == approx(0.0191762, abs=5e-8)


# --- brackets -----------------------------------------------------------------------------------------------------


@st.composite
def releases(draw: st.DrawFn) -> Event:
    mechanism = draw(st.sampled_from(EVERY))
    dimension = draw(st.sampled_from([1, 1, 2, 30, 1000]))
    facts: dict[str, Any] = {
        "mechanism": mechanism,
        "dimension": dimension,
        "rounds": draw(st.sampled_from([0, 1, 3, 50])),
    }
    if dimension > 1:
        facts["geometry"] = draw(st.sampled_from(["l2", "linf"]))
    facts["trust"] = draw(st.sampled_from(["local", "central", "secure-aggregation"]))
    if facts["trust"] == "central":
        facts["adjacency"] = draw(st.sampled_from([None, "replace", "add-remove"]))
    if facts["trust"] == "secure-aggregation":
        facts["clients"] = draw(st.sampled_from([1, 2, 40]))
        facts["mechanism"] = draw(st.sampled_from(SUMMED))
    if dimension <= 2 and facts["trust"] != "secure-aggregation":
        facts["sampling"] = draw(st.sampled_from([1.0, 0.0, 0.05, 0.7]))
    return by_hand(**facts)


@settings(max_examples=15)
@given(release=releases(), at=st.sampled_from([0.0, 1e-12, 1e-5, 0.1, 1.0]))
def test_the_lower_bound_of_epsilon_never_passes_the_upper_one(release: Event, at: float) -> None:
    low, high = Account((release,)).epsilon(at).bounds
    assert 0 <= low <= high
    if not release.rounds or not release.sampling or at == 1:
        assert high == 0


@settings(max_examples=10)
@given(release=releases(), at=st.sampled_from([0.0, 0.1, 1.0, 20.0]))
def test_the_lower_bound_of_delta_never_passes_the_upper_one(release: Event, at: float) -> None:
    low, high = Account((release,)).delta(at).bounds
    assert 0 <= low <= high <= 1


@settings(max_examples=6)
@given(release=releases(), at=st.sampled_from([1e-6, 1e-3]))
def test_delta_undoes_epsilon(release: Event, at: float) -> None:
    account = Account((release,))
    high = account.epsilon(at).bounds.upper
    if 0 < high < inf:
        assert account.delta(high).bounds.lower <= at * (1 + 1e-6)


@pytest.mark.parametrize("mechanism", EVERY, ids=repr)
@pytest.mark.parametrize("dimension", [1, 200])
def test_more_rounds_cost_more(mechanism: Any, dimension: int) -> None:
    facts = {"dimension": dimension, "geometry": "l2"}
    costs = [epsilon(mechanism, rounds=rounds, **facts) for rounds in (0, 1, 2, 8, 64)]
    for less, more in pairwise(costs):
        assert less.lower <= more.upper
        assert less.upper <= more.upper * (1 + 1e-6)
    assert costs[0] == (0, 0)


@pytest.mark.parametrize("mechanism", EVERY, ids=repr)
@pytest.mark.parametrize("geometry", ["l2", "linf"])
def test_more_coordinates_cost_no_less(mechanism: Any, geometry: str) -> None:
    costs = [epsilon(mechanism, rounds=2, dimension=d, geometry=geometry) for d in (1, 3, 40, 5000)]
    for less, more in pairwise(costs):
        assert less.lower <= more.upper
        assert less.lower <= more.lower * (1 + 1e-6) or geometry == "l2"


@pytest.mark.parametrize("mechanism", EVERY, ids=repr)
def test_the_norm_never_costs_more_than_the_box(mechanism: Any) -> None:
    for d in (2, 64):
        inside = epsilon(mechanism, rounds=3, dimension=d, geometry="l2").upper
        assert inside <= epsilon(mechanism, rounds=3, dimension=d, geometry="linf").upper * (1 + 1e-6)


@pytest.mark.parametrize("mechanism", [m for m in EVERY if not isinstance(m, Ternarize)], ids=repr)
def test_sampling_helps_and_less_of_it_helps_more(mechanism: Any) -> None:
    costs = [epsilon(mechanism, rounds=5, sampling=rate) for rate in (0.0, 0.01, 0.3, 1.0)]
    for less, more in pairwise(costs):
        assert less.lower <= more.upper * (1 + 1e-9)
        assert less.upper <= more.upper * (1 + 1e-3)
    assert costs[0] == (0, 0)


@pytest.mark.parametrize("mechanism", SUMMED, ids=repr)
@pytest.mark.parametrize(
    "facts", [{}, {"dimension": 50, "geometry": "l2"}, {"dimension": 5, "geometry": "linf"}], ids=str
)
def test_a_crowd_hides_and_a_larger_one_hides_better(mechanism: Any, facts: dict[str, Any]) -> None:
    local = epsilon(mechanism, rounds=2, trust="local", **facts)
    costs = [epsilon(mechanism, rounds=2, trust="secure-aggregation", clients=n, **facts) for n in (200, 20, 1)]
    for less, more in zip(costs, [*costs[1:], local], strict=True):
        assert less.upper <= more.upper * (1 + 1e-4)
        assert less.lower <= more.upper


@pytest.mark.parametrize("mechanism", EVERY, ids=repr)
def test_two_releases_cost_at_least_each_and_at_most_the_sum(mechanism: Any) -> None:
    one = by_hand(mechanism=mechanism, rounds=3, trust="local")
    other = by_hand(mechanism=WIDE, rounds=7)
    together = Account((one, other)).epsilon(2e-5).bounds
    for alone in (one, other):
        assert together.lower >= Account((alone,)).epsilon(2e-5).bounds.lower * (1 - 1e-3)
    total = sum(Account((alone,)).epsilon(1e-5).bounds.upper for alone in (one, other))
    assert together.upper <= total * (1 + 1e-3)


@pytest.mark.parametrize(
    "mechanism", [Ternary(clip=1, spread=4, scale=1510), DiscreteGaussian(clip=1, levels=100, noise=10)], ids=repr
)
@pytest.mark.parametrize(
    "other", [by_hand(mechanism=WIDE), by_hand(mechanism=Gaussian(clip=1, noise=100), trust="local")], ids=str
)
def test_a_vector_and_a_number_together_cost_at_most_the_sum(mechanism: Any, other: Event) -> None:
    one = by_hand(mechanism=mechanism, dimension=10_000, geometry="l2", rounds=100)
    total = sum(Account((alone,)).epsilon(1e-5).bounds.upper for alone in (one, other))
    assert Account((one, other)).epsilon(2e-5).bounds.upper <= total


def test_a_release_of_no_rounds_adds_nothing() -> None:
    one = by_hand(mechanism=Ternary(clip=1, spread=4, scale=1510), dimension=10_000, geometry="l2", rounds=100)
    alone = Account((one,)).epsilon(1e-5).bounds
    assert Account((one, replace(one, rounds=0))).epsilon(1e-5).bounds == approx(alone, rel=1e-6)


def test_mu_is_a_certificate_of_the_bound_it_stands_beside() -> None:
    for mechanism in EVERY:
        account = Account((by_hand(mechanism=mechanism, rounds=4),))
        if account.mu is not None:
            low = account.epsilon(1e-5).bounds.lower
            assert low <= Tradeoff.gaussian(account.mu).epsilon(1e-5) * (1 + 1e-9)


# --- extremes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", EVERY, ids=repr)
def test_no_rounds_cost_nothing(mechanism: Any) -> None:
    assert epsilon(mechanism, 0.0, rounds=0) == (0, 0)
    assert delta(mechanism, 0.0, rounds=0, dimension=1000, geometry="l2") == (0, 0)


@pytest.mark.parametrize(
    "mechanism", [WIDE, Ternary(clip=0.1, spread=0.25, scale=0.5), Gaussian(clip=1, noise=1)], ids=repr
)
def test_a_thousand_million_rounds_have_an_answer(mechanism: Any) -> None:
    low, high = epsilon(mechanism, rounds=10**9)
    assert 0 < low <= high <= 1.01 * low


def test_delta_zero_is_the_pure_epsilon_or_none() -> None:
    sign = StochasticSign(clip=1, scale=3)
    close(epsilon(sign, 0.0, rounds=10), 10 * 0.6931471805599453, 1e-9)
    close(epsilon(Laplace(clip=1, noise=4), 0.0, rounds=2), 0.5, 1e-9)
    for mechanism in (Gaussian(clip=1, noise=1), Ternarize(clip=1, scale=3), BinomialNoise(clip=1, levels=2, trials=9)):
        assert epsilon(mechanism, 0.0) == (inf, inf)


@pytest.mark.parametrize("mechanism", EVERY, ids=repr)
def test_delta_at_epsilon_zero_is_the_advantage(mechanism: Any) -> None:
    release = by_hand(mechanism=mechanism)
    assert release.adjacency is not None
    close(delta(mechanism, 0.0), mechanism.tradeoff(release.adjacency).advantage, 1e-9)


@pytest.mark.parametrize("at", [1e-30, 1e-100, 1e-300, 1e-320])
def test_tiny_deltas_are_answered(at: float) -> None:
    pure = epsilon(WIDE, 0.0, rounds=1000).upper
    low, high = epsilon(WIDE, at, rounds=1000)
    assert 0 < low <= high <= pure * (1 + 1e-9)


OVERFLOWING: list[tuple[Any, float, dict[str, Any], float]] = [
    (Laplace(clip=1, noise=1e-3), 1e-5, {"rounds": 10}, 9000),
    (Gaussian(clip=1, noise=0.02), 1e-5, {"rounds": 100, "sampling": 0.01}, 5000),
    (Gaussian(clip=1, noise=1), 1e-5, {"rounds": 10, "sampling": 0.5, "dimension": 2000, "geometry": "linf"}, 1000),
    (WIDE, 1e-5, {"rounds": 10**18}, 1e13),
    (Ternary(clip=0.1, spread=0.25, scale=0.5), 1e-320, {"rounds": 1000}, 500),
]


@pytest.mark.parametrize(("mechanism", "at", "facts", "least"), OVERFLOWING, ids=str)
def test_losses_so_large_that_exp_overflows_are_answered_not_lost(
    mechanism: Any, at: float, facts: dict[str, Any], least: float
) -> None:
    """Each of these once certified ε = 0, or nearly, for a release that hides nothing at all."""
    assert epsilon(mechanism, at, **facts).upper >= least


def test_noise_summed_over_a_million_clients_keeps_its_mass() -> None:
    wide = Skellam(clip=0.1, levels=10, noise=1)
    like = epsilon(Gaussian(clip=0.1, noise=1), adjacency="replace", trust="secure-aggregation", clients=10**6)
    assert epsilon(wide, trust="secure-aggregation", clients=10**6).upper >= 0.99 * like.lower > 0


def test_a_sign_that_is_no_longer_random_hides_nothing_and_says_so() -> None:
    try:
        found = epsilon(NoisySign(clip=1, noise=0.01)).upper
    except FedprivError:
        found = inf
    assert found > 100


# --- refusals -----------------------------------------------------------------------------------------------------

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"dimension": 0}, "dimension must be at least 1"),
    ({"dimension": 2.5}, "dimension must be a whole number"),
    ({"dimension": 2}, "geometry must be given"),
    ({"dimension": 2, "geometry": "l3"}, "did you mean 'l2'"),
    ({"rounds": -1}, "rounds must be at least 0"),
    ({"rounds": True}, "rounds must be a whole number"),
    ({"rounds": "3"}, "rounds must be a whole number"),
    ({"sampling": -0.1}, "sampling must be between 0 and 1"),
    ({"sampling": 1.1}, "sampling must be between 0 and 1"),
    ({"sampling": float("nan")}, "sampling must be between 0 and 1"),
    ({"sampling": 0.1, "unit": "client"}, "sampling clients amplifies nothing under local trust"),
    (
        {"sampling": 0.1, "unit": "client", "trust": "secure-aggregation", "clients": 9},
        "sampling clients amplifies nothing under secure-aggregation trust",
    ),
    ({"unit": "user"}, "unit 'user' is unknown"),
    ({"trust": "secure-agregation"}, "did you mean 'secure-aggregation'"),
    ({"adjacency": "swap"}, "adjacency 'swap' is unknown"),
    ({"clients": 3}, "clients counts only under secure-aggregation"),
    ({"trust": "secure-aggregation"}, "needs clients"),
    ({"trust": "secure-aggregation", "clients": 0}, "clients must be at least 1"),
    ({"trust": "secure-aggregation", "clients": 2.5}, "clients must be a whole number"),
]


@pytest.mark.parametrize(("facts", "said"), REFUSED, ids=str)
def test_releases_that_cannot_be_are_refused_in_one_line(facts: dict[str, Any], said: str) -> None:
    with pytest.raises(FedprivError) as error:
        by_hand(mechanism=WIDE, **facts)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("bad", [-1e-5, 1.5, float("nan"), "small", None])
def test_deltas_that_cannot_be_are_refused(bad: Any) -> None:
    with pytest.raises(FedprivError, match="delta must be between 0 and 1"):
        epsilon(WIDE, bad)


@pytest.mark.parametrize("bad", [-1.0, float("nan"), "small", None])
def test_epsilons_that_cannot_be_are_refused(bad: Any) -> None:
    with pytest.raises(FedprivError, match="epsilon must be"):
        delta(WIDE, bad)


def test_kinds_without_a_certificate_under_secure_aggregation_are_named() -> None:
    with pytest.raises(FedprivError, match="Ternarize has no certificate under secure aggregation"):
        by_hand(mechanism=Ternarize(clip=1, scale=2), trust="secure-aggregation", clients=5)


def test_defaults_are_those_of_the_design() -> None:
    assert by_hand(mechanism=WIDE).unit == "client"
    assert by_hand(mechanism=WIDE, sampling=0.5).unit == "record"
    assert by_hand(mechanism=WIDE).adjacency == "replace"
    for mechanism in (Gaussian(clip=1, noise=1), Laplace(clip=1, noise=1)):
        alone = by_hand(mechanism)
        assert (alone.trust, alone.unit, alone.adjacency) == (Central(), "record", "add-remove")
        sent = by_hand(mechanism, trust="local")
        assert (sent.trust, sent.unit, sent.adjacency) == (Local(), "client", "replace")


def test_nothing_released_costs_nothing() -> None:
    assert Account(()).epsilon(0.0).bounds == (0, 0)
    assert Account(()).delta(0.0).bounds == (0, 0)
    assert Account(()).mu == 0


def test_a_release_is_described_in_full() -> None:
    event = by_hand(mechanism=WIDE, dimension=5, geometry="l2", rounds=7, sampling=0.5)
    assert event_as_data(event) == {
        "kind": "StochasticSign", "settings": {"clip": 0.1, "scale": 10, "peak": 0.1}, "unit": "record",
        "trust": "local", "adjacency": "replace", "bound": {"kind": "Norm", "clip": 0.1}, "dimension": 5,
        "rounds": 7, "sampling": 0.5, "clients": None, "seen": None,
    }  # fmt: skip
    assert event_of(event_as_data(event)) == event


def test_every_bound_names_its_proof() -> None:
    for mechanism in EVERY:
        for facts in ({}, {"dimension": 100, "geometry": "l2"}):
            cost = Account((by_hand(mechanism=mechanism, **facts),)).epsilon(1e-5)
            assert cost.upper_proof
            assert "explicit pair" in cost.lower_proof


def test_published_values_stand_beside_and_say_when_they_are_asymptotic() -> None:
    values = published_values(Account((by_hand(mechanism=WIDE, sampling=0.1, rounds=10),)), 1e-5)
    assert any("asymptotic" in name for name in values)
    crowd = Account((by_hand(mechanism=WIDE, trust="secure-aggregation", clients=50),))
    assert exp(published_values(crowd, 1e-5)["[F] Theorem 9"]["epsilon"]) == approx(10.1 / 9.9)


@pytest.mark.parametrize(
    "facts", [{}, {"dimension": 5, "geometry": "linf"}, {"dimension": 50, "geometry": "l2"}], ids=str
)
def test_a_crowd_hides_ternary_symbols(facts: dict[str, Any]) -> None:
    ternary = Ternary(clip=0.1, spread=0.25, scale=0.5)
    local = epsilon(ternary, rounds=3, **facts)
    costs = [epsilon(ternary, rounds=3, trust="secure-aggregation", clients=n, **facts) for n in (1000, 50, 1)]
    for less, more in zip(costs, [*costs[1:], local], strict=True):
        assert less.lower <= less.upper <= more.upper * (1 + 1e-6)
    if facts.get("geometry") != "l2":
        assert costs[0].upper < local.upper / 4
        assert costs[0].lower > costs[0].upper / 2


@pytest.mark.parametrize(
    ("facts", "truth"),
    [
        ({"sampling": 0.01, "rounds": 10_000}, (4.3955, 4.3965)),
        ({"sampling": 0.01, "rounds": 10_000, "dimension": 10**6, "geometry": "l2"}, (4.3955, 4.3965)),
    ],
    ids=str,
)
def test_a_record_replaced_in_a_curators_sampled_sum_costs_its_own_pair_both_bounds_alike(facts, truth) -> None:
    low, high = epsilon(Gaussian(clip=1, noise=2), adjacency="replace", **facts)
    assert truth[0] <= low <= high <= truth[1]
    box = {"dimension": 4, "geometry": "linf", "sampling": 0.01, "rounds": 100, "adjacency": "replace"}
    assert epsilon(Gaussian(clip=1, noise=4), **box) == approx(
        epsilon(Gaussian(clip=2, noise=4), adjacency="replace", sampling=0.01, rounds=100), rel=1e-3
    )


def test_a_message_is_sent_whether_its_record_was_drawn_or_not_and_is_not_costed_like_a_sum() -> None:
    facts: dict[str, Any] = {"sampling": 0.01, "rounds": 1000, "adjacency": "replace", "unit": "record"}
    for mechanism in (Gaussian(clip=1, noise=1), Laplace(clip=1, noise=2)):
        summed, sent = (epsilon(mechanism, trust=trust, **facts) for trust in ("central", "local"))
        assert sent.upper > 1.3 * summed.upper


def test_laplace_noise_in_several_coordinates_is_costed_by_the_norm_of_them_all() -> None:
    facts: dict[str, Any] = {"sampling": 0.01, "rounds": 100, "adjacency": "replace"}
    low, high = epsilon(Laplace(clip=1, noise=2), dimension=3, geometry="linf", **facts)
    assert high <= epsilon(Laplace(clip=3, noise=2), **facts).upper * (1 + 1e-6)
    assert low >= epsilon(Laplace(clip=1, noise=2), **facts).lower * (1 - 1e-3)


def test_mu_of_an_account_is_that_of_the_composed_curve_where_it_is_less() -> None:
    votes = Account((by_hand(StochasticSign(clip=0.1, scale=1), rounds=100),))
    assert votes.mu == approx(2.01003355263, rel=1e-10)
    both = Account(
        (by_hand(StochasticSign(clip=0.1, scale=1), rounds=100), by_hand(NoisySign(clip=1, noise=2), rounds=4))
    )
    assert both.mu is not None
    assert both.mu < sqrt(2.513227**2 + 4)
    away = Account((by_hand(BinomialNoise(clip=0.05, levels=8, trials=20), rounds=10),))
    assert away.mu is None


def test_an_account_of_a_million_rounds_has_its_mu_in_seconds() -> None:
    start = perf_counter()
    for mechanism in (WIDE, Ternary(clip=0.1, spread=0.25, scale=0.5), Gaussian(clip=1, noise=1)):
        assert Account((by_hand(mechanism, rounds=10**6, dimension=3, geometry="linf"),)).mu is not None
    assert perf_counter() - start < 20


def test_an_account_knows_errors_and_mu_from_both_sides() -> None:
    account = Account((by_hand(StochasticSign(clip=0.1, scale=1), rounds=100),))
    for alpha, beta in ((0.01, 0.626709825857), (0.05, 0.360790895789)):
        low, high = account.tradeoff(alpha)
        assert low - 1e-10 <= beta <= high + 1e-10
        assert high - low < 1e-6
    low, high = account.true_positive_rate(0.01)
    assert low <= 1 - 0.626709825857 + 1e-10
    assert high >= 1 - 0.626709825857 - 1e-10
    assert account.mu_between(1e-8) == (approx(2.01003355263, abs=1e-8), approx(2.01003355263, abs=1e-10), 0)
    low, high = account.advantage
    assert low <= high < low + 1e-6


def test_mu_is_told_up_to_a_share_where_that_makes_it_small() -> None:
    sampled = Account((by_hand(Gaussian(clip=1, noise=1), sampling=0.05, rounds=100),))
    assert sampled.mu == approx(10)
    found = sampled.mu_between(1e-8)
    assert found.up_to == 1e-8
    assert 0.89 < found.lower <= found.upper < 0.9
    assert sampled.mu_between().up_to == 0


def test_nothing_released_leaves_every_error() -> None:
    assert Account(()).tradeoff(0.25) == (0.75, 0.75)
    assert Account(()).mu_between(1e-8) == (0, 0, 0)


def test_an_account_of_an_iterator_costs_as_much_as_of_a_tuple() -> None:
    events = (by_hand(StochasticSign(clip=1, scale=10)),) * 2
    assert Account(iter(events)).epsilon(1e-5) == Account(events).epsilon(1e-5)  # type: ignore[arg-type]
