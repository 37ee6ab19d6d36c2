"""What honest clients and attackers vote on one coordinate, and how probably their sum has the right sign.

Everybody's vote is counted in steps towards the right sign, that of the honest mean: a binomial count as 0 to M steps,
a symbol −1, 0 or 1 as 0, 1 or 2. The sum is right when it has more than half of all steps; a tie is wrong. Who is not
drawn by lot sends no ballot, which is half of its steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, exp, log, pi, sqrt
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpriv._base.arrays import Vector
from fedpriv.errors import FedprivError, real
from fedpriv.mechanisms import MECHANISMS, Cldp, Mechanism, Ternarize, Ternary
from fedpriv.mechanisms.abilities import FiniteLaw, Voting, trials_of

Attack = Literal["blind", "omniscient"]
Polled = Voting | Ternary | Ternarize | FiniteLaw

ROUNDING = float(np.finfo(np.float64).eps)
TAIL = 1e-16  # probability of sums outside the period of the transform
FAINT = -45.0  # logarithm of what is left out of the transform
BLOCK = 1 << 19  # complex numbers held at once
MOST_STEPS = 1 << 16  # of a symbol from its alphabet's centre, in the unit that all distances are multiples of


@dataclass(frozen=True)
class Ballot:
    """One client's vote: `trials` times 0, 1 (, 2 …) steps towards the right sign, with the probabilities of `law`."""

    law: tuple[float, ...]  # of one trial: the probability of each number of steps
    trials: int = 1  # independent ones, added up
    sampling: float = 1.0  # the probability that it is sent at all; below 1 the steps are even, so that half is whole

    @property
    def steps(self) -> int:
        """The most steps towards the right sign that one client's vote can be."""
        return self.trials * (len(self.law) - 1)

    @property
    def mean(self) -> float:
        """Expected steps."""
        return (1 - self.sampling) * self.steps / 2 + self.sampling * self._sent[0]

    def reach(self, count: int) -> tuple[float, float, float]:
        """Of so many of them: the ranges of independent parts, squared and added up, the variance, and one range."""
        mean, variance = self._sent
        away = variance + (1 - self.sampling) * (mean - self.steps / 2) ** 2
        part = self.steps if self.sampling < 1 else len(self.law) - 1
        return count * part * self.steps, count * self.sampling * away, part

    @property
    def _sent(self) -> tuple[float, float]:
        """Mean and variance of the steps of one that is sent."""
        mean = sum(step * chance for step, chance in enumerate(self.law))
        return self.trials * mean, self.trials * sum((step - mean) ** 2 * p for step, p in enumerate(self.law))

    def log_characteristic(self, angle: Vector) -> NDArray[np.complex128]:
        """ln E[e^{iθ·steps}], some branch of it; a zero is as good as e^−690."""
        found = self.trials * _log(sum(chance * np.exp(1j * step * angle) for step, chance in enumerate(self.law)))
        if self.sampling == 1:
            return found
        return _log((1 - self.sampling) * np.exp(0.5j * self.steps * angle) + self.sampling * np.exp(found))


