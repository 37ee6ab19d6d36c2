"""What five compositions cost, in ε and in time: fedpriv beside the accountants people use today.

Every answer is ε at δ = 1e-5, the worse of both directions of the adjacency; every time is the best of three runs, all
in one process; the ratio is the peer's time over ours, and ours is always for both bounds. A peer is given the settings
that suit it best, said in its label, and asked only for bounds it offers itself.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from time import perf_counter
from typing import Any

import numpy as np
from scipy.special import gammaln

from fedpriv.curves.compose import compose
from fedpriv.curves.joint import joint
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.mechanisms import Binomial, DiscreteGaussian

DELTA = 1e-5
ONE_SAMPLE = 256 / 60000  # case (d): the rate of the Poisson sample that both releases are made from

Bounds = tuple[float | None, float | None]  # lower and upper ε; None where a project gives no such bound


@dataclass(frozen=True)
class Peer:
    """One way of asking another project; `bounds` is what is timed."""

    label: str
    bounds: Callable[[], Bounds]


@dataclass(frozen=True)
class Case:
    """One question, its true answer (where it is known) and who else is asked."""

    key: str
    title: str
    rounds: int
    adjacency: str
    truth: str
    peers: tuple[Peer, ...]


def ours(case: Case) -> Bounds:
    """Both of fedpriv's certified bounds for a case, from nothing: curves are built anew each time."""
    curve = {
        "a": lambda: Tradeoff.gaussian(1.0).subsampled(0.01, "add-remove"),
        "b": lambda: Tradeoff.between(
            [1 / (1 + math.e), math.e / (1 + math.e)], [math.e / (1 + math.e), 1 / (1 + math.e)]
        ),
        "c": lambda: Binomial(clip=0.1, scale=1, trials=16).tradeoff(),
        "d": lambda: joint([(Tradeoff.laplace(1.0), 1), (Tradeoff.gaussian(1 / 1.1), 1)]).subsampled(
            ONE_SAMPLE, "add-remove"
        ),
        "e": lambda: DiscreteGaussian(clip=0.5, levels=1, noise=4).tradeoff(),
    }[case.key[0]]
    return tuple(compose([(curve(), case.rounds)]).epsilon(DELTA))


def rows() -> list[dict[str, str]]:
    """One row for every case and peer: what both say, how long they take, and how many times longer the peer takes."""
    quiet()
    return [row for case in CASES for row in compared(case)]


def compared(case: Case) -> Iterator[dict[str, str]]:
    """The rows of one case; fedpriv is asked once."""
    answer, seconds = timed(lambda: ours(case))
    for peer in case.peers:
        theirs, their_seconds = timed(peer.bounds)
        yield {
            "case": f"({case.key}) {case.title}, T={case.rounds:,}",
            "truth": case.truth,
            "ours lower": shown(answer, 0),
            "ours upper": shown(answer, 1),
            "our time": duration(seconds),
            "peer": peer.label,
            "peer lower": shown(theirs, 0),
            "peer upper": shown(theirs, 1),
            "peer time": duration(their_seconds),
            "ratio": f"{their_seconds / seconds:.3g}" if seconds and their_seconds else "–",
        }


def timed(ask: Callable[[], Bounds], repeats: int = 3) -> tuple[Bounds | str, float | None]:
    """The answer and the shortest of the times, or in a few words why there is no answer."""
    best = math.inf
    for _ in range(repeats):
        start = perf_counter()
        try:
            answer = ask()
        except Exception as refusal:  # a peer may refuse in any way it likes: what it says is its answer
            return f"refuses: {type(refusal).__name__}", None
        best = min(best, perf_counter() - start)
    return answer, best


def shown(answer: Bounds | str, side: int) -> str:
    """One bound as text."""
    if isinstance(answer, str):
        return answer
    bound = answer[side]
    return "–" if bound is None else f"{bound:.9g}"


def duration(seconds: float | None) -> str:
    """A time to three figures, in the unit that suits it."""
    if seconds is None:
        return "–"
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def versions() -> dict[str, str]:
    """The versions of the projects asked."""
    return {name: version(name) for name in ("dp-accounting", "prv-accountant", "PLD_accounting")}


