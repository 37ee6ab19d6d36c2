"""How probably a noisy sign is right, of all data of one mean: Φ is no straight line, so a mean alone bounds it."""

from __future__ import annotations

from math import exp, pi, sqrt

from scipy.special import ndtr

from fedpriv.mechanisms import NoisySign

ROUNDING = 1e-13  # of all that is computed here


def least_chance(mechanism: NoisySign, mean: float) -> float:
    """The least mean probability of + that inputs of this mean, 0 < x̄ ≤ r, can have: the convex envelope of Φ(·/s).

    Φ is convex below 0 and concave above: on ±r the envelope follows it to a t < 0, and from there the line to
    (r, Φ(r/s)) that touches it at t, φ(t/s)(r − t)/s = Φ(r/s) − Φ(t/s). Reached by inputs at t and r.

    >>> round(least_chance(NoisySign(clip=1, noise=1), 0.25), 9)
    0.574926843
    """
    r, s = mechanism.peak, mechanism.noise
    top = float(ndtr(r / s))
    low, high = -r, 0.0  # the line from r is too flat to touch at −r, too steep at 0
    for _ in range(80):
        t = (low + high) / 2
        slope = exp(-((t / s) ** 2) / 2) / (s * sqrt(2 * pi))
        low, high = (t, high) if slope * (r - t) < top - float(ndtr(t / s)) else (low, t)
    return top - (r - mean) * (top - float(ndtr(low / s))) / (r - low) - ROUNDING
