"""What attackers are left with: error rates and μ by routes and by witnesses, put together to what is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fedpriv._base.arrays import Vector
from fedpriv.accounting.routes import Route
from fedpriv.bounds.renyi_errors import renyi_type_two
from fedpriv.curves.compose import LOWER, UPPER, Band, Mu, Part, compose

SAVES = 0.9  # of the exact μ: how small one must be that sets something aside, to be told instead


def route_type_two(route: Route, alpha: Vector, tolerance: float) -> Vector:
    """The lower bound of the type II error at each type I error by this route; what is set aside comes off."""
    if route.divergence is not None:
        found = renyi_type_two(route.divergence, alpha)
    else:
        found = compose(route.parts).tradeoff(alpha, tolerance, UPPER).lower
    return np.asarray(np.maximum(found - route.aside, 0.0))


def route_mu(route: Route, up_to: float, tolerance: float) -> float:
    """A μ by this route up to a failure, of which its own is a part; ∞ where it has none."""
    if route.divergence is not None or route.aside > up_to:
        return np.inf
    return compose(route.parts).mu_between(up_to - route.aside, tolerance, UPPER).upper


def reached_type_two(parts: Sequence[Part], alpha: Vector, tolerance: float) -> Vector:
    """The type II error that these curves reach at each type I error."""
    return np.asarray(compose(parts).tradeoff(alpha, tolerance, LOWER).upper)


def checked_band(low: Sequence[Vector], high: Sequence[Vector]) -> Band:
    """The best of lower and of upper bounds; where they cross, no number would be right."""
    least, most = np.max(low, axis=0), np.min(high, axis=0)
    if (least > most + 1e-6).any():
        raise RuntimeError(f"type II errors of at least {least}, where data reach {most}")
    return Band(least, np.maximum(most, least))


def chosen_mu(
    exact: float,
    at_least: Callable[[float], float],
    at_most: Callable[[float], float],
    up_to: float,
) -> Mu:
    """The exact μ; or up to so much of every error, where that is clearly less. Both bounds are functions of it."""
    low = at_least(0.0)
    if up_to and low < SAVES * exact and (upper := at_most(up_to)) < SAVES * exact:
        return Mu(min(at_least(up_to), upper), upper, up_to)
    return Mu(min(low, exact), exact, 0.0)
