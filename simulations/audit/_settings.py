"""Settings that adapt as they leave a client: the noisy count behind a clip norm, and what noise can lead to at all."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.arrays import Vector
from fedpriv.randomness.grid import FineGrid
from fedpriv.releases import AdaptiveDpSgd, PrivateSum, Ptr
from fedpriv.studies.study import Study

ROUNDED = 1e-15  # of a clip norm, at most, in each step
Settings = NDArray[np.float64]


def halves_of(own: AdaptiveDpSgd, before: Vector, after: Vector, expected: float, steps: int = 1) -> Vector:
    """Σ(1[‖x‖ ≤ R] − ½) with its noise, summed over all steps, as the step from R before to R after shows it.

    `expected` is the size of a batch on average.

    >>> own = AdaptiveDpSgd(clip=1.0, noise=1.0, sampling=1.0, count_noise=2.0, rate=0.2)
    >>> halves_of(own, np.array([1.0]), np.exp([-0.2 * 1.5 / 10]), expected=10.0).round(9)
    array([1.5])
    """
    return np.asarray((steps * (own.quantile - 0.5) - np.log(after / before) / own.rate) * expected)


def reached(own: PrivateSum, study: Study, before: Settings, after: Settings) -> NDArray[np.bool_]:
    """Whether noise can lead from the settings that each client was sent to those that it answers, a row a client."""
    steps, expected = study.training.local_steps, own.sampling * study.clients.records
    match own:
        case AdaptiveDpSgd():
            return _on_grid(own, before[:, 0], after[:, 0], expected, steps)
        case Ptr():
            leads_to = [{was} for was in before[:, 0].tolist()]  # every F that tests lead to, whichever of them pass
            for _ in range(steps):
                leads_to = [
                    {float(own._next(int(now), passed, expected)) for now in some for passed in (True, False)}
                    for some in leads_to
                ]
            return np.array([now in some for now, some in zip(after[:, 0].tolist(), leads_to, strict=True)], bool)
        case _:
            return np.ones(len(after), bool)


def _on_grid(own: AdaptiveDpSgd, before: Vector, after: Vector, expected: float, steps: int) -> NDArray[np.bool_]:
    """Whether R's step is what some whole number of grid steps gives, and nothing else: worked out anew it is the same.

    At the ends of where R may wander, and of how far one step goes, any number gives that step, so it is believed.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        count = halves_of(own, before, after, expected, steps)
        step = FineGrid.of(0.5, own.count_noise).step
        again = before * np.exp(-own.rate * (np.round(count / step) * step / expected + steps * (0.5 - own.quantile)))
    far = ~(np.abs(count / expected) < 10.0 - steps) | (after == before)
    close = np.isclose(again, after, rtol=ROUNDED * steps, atol=0)
    return np.asarray(np.isfinite(after) & (after > 0) & (close | far))
