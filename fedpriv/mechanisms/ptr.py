"""Propose-test-release: the sum of a batch, or its trimmed sum with less noise where a noisy test allows it. [P].

It is costed as mechanisms are, and it is not sent as they are: it releases a whole batch (`fedpriv.releases.ptr`),
not a vector.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, exp, hypot, log
from typing import Annotated, Any, ClassVar, Literal

from fedpriv.bounds.renyi import Curve
from fedpriv.bounds.vectors import OUTWARD
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError, limited, positive, whole
from fedpriv.mechanisms import ptr_renyi
from fedpriv.mechanisms._coin import Coin, coin_at, coin_step, log_coin
from fedpriv.mechanisms.ptr_pairs import Seen, log_passing, ptr_cases
from fedpriv.settings import check_fields
from fedpriv.trust import Adjacency

LEAST = 1e-50
STEEPEST = 1.0  # μ of a coin's step: past it the coin alone tells more than a sum under noise R
SMALLEST_FAILURE = 1e-300
INVERTIBLE = limited(least=LEAST)  # inverses are squared
RATIO = limited("is the ratio τ/R, in (0, 1], 0.667 for τ = 2 and R = 3", most=1)
Failure = Annotated[
    float,
    positive,
    limited(f"must be between {SMALLEST_FAILURE:g} and 1/2", least=SMALLEST_FAILURE, most=0.5),
    "δ₀, the chance that a test passes which should not",
]
TestNoise = Annotated[
    float | None, positive, INVERTIBLE, "b, the scale of the Laplace test's noise, in records; a coin has none"
]
Test = Literal["coin", "laplace"]
How = Annotated[
    Test | None,
    "an exact coin, or Laplace noise on the margin; if not given, laplace where test_noise is, else coin",
]


@dataclass(frozen=True, kw_only=True)
class Ptr:
    """The sum of a batch of records, or its trimmed sum with less noise where a noisy test allows it. [P] Algorithm 3.

    Neighbours differ by one record that is there or not. The noises are multiples of what they hide, so `clip` is the
    unit of the data and no part of the guarantee.
    """

    clip: Annotated[float, positive, "R, the ℓ2 norm of a record"]
    bound: Annotated[float, positive, INVERTIBLE, RATIO, "τ/R, the local sensitivity proposed for the trimmed sum"]
    noise: Annotated[float, positive, INVERTIBLE, "σ: standard deviation σR on the sum, στ on the trimmed sum"]
    test_noise: TestNoise = None
    failure: Failure
    trimmed: Annotated[
        int | None, whole, "F of the coin, the margin in records at which it passes but for δ₀; not of the Laplace test"
    ] = None
    test: How = None

    effects: ClassVar[Mapping[str, int]] = {"noise": -1, "test_noise": -1}  # and F, which is a study's to choose
    alphabet: ClassVar = None
    bits: ClassVar = 32.0
    entropy: ClassVar = 24.0

    def __post_init__(self) -> None:
        check_fields(self)
        check_test(self.test, self.test_noise, self.failure, trimmed=self.trimmed)

    @property
    def step(self) -> float | None:
        """μ of a coin's step, by which one record moves it in Gaussian DP; None of propose-test-release's Laplace test.

        >>> Ptr(clip=1, bound=0.5, noise=1, failure=1e-8, trimmed=36).step < 0.312
        True
        """
        return None if self.trimmed is None else coin_step(self.failure, self.trimmed)

    @property
    def peak(self) -> float:
        """The largest |coordinate| of a record's gradient that propose-test-release sums: its norm bound R."""
        return self.clip

    @property
    def limit(self) -> float:
        """τ in the data's units: the norm that records of the trimmed sum keep to."""
        return self.bound * self.clip

    @property
    def threshold(self) -> float:
        """The margin that Laplace noise alone exceeds with probability δ₀, b·ln(1/2δ₀); of PTR's coin, half its F."""
        if self.trimmed is not None:
            return self.trimmed / 2
        assert self.test_noise is not None
        return -self.test_noise * log(2 * self.failure)

    @property
    def enough(self) -> int:
        """The least whole margin, noisy where there is noise, at which PTR's test passes at least every other time.

        Of the Laplace test that is what noise alone reaches with a chance of at most δ₀.
        """
        return ceil(self.threshold if self.trimmed is not None else self.threshold * OUTWARD + 0.5)

    @property
    def mu(self) -> float:
        """A Gaussian-DP μ of a release, for the accountant: of test and sum, or of the branch wrongly taken."""
        alone = self.step if self.test_noise is None else Tradeoff.laplace(1 / self.test_noise).mu
        tested = hypot(alone or 0.0, 1 / self.noise) if self.bound < 1 else 0.0
        return max(tested, 1 / (self.noise * self.bound)) * OUTWARD

    def coin(self, margin: int) -> Coin:
        """The coin that propose-test-release tosses at a margin: its rarer side, and that one's chance."""
        assert self.trimmed is not None  # the Laplace test has none
        return coin_at(self.failure, self.trimmed, margin)

    def log_chances(self, margin: int) -> tuple[float, float]:
        """ln of the chances that propose-test-release's test passes and fails at a margin: of either kind of test."""
        if self.trimmed is not None:
            return log_coin(self.coin(margin))
        assert self.test_noise is not None
        return log_passing(self.test_noise, self.enough, margin)

    def passing(self, margin: int) -> float:
        """The chance that the test passes, and the trimmed sum is released, at a margin.

        >>> round(Ptr(clip=1, bound=0.5, noise=1, test_noise=5, failure=1e-5).passing(55), 2)
        0.55
        """
        return exp(self.log_chances(margin)[0])

    def tradeoff(self, adjacency: Adjacency = "add-remove", seen: Seen | None = None) -> Tradeoff:
        """The curve that certifies a release of any length of records: where Δ̂ is seen, or the branch alone.

        If nothing is said Δ̂ is, where there is one: of a coin only the branch ever is.

        >>> ptr = Ptr(clip=1, bound=0.5, noise=10, test_noise=5, failure=1e-5)
        >>> round(ptr.tradeoff().epsilon(1e-5), 4), round(ptr.tradeoff(seen="branch").epsilon(1e-5), 4)
        (0.5226, 0.5195)
        """
        check_adjacency(adjacency)
        seen = seen or most_seen(self)
        check_seen(self, seen)
        return ptr_cases(self, seen).either

    def renyi(self, rounds: int) -> Curve:
        """Rényi divergences of `rounds` releases by [P] Theorem 4.3, or its like of a coin: one of the routes."""
        return lambda alpha: rounds * ptr_renyi.theorem_4_3(self, alpha) * OUTWARD