def _log(value: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """ln of a characteristic function, for the exact count of votes; a zero is as good as e^−690."""
    found: NDArray[np.complex128] = np.log(np.where(np.abs(value) < 1e-300, 1e-300, value))
    return found


def is_polled(kind: str) -> bool:
    """Whether votes of that kind of mechanism can be counted: coins, three symbols, or any law that is written down."""
    return any(hasattr(MECHANISMS.get(kind), name) for name in ("chance", "plus", "symbol_law"))


def polled_names() -> str:
    """The kinds of mechanisms whose votes can be counted."""
    return ", ".join(filter(is_polled, MECHANISMS))


def polled_mechanism(mechanism: Mechanism) -> Polled:
    """The mechanism as one whose votes can be counted, or a line that says it is none."""
    if isinstance(mechanism, Cldp):
        return mechanism.sign
    if not isinstance(mechanism, Polled):
        raise FedprivError(f"{type(mechanism).__name__} has no tolerance here; mechanisms with one: {polled_names()}")
    return mechanism


def client_ballot(mechanism: Polled, x: float, sampling: float = 1.0) -> Ballot:
    """The vote towards plus of a client whose coordinate is x, cast with that probability.

    >>> from fedpriv.mechanisms import Binomial
    >>> client_ballot(Binomial(clip=1, scale=2, trials=3), 1.0)
    Ballot(law=(0.25, 0.75), trials=3, sampling=1.0)
    """
    if isinstance(mechanism, Ternary | Ternarize):
        at = np.array([x])
        plus, minus = float(mechanism.plus(at)[0]), float(mechanism.minus(at)[0])
        return _cast((minus, 1 - plus - minus, plus), 1, sampling)
    if isinstance(mechanism, FiniteLaw):  # asked before its votes: their centre need not be one half
        return _cast(tuple(_placed(mechanism, mechanism.symbol_law(x))), 1, sampling)
    right = float(mechanism.chance(np.array([x]))[0])
    return _cast((1 - right, right), trials_of(mechanism), sampling)


def _cast(law: tuple[float, ...], trials: int, sampling: float) -> Ballot:
    """A ballot, in half steps where an absent one would not be a whole number of steps."""
    if sampling < 1 and trials * (len(law) - 1) % 2:
        law = tuple(np.insert(law, range(1, len(law)), 0.0).tolist())
    return Ballot(law, trials, sampling)


def _placed(mechanism: FiniteLaw, chances: Vector) -> Vector:
    """The probabilities of the symbols at their distances from the centre, which is put in the middle."""
    alphabet, centre = mechanism.alphabet, mechanism.centre  # type: ignore[attr-defined]  # a mechanism's
    away = np.array([int((symbol - centre) * centre.denominator) for symbol in alphabet])
    away //= np.gcd.reduce(away)
    most = int(np.abs(away).max())
    if most > MOST_STEPS:
        raise FedprivError(f"{type(mechanism).__name__}: symbols lie more than {MOST_STEPS:,} units off their centre")
    law = np.zeros(2 * most + 1)
    law[most + away] = chances
    return law


def attackers_ballot(
    mechanism: Polled, mean: float, attack: Attack, probability: float | None = None, sampling: float = 1.0
) -> Ballot:
    """What one attacker votes.

    Blind: its honest update −x through the mechanism, x being the mean too. Omniscient: the most extreme symbol against
    the right sign, for certain. With a probability p_att: each trial (symbol) is wrong with it, and otherwise right as
    [F] Theorems 10 and 11 have it: with 1 − p_att, for Ternary with A/B − p_att; for Ternarize with 0.
    """
    if probability is None and attack == "blind":
        return client_ballot(mechanism, -mean, sampling)
    if probability is not None:
        low, high = attack_probabilities(mechanism)
        real(probability=probability)
        if not low < probability <= high:
            raise FedprivError(
                f"probability must be above {low:g}, where a vote begins to harm, and at most {high:g}, got "
                f"{probability}"
            )
    wrong = 1.0 if probability is None else probability
    if isinstance(mechanism, Ternary | Ternarize):
        right = high - wrong if isinstance(mechanism, Ternary) and probability is not None else 0.0
        return _cast((wrong, 1 - wrong - right, right), 1, sampling)
    if not isinstance(mechanism, FiniteLaw):
        return _cast((wrong, 1 - wrong), trials_of(mechanism), sampling)
    extremes = np.zeros(len(mechanism.alphabet))
    extremes[[0, -1]] = wrong, 1 - wrong
    return _cast(tuple(_placed(mechanism, extremes)), 1, sampling)


def attack_probabilities(mechanism: Polled) -> tuple[float, float]:
    """The p_att above which an attacker's votes do harm, and the largest there can be: [F] Theorems 10 and 11."""
    match mechanism:
        case Ternary():
            return mechanism.spread / mechanism.scale / 2, mechanism.spread / mechanism.scale
        case Ternarize():
            return 0.0, 1.0
    return 0.5, 1.0


def majority_chances(honest: Ballot, attacker: Ballot, clients: int, attackers: ArrayLike) -> tuple[Vector, float]:
    """P(the sum of votes is right) for each number of attackers, votes independent, and a bound of the error.

    The convolution by discrete Fourier transform: the characteristic function of a sum is a product of powers, and the
    outcomes above one half add up to a geometric series at each angle. The period holds the sum but for a probability
    of 10^−16 (Hoeffding's or Bernstein's inequality), and angles at which all votes leave less than e^−45 are left out.

    >>> three = Ballot((0.4, 0.6))  # one, and three, voters that are right with probability .6
    >>> [round(float(majority_chances(three, three, n, [0])[0][0]), 12) for n in (1, 3)]
    [0.6, 0.648]
    """
    others = np.atleast_1d(np.asarray(attackers, dtype=np.int64))
    most = int(others.max(initial=0))
    (own, spread, part), (others_own, others_spread, _) = honest.reach(clients), attacker.reach(most)
    rarity = log(2 / TAIL)
    linear = part * rarity / 3  # how far the sum is from its mean, with a probability of at most TAIL, by either
    bernstein = linear + sqrt(linear**2 + 2 * (spread + others_spread) * rarity)
    period = 2 * ceil(min(sqrt((own + others_own) * rarity / 2), bernstein)) + 3
    angle = 2 * pi / period * np.arange(1, period // 2 + 1)
    log_honest, log_attacker = clients * honest.log_characteristic(angle), attacker.log_characteristic(angle)
    kept = log_honest.real + int(others.min(initial=most)) * log_attacker.real > FAINT
    angle, log_honest, log_attacker = angle[kept], log_honest[kept], log_attacker[kept]
    needed = (clients + others) * honest.steps // 2 + 1
    first = np.floor(clients * honest.mean + others * attacker.mean).astype(np.int64) - period // 2
    below = np.clip(needed - first, 0, period)  # outcomes of the period that are not right
    found = (period - below) / period
    step = max(1, BLOCK // max(1, len(angle)))
    for start in range(0, len(others), step):
        rows = slice(start, start + step)
        powers = log_honest + np.multiply.outer(others[rows], log_attacker) - 1j * np.multiply.outer(first[rows], angle)
        series = np.expm1(-1j * np.multiply.outer(below[rows], angle)) / -np.expm1(-1j * angle)
        found[rows] += 2 / period * (np.exp(powers) * series).real.sum(axis=1)
    turns = (
        (clients + most) * honest.steps * float(angle.max(initial=0.0))
    )  # phases are rounded by so much, times ROUNDING
    return found, 4 * TAIL + period * exp(FAINT) + 64 * ROUNDING * (1 + turns)
