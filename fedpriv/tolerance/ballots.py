"""What honest clients and attackers vote on one coordinate, and how probably their sum has the right sign.

Everybody's vote is counted in steps towards the right sign, that of the honest mean: a binomial count as 0 to M steps,
a symbol −1, 0 or 1 as 0, 1 or 2. The sum is right when it has more than half of all steps; a tie is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, exp, log, pi, sqrt
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpriv._base.arrays import Vector
from fedpriv.errors import FedprivError, real
from fedpriv.mechanisms import Binomial, Cldp, Mechanism, StochasticSign, Ternarize, Ternary
from fedpriv.mechanisms.abilities import trials_of

Attack = Literal["blind", "omniscient"]
Polled = Binomial | StochasticSign | Ternary | Ternarize
POLLED = ("Binomial", "StochasticSign", "Cldp", "Ternary", "Ternarize")

ROUNDING = float(np.finfo(np.float64).eps)
TAIL = 1e-16  # probability of sums outside the period of the transform
FAINT = -45.0  # logarithm of what is left out of the transform
BLOCK = 1 << 19  # complex numbers held at once


@dataclass(frozen=True)
class Ballot:
    """One client's vote: `trials` times 0, 1 (, 2) steps towards the right sign, with the probabilities of `law`."""

    law: tuple[float, ...]  # of one trial: the probability of each number of steps
    trials: int = 1  # independent ones, added up

    @property
    def steps(self) -> int:
        """The most steps towards the right sign that one client's vote can be."""
        return self.trials * (len(self.law) - 1)

    @property
    def mean(self) -> float:
        """The expected steps of one client's vote towards the right sign."""
        return self.trials * sum(step * chance for step, chance in enumerate(self.law))

    def log_characteristic(self, angle: Vector) -> NDArray[np.complex128]:
        """ln E[e^{iθ·steps}] of one vote, some branch of it, for the sum of votes; a zero is as good as e^−690."""
        value = sum(chance * np.exp(1j * step * angle) for step, chance in enumerate(self.law))
        found: NDArray[np.complex128] = np.log(np.where(np.abs(value) < 1e-300, 1e-300, value))
        return self.trials * found


def polled_mechanism(mechanism: Mechanism) -> Polled:
    """The voting mechanism whose tolerance is asked, its vote leaning by x/2B; an error where there is none."""
    if isinstance(mechanism, Cldp):
        return mechanism.sign
    if not isinstance(mechanism, Polled):
        raise FedprivError(
            f"{type(mechanism).__name__} has no tolerance here; mechanisms with one: {', '.join(POLLED)}"
        )
    return mechanism


def honest_ballot(mechanism: Polled, mean: float) -> Ballot:
    """The vote of an honest client, as chances of steps, whose coordinate is `mean` towards the right sign."""
    x = np.array([mean])
    if isinstance(mechanism, Ternary | Ternarize):
        plus, minus = float(mechanism.plus(x)[0]), float(mechanism.minus(x)[0])
        return Ballot((minus, 1 - plus - minus, plus))
    right = float(mechanism.chance(x)[0])
    return Ballot((1 - right, right), trials_of(mechanism))


def attackers_ballot(mechanism: Polled, mean: float, attack: Attack, probability: float | None = None) -> Ballot:
    """The vote of one attacker, as chances of steps towards the right sign, by what it knows or how often it errs.

    Blind: its honest update −x through the mechanism, x being the mean too. Omniscient: the most extreme symbol against
    the right sign, for certain. With a probability p_att: each trial (symbol) is wrong with it, and otherwise right as
    [F] Theorems 10 and 11 have it: with 1 − p_att, for Ternary with A/B − p_att; for Ternarize with 0.
    """
    honest = honest_ballot(mechanism, mean)
    if probability is None:
        law = (1.0, *(0.0 for _ in honest.law[1:])) if attack == "omniscient" else honest.law[::-1]
        return Ballot(law, honest.trials)
    low, high = attack_probabilities(mechanism)
    real(probability=probability)
    if not low < probability <= high:
        raise FedprivError(
            f"probability must be above {low:g}, where a vote begins to harm, and at most {high:g}, got {probability}"
        )
    if isinstance(mechanism, Ternary):
        return Ballot((probability, 1 - high, high - probability), honest.trials)
    never = (0.0,) * (len(honest.law) - 2)  # Ternarize's third symbol
    return Ballot((probability, 1 - probability, *never), honest.trials)


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
    of 10^−16 (Hoeffding's inequality), and angles at which all votes leave less than e^−45 are left out.

    >>> three = Ballot((0.4, 0.6))  # one, and three, voters that are right with probability .6
    >>> [round(float(majority_chances(three, three, n, [0])[0][0]), 12) for n in (1, 3)]
    [0.6, 0.648]
    """
    others = np.atleast_1d(np.asarray(attackers, dtype=np.int64))
    most = clients + int(others.max(initial=0))
    spread = most * honest.trials * (len(honest.law) - 1) ** 2
    period = 2 * ceil(sqrt(spread * log(2 / TAIL) / 2)) + 3
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
    turns = most * honest.steps * float(angle.max(initial=0.0))  # phases are rounded by so much, times ROUNDING
    return found, 4 * TAIL + period * exp(FAINT) + 64 * ROUNDING * (1 + turns)
