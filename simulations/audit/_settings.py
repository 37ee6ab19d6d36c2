"""Settings that adapt as they leave a client: the noisy count behind a clip norm, and what noise can lead to at all."""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.arrays import Vector
from fedpriv.errors import FedprivError
from fedpriv.randomness.grid import FineGrid
from fedpriv.releases import AdaptiveDpSgd, PrivateSum, Ptr, in_turn
from fedpriv.releases.ptr import step_ratio
from fedpriv.studies.study import Study

ROUNDED = 1e-15  # of a clip norm, at most, in each step
FEWEST = 16  # counts of which a spread is measured
FAR = 0.7  # of the spread that is described: a measured one below it is believed instead
STILL = 0.05  # records, which a spread is taken for at least
Settings = NDArray[np.float64]


def check_rounds_alike(study: Study) -> None:
    """Refuse to audit a study whose rounds have each a noise of their own: an audit is of one event, met in all."""
    if (private := study.privacy.private_sum) is not None and in_turn(private):
        raise FedprivError(
            f"{study.name}: its noise goes by a schedule, and an audit is of rounds that are alike: "
            "--set privacy.release.schedule=constant --set privacy.release.to=1.0 audits the same code"
        )


def halves_of(own: AdaptiveDpSgd, before: Vector, after: Vector, expected: float, steps: int = 1) -> Vector:
    """The noisy counts Σ(1[‖x‖ ≤ R] − ½), all steps added, that a node's clip norms R before and after betray.

    `expected` is the size of a batch on average.

    >>> own = AdaptiveDpSgd(clip=1.0, noise=1.0, sampling=1.0, count_noise=2.0, rate=0.2)
    >>> halves_of(own, np.array([1.0]), np.exp([-0.2 * 1.5 / 10]), expected=10.0).round(9)
    array([1.5])
    """
    return np.asarray((steps * (own.quantile - 0.5) - np.log(after / before) / own.rate) * expected)


def said_by_counts(own: AdaptiveDpSgd, halves: Vector, steps: int, chosen: NDArray[np.bool_]) -> Vector:
    """What trials' noisy counts add to a score: ln of the likelihood ratio of one record more, too long for R.

    A guesser weighs it by the noise that is there: by what is described, unless the `chosen` counts spread far less.
    """
    spread = float(halves[chosen].std()) / sqrt(steps) if chosen.sum() >= FEWEST else own.count_noise
    noise = own.count_noise if spread > FAR * own.count_noise else max(spread, STILL)
    return np.asarray((-0.5 * halves - 0.125) / (noise**2 * steps))


def measured(own: Ptr, before: Vector, after: Vector, expected: float) -> tuple[Vector, Vector]:
    """What F before and after shows of a PTR step: by what its sum was multiplied, and its noise in clip norms.

    F is smaller afterwards where the test passed.
    """
    passed, n, rate = after < before, int(expected), np.ones(len(before))
    if own.rates == "by-trimmed":
        rate = np.where(passed, 1.0, [step_ratio(min(max(int(f), 1), n - 1), n) for f in before])
    return rate, np.where(passed, own.noise * own.bound, own.noise)


def reached(own: PrivateSum, study: Study, before: Settings, after: Settings) -> NDArray[np.bool_]:
    """Whether noise can lead from the adaptive settings sent to those a node answers: one truth for each client."""
    steps, expected = study.training.local_steps, own.sampling * study.clients.records
    match own:
        case AdaptiveDpSgd():
            # R's step is a function of a whole number of grid steps, and of nothing else: put together again it is the
            # same. At the ends of where R may wander, and of how far one step goes, there is nothing to put together.
            was, now = before[:, 0], after[:, 0]
            with np.errstate(invalid="ignore", divide="ignore"):
                count, step = halves_of(own, was, now, expected, steps), FineGrid.of(0.5, own.count_noise).step
                mean = np.round(count / step) * step / expected + steps * (0.5 - own.quantile)
                again = was * np.exp(-own.rate * mean)
            far = ~(np.abs(count / expected) < 10.0 - steps) | (now == was)
            close = np.isclose(again, now, rtol=ROUNDED * steps, atol=0)
            return np.asarray(np.isfinite(now) & (now > 0) & (close | far))
        case Ptr():
            leads_to = [{was} for was in before[:, 0].tolist()]  # every F that tests lead to, whichever of them pass
            for _ in range(steps):
                leads_to = [
                    {float(own.next_trimmed(int(one), passed, expected)) for one in some for passed in (True, False)}
                    for some in leads_to
                ]
            return np.array([end in some for end, some in zip(after[:, 0].tolist(), leads_to, strict=True)], bool)
        case _:
            return np.ones(len(after), bool)
