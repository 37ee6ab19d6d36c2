"""Of many coordinates whose honest means are known: whose votes survive attackers, and how many come out wrong."""

from __future__ import annotations

from functools import lru_cache
from math import inf

import numpy as np
from numpy.typing import ArrayLike

from fedpriv._base.arrays import finite_floats
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import Mechanism
from fedpriv.mechanisms.abilities import FiniteLaw
from fedpriv.tolerance.ballots import Attack, client_ballot, polled_mechanism
from fedpriv.tolerance.vote import Vote

PLACES = 64  # coordinates, evenly spaced in the order of their means, that stand for all


def is_mirrored(mechanism: Mechanism) -> bool:
    """Whether a mechanism's votes of −x are those of x turned round, so that one count serves means of both signs."""
    own = polled_mechanism(mechanism)
    if not isinstance(own, FiniteLaw):
        return True
    laws = [[client_ballot(own, sign * part * mechanism.peak).law for part in (1.0, 0.3)] for sign in (1, -1)]
    return all(np.allclose(law, other[::-1], rtol=0, atol=1e-12) for law, other in zip(*laws, strict=True))


def check_mirrored(mechanism: Mechanism) -> None:
    """Refuse to say of coordinates of either sign what holds of positive means alone."""
    if not is_mirrored(mechanism):
        raise FedprivError(
            f"the votes of {type(mechanism).__name__} for + and for − are no mirror images, so no one tolerance holds "
            "for coordinates of both signs: fedpriv tolerance counts those of a positive mean"
        )


@lru_cache(maxsize=64)
def least_mean(
    mechanism: Mechanism, honest: int, byzantine: int, attack: Attack = "blind", probability: float | None = None
) -> float:
    """The smallest |x̄| at which so many attackers are tolerated, each honest client at x̄; infinite where none is.

    By bisection: that a larger mean never hurts is proven for omniscient attackers alone, whose votes ignore it.

    >>> from fedpriv.mechanisms import Binomial
    >>> round(least_mean(Binomial(clip=0.1, scale=0.5, trials=1), 100, 95), 3)
    0.083
    """

    check_mirrored(mechanism)

    def survived(mean: float) -> bool:
        """Whether a vote of that mean survives the attackers: what `least_mean` bisects."""
        vote = Vote(mechanism=mechanism, honest=honest, mean=mean, attack=attack, probability=probability)
        return vote.tolerates(byzantine)

    low, high = 0.0, float(mechanism.peak)
    if not survived(high):
        return inf
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if survived(middle) else (middle, high)
    return high


def covered_share(
    mechanism: Mechanism,
    honest: int,
    byzantine: int,
    means: ArrayLike,
    attack: Attack = "blind",
    probability: float | None = None,
) -> float:
    """The share of coordinates whose vote survives so many attackers, given the honest means of the coordinates.

    >>> from fedpriv.mechanisms import Binomial
    >>> covered_share(Binomial(clip=1, scale=2, trials=4), 100, 10, [0.9, 0.5, -0.3, 0.1, 0.0], "omniscient")
    0.6
    """
    values = np.abs(finite_floats(means))
    least = least_mean(mechanism, honest, byzantine, attack, probability)  # type: ignore[arg-type] # frozen: hashable
    return float(np.mean(values >= least)) if values.size else 1.0


def expected_wrong(
    mechanism: Mechanism,
    honest: int,
    byzantine: int,
    means: ArrayLike,
    attack: Attack = "blind",
    probability: float | None = None,
) -> float:
    """The expected share of coordinates whose vote is wrong or a tie, each honest client at its coordinate's mean.

    An estimate: of many coordinates some stand for all. Coordinates of mean 0 have no right sign and do not count.

    >>> from fedpriv.mechanisms import Binomial
    >>> round(expected_wrong(Binomial(clip=1, scale=2, trials=1), 1, 0, [1.0, -1.0, 0.0]), 12)
    0.25
    """
    check_mirrored(mechanism)
    values = np.sort(np.abs(finite_floats(means)))
    values = values[values > 0]
    places = np.unique((np.arange(PLACES) + 0.5) * values.size // PLACES).astype(int) if values.size > PLACES else ...
    wrong = []
    for mean in np.minimum(values[places], mechanism.peak).tolist():
        vote = Vote(mechanism=mechanism, honest=honest, mean=mean, attack=attack, probability=probability)
        wrong.append(1 - float(vote.chances(byzantine)[0][0]))
    return float(np.mean(wrong)) if wrong else 0.0
