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
    """Σ(1[‖x‖ ≤ R] − ½) with its noise, of all steps, as R's own step shows it.

    >>> own = AdaptiveDpSgd(clip=1.0, noise=1.0, sampling=1.0, count_noise=2.0, rate=0.2)
    >>> halves_of(own, np.array([1.0]), np.exp([-0.2 * 1.5 / 10]), expected=10.0).round(9)
    array([1.5])
    """
    return np.asarray((steps * (own.quantile - 0.5) - np.log(after / before) / own.rate) * expected)


def reached(own: PrivateSum, study: Study, before: Settings, after: Settings) -> NDArray[np.bool_]:
    """Whether noise can lead from the settings that a client was sent to those that it answers, a row each."""
    steps, expected = study.training.local_steps, own.sampling * study.clients.records
    match own:
        case AdaptiveDpSgd():
            return _on_grid(own, before[:, 0], after[:, 0], expected, steps)
        case Ptr():
            return np.array([now in _after(own, was, expected, steps) for was, now in zip(
                before[:, 0].tolist(), after[:, 0].tolist(), strict=True
            )], bool)  # fmt: skip
        case _:
            return np.ones(len(after), bool)


def _on_grid(own: AdaptiveDpSgd, before: Vector, after: Vector, expected: float, steps: int) -> NDArray[np.bool_]:
    """R's step is a function of a whole number of grid steps, and of nothing else: put together again it is the same.

    At the ends of where R may wander, and of how far one step goes, there is nothing to put together.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        count = halves_of(own, before, after, expected, steps)
        step = FineGrid.of(0.5, own.count_noise).step
        again = before * np.exp(-own.rate * (np.round(count / step) * step / expected + steps * (0.5 - own.quantile)))
    far = ~(np.abs(count / expected) < 10.0 - steps) | (after == before)
    close = np.isclose(again, after, rtol=ROUNDED * steps, atol=0)
    return np.asarray(np.isfinite(after) & (after > 0) & (close | far))


def _after(own: Ptr, trimmed: float, expected: float, steps: int) -> set[float]:
    """All F that tests lead to, whichever pass."""
    found = {trimmed}
    for _ in range(steps):
        found = {float(own._next(int(now), passed, expected)) for now in found for passed in (True, False)}
    return found