def quiet() -> None:
    """Silence what the peers say about their own deprecations and fallbacks; the labels say what matters."""
    warnings.simplefilter("ignore")
    logging.getLogger().setLevel(logging.ERROR)


# dp-accounting. Its factories compute both directions, and an answer is the worse one. The optimistic estimate is plain
# rounding: connect-the-dots is for the pessimistic one only.


def google_upper(pld: Callable[[bool], Any], rounds: int) -> Bounds:
    """The pessimistic estimate alone, which is what its users read."""
    return None, pld(True).self_compose(rounds).get_epsilon_for_delta(DELTA)


def google_both(pld: Callable[[bool], Any], rounds: int) -> Bounds:
    """The optimistic and the pessimistic estimate."""
    lower, upper = (pld(pessimistic).self_compose(rounds).get_epsilon_for_delta(DELTA) for pessimistic in (False, True))
    return lower, upper


def google_subsampled_gaussian(pessimistic: bool) -> Any:
    from dp_accounting.pld import privacy_loss_distribution

    return privacy_loss_distribution.from_gaussian_mechanism(
        1.0, sampling_prob=0.01, pessimistic_estimate=pessimistic, use_connect_dots=pessimistic
    )


def google_randomised_response(pessimistic: bool) -> Any:
    """Its losses are ±1, so an interval of 1 loses nothing and takes .003 s; the default of 1e-4 takes 10 s."""
    from dp_accounting.pld import privacy_loss_distribution

    return privacy_loss_distribution.from_randomized_response(
        noise_parameter=2 / (1 + math.e),
        num_buckets=2,
        pessimistic_estimate=pessimistic,
        value_discretization_interval=1.0,
    )


def google_binomial(pessimistic: bool) -> Any:
    from dp_accounting.pld import privacy_loss_distribution

    return privacy_loss_distribution.from_two_probability_mass_functions(
        dict(enumerate(log_binomial(16, 0.45))),
        dict(enumerate(log_binomial(16, 0.55))),
        pessimistic_estimate=pessimistic,
        symmetric=False,
    )


def google_discrete_gaussian(pessimistic: bool) -> Any:
    from dp_accounting.pld import privacy_loss_distribution

    return privacy_loss_distribution.from_discrete_gaussian_mechanism(
        4.0, pessimistic_estimate=pessimistic, use_connect_dots=pessimistic
    )


def google_one_sample() -> Bounds:
    """A sampled event made of two releases. Its PLD accountant refuses, and its Rényi accountant does too."""
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    both = dp_accounting.ComposedDpEvent([dp_accounting.LaplaceDpEvent(1.0), dp_accounting.GaussianDpEvent(1.1)])
    event = dp_accounting.PoissonSampledDpEvent(ONE_SAMPLE, both)
    return None, PLDAccountant().compose(event, 2000).get_epsilon(DELTA)


# prv-accountant: (lower, estimate, upper) at a chosen error; its documentation advises δ/1000 for the error of δ.


def microsoft(variable: str, rounds: int, error: float, **settings: float) -> Bounds:
    from prv_accountant import PRVAccountant, privacy_random_variables

    accountant = PRVAccountant(
        getattr(privacy_random_variables, variable)(**settings),
        max_self_compositions=rounds,
        eps_error=error,
        delta_error=DELTA / 1000,
    )
    lower, _, upper = accountant.compute_epsilon(DELTA, [rounds])
    return float(lower), float(upper)


# PLD_accounting builds on dp-accounting: connect-the-dots for any discrete pair, subsampling of any distribution.


def feldman_binomial(interval: float, rounds: int) -> Bounds:
    import PLD_accounting
    from PLD_accounting.discrete_dist import SparseDiscreteDist

    high, low = log_binomial(16, 0.55), log_binomial(16, 0.45)

    def direction(p: np.ndarray, q: np.ndarray) -> Any:
        order = np.argsort(p - q)
        masses = np.exp(p[order])
        exact = SparseDiscreteDist(
            x_array=(p - q)[order],
            prob_arr=masses / masses.sum(),
            p_min=0.0,
            p_max=0.0,
            domain=PLD_accounting.Domain.REALS,
        )
        return PLD_accounting.rediscretize_dist_by_bound(
            dist=exact,
            tail_truncation=1e-15,
            loss_discretization=interval,
            bound_type=PLD_accounting.BoundType.DOMINATES,
        )

    pld = PLD_accounting.compose_full_pld(
        remove_dist=direction(high, low), add_dist=direction(low, high), bound_type=PLD_accounting.BoundType.DOMINATES
    )
    return None, pld.self_compose(rounds).get_epsilon_for_delta(DELTA)