def check_adjacency(adjacency: Adjacency) -> None:
    """Refuse an event of propose-test-release for neighbours that [P] does not have: add-remove only."""
    if adjacency != "add-remove":
        raise FedprivError(f"Ptr is costed for neighbours by add-remove, as its test counts them, not by {adjacency}")


def test_of(settings: Mapping[str, Any]) -> Test:
    """Which test a propose-test-release of these settings has: as `test` says, else Laplace where it has test_noise.

    >>> test_of({"test_noise": 1.0}), test_of({})
    ('laplace', 'coin')
    """
    named: Test | None = settings.get("test")
    return named or ("coin" if settings.get("test_noise") is None else "laplace")


def check_test(test: Test | None, test_noise: float | None, failure: float, **margin: int | None) -> None:
    """Refuse settings of one of propose-test-release's tests beside the other's, or without; `margin` is the coin's F.

    So is an F with too few records between a coin's two ends, δ₀ and 1 − δ₀; it is said which would do.

    >>> check_test("coin", None, 1e-8, trimmed=5)
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: trimmed must be at least 12 for the coin to go from failure = 1e-08 to 1 - 1e-08, got 5
    """
    ((name, own),) = margin.items()
    given: dict[Test, tuple[str, object]] = {"coin": (name, own), "laplace": ("test_noise", test_noise)}
    kind = test_of({"test": test, "test_noise": test_noise})
    (other,) = given.keys() - {kind}
    if given[other][1] is not None:
        what = "a coin" if kind == "coin" else "Laplace noise"
        raise FedprivError(f"{given[other][0]} is of test = '{other}', and this is {what}: leave it out")
    if given[kind][1] is None:
        raise FedprivError(
            f"test = '{kind}' needs {given[kind][0]}; test = '{other}' has {given[other][0]} in its place"
        )
    if own is not None and (least := ceil(coin_step(failure, 1) / STEEPEST)) > own:
        ends = f"from failure = {failure:g} to 1 - {failure:g}"
        raise FedprivError(f"{name} must be at least {least} for the coin to go {ends}, got {own}")


def most_seen(ptr: Ptr) -> Seen:
    """The most that is ever seen of propose-test-release's test: its noisy margin, or of a coin the branch it chose."""
    return "branch" if ptr.test_noise is None else "margin"


def check_seen(ptr: Ptr, seen: Seen | None) -> None:
    """Refuse an event in which the noisy margin of a test is seen that is a coin, and has none."""
    if ptr.test_noise is None and seen == "margin":
        raise FedprivError("seen = 'margin' is of Ptr's Laplace test: a coin shows its branch alone, seen = 'branch'")