def feldman_one_sample(interval: float, rounds: int) -> Bounds:
    from dp_accounting.pld import privacy_loss_distribution
    from PLD_accounting import subsample_pld

    laplace = privacy_loss_distribution.from_laplace_mechanism(1.0, value_discretization_interval=interval)
    gaussian = privacy_loss_distribution.from_gaussian_mechanism(1.1, value_discretization_interval=interval)
    sampled = subsample_pld(pld=laplace.compose(gaussian), sampling_probability=ONE_SAMPLE)
    return None, sampled.self_compose(rounds).get_epsilon_for_delta(DELTA)


def log_binomial(trials: int, p: float) -> np.ndarray:
    """The log masses of Bin(trials, p)."""
    k = np.arange(trials + 1)
    return gammaln(trials + 1) - gammaln(k + 1) - gammaln(trials - k + 1) + k * np.log(p) + (trials - k) * np.log1p(-p)


def google(pld: Callable[[bool], Any], rounds: int, setting: str = "") -> tuple[Peer, Peer]:
    """Its everyday answer, and both of its estimates."""
    return (
        Peer(f"dp-accounting{setting}, upper", lambda: google_upper(pld, rounds)),
        Peer(f"dp-accounting{setting}, both", lambda: google_both(pld, rounds)),
    )


def sampled_gaussian(key: str, rounds: int, truth: str) -> Case:
    """DP-SGD's own mechanism."""
    settings = {"sampling_probability": 0.01, "noise_multiplier": 1.0}
    return Case(
        key,
        "Poisson-sampled Gaussian q=.01 σ=1",
        rounds,
        "add-remove",
        truth,
        (
            *google(google_subsampled_gaussian, rounds),
            Peer(
                "prv-accountant, error .01",
                lambda: microsoft("PoissonSubsampledGaussianMechanism", rounds, 0.01, **settings),
            ),
        ),
    )


def randomised_response(key: str, rounds: int, truth: str) -> Case:
    """One bit, told truthfully with probability e/(1+e)."""
    return Case(
        key,
        "randomised response p=e/(1+e)",
        rounds,
        "replace",
        truth,
        (
            *google(google_randomised_response, rounds, ", interval 1"),
            Peer("prv-accountant, error .1", lambda: microsoft("PureDPMechanism", rounds, 0.1, eps=1.0)),
        ),
    )


CASES = (
    sampled_gaussian("a", 1_000, "1.82823"),
    sampled_gaussian("a'", 10_000, "6.18768"),
    randomised_response("b", 10_000, "4995.70003699646"),
    randomised_response("b'", 1_000, "577.833206709374"),
    Case(
        "c",
        "Bin(16,.55) against Bin(16,.45)",
        1_000,
        "replace",
        "427.740752948407",
        (
            *google(google_binomial, 1_000),
            Peer("PLD_accounting, interval 1e-3, upper", lambda: feldman_binomial(1e-3, 1_000)),
        ),
    ),
    Case(
        "d",
        "Laplace(1) and Gaussian(1.1) on one Poisson sample q=256/60000",
        2_000,
        "add-remove",
        "in [1.4512, 1.4553]",
        (
            Peer("dp-accounting", google_one_sample),
            Peer("PLD_accounting, interval 1e-3, upper", lambda: feldman_one_sample(1e-3, 2_000)),
            Peer("PLD_accounting, interval 1e-4, upper", lambda: feldman_one_sample(1e-4, 2_000)),
        ),
    ),
    Case(
        "e",
        "discrete Gaussian σ=4",
        1_000,
        "add-remove",
        "64.1689422",
        google(google_discrete_gaussian, 1_000),
    ),
)
