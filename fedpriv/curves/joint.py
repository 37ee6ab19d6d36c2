"""Several releases of one record as one release: what must be sampled together.

When Laplace and Gaussian noise are drawn for the same Poisson sample, the *pair of both* is subsampled; sampling each
by itself and composing would claim too much. The joint pair is enclosed between two finite ones, by convolving
lattice masses directly, so that small masses keep their accuracy: spread masses above; below, the masses of P and of Q
each, which merges all outcomes whose cells add up to one point.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedpriv._base.arrays import Vector
from fedpriv.curves import _lattice as lattice
from fedpriv.curves._convolution import any_of
from fedpriv.curves._lattice import Lattice
from fedpriv.curves.atoms import ROUNDING, Atoms
from fedpriv.curves.compose import Part, heavy_losses, source
from fedpriv.curves.pair import Enclosure
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError, whole

POINTS = 1 << 14  # points that the joint losses are given
UNSEEN = 1e-50  # more than what either side has beyond the lattices
DEEPEST = -550.0  # a loss below which Q's masses underflow while P's do not


def joint(parts: Sequence[Part]) -> Tradeoff:
    """The curve of curves released together from one sample, each so often, ready to be subsampled as one.

    >>> both = joint([(Tradeoff.gaussian(1.0), 1), (Tradeoff.laplace(0.5), 1)])
    >>> round(both.subsampled(0.01).delta(0.0), 5) < 0.005
    True
    """
    if not parts:
        raise FedprivError("a joint release needs at least one curve")
    for _, count in parts:
        whole(rounds=count)
    if len(parts) == 1 and parts[0][1] == 1:
        return parts[0][0]
    width, deepest, hidden = 0.0, 0.0, []
    for curve, count in parts:
        own = source(curve, +1)
        if isinstance(own, Atoms) and not own.finite.loss.size:
            return curve  # which tells one side from the other by itself
        low, high = (own.finite.loss[-1], own.finite.loss[0]) if isinstance(own, Atoms) else own.reach
        width, deepest = width + count * float(high - low), deepest + count * float(low)
        hidden.append((float(own.swapped.impossible) if isinstance(own, Atoms) else 0.0, count))
    heavy = [
        heavy_losses(curve, 0.0) for curve, _ in parts
    ]  # every lattice starts at the heaviest outcome of its curve
    step, _ = lattice.aligned(max(heavy, key=len), max(width, 1e-9) / POINTS)
    starts = [losses[0][0] if losses else 0.0 for losses in heavy]
    spread = [(lattice.spread(source(f, +1), step, at), n) for (f, n), at in zip(parts, starts, strict=True)]
    merged = [(lattice.merged(source(f, -1), step, at), n) for (f, n), at in zip(parts, starts, strict=True)]
    _, p = _convolved([(0, _dense(one, one.log_mass - one.loss - one.residual), n) for one, n in merged])
    _, q = _convolved([(0, _dense(one, one.log_mass), n) for one, n in merged])
    kept = (q > 1e-250) & (p > 1e-250)
    log_p, log_q = np.log(p[kept]), np.log(q[kept])
    below = Atoms.sorted(log_p, log_q, log_q - log_p, sum(2 * n * one.error for one, n in merged) + ROUNDING)
    if deepest < DEEPEST:  # such a release is held to give everything away
        return Tradeoff(Enclosure(Tradeoff.between([1.0, 0.0], [0.0, 1.0]).above, below))
    return Tradeoff(Enclosure(_above(spread, any_of(hidden)), below))


def _above(rounds: list[tuple[Lattice, int]], hidden: float) -> Atoms:
    """The finite pair above a joint release, of its spread lattices; `hidden` is P's mass where Q has none."""
    first, mass = _convolved([(int(one.index[0]), _dense(one, one.log_mass), n) for one, n in rounds])
    kept = mass > 1e-305
    offset = sum(n * one.offset for one, n in rounds)
    loss = offset + (first + np.flatnonzero(kept)) * rounds[0][0].step
    log_q = np.log(mass[kept])
    impossible = any_of([(one.impossible, n) for one, n in rounds])
    return Atoms.sorted(
        np.concatenate((log_q - loss, [-np.inf, np.log(hidden + UNSEEN)])),
        np.concatenate((log_q, [np.log(impossible + UNSEEN), -np.inf])),
        np.concatenate((loss, [np.inf, -np.inf])),
        sum(2 * n * one.error for one, n in rounds) + ROUNDING,
    )


def _dense(one: Lattice, log_mass: Vector) -> Vector:
    """Masses at every point between a lattice's first and last: what a joint release convolves."""
    mass = np.zeros(int(one.index[-1] - one.index[0]) + 1)
    mass[one.index - one.index[0]] = np.exp(log_mass)
    return mass


def _convolved(parts: list[tuple[int, Vector, int]]) -> tuple[int, Vector]:
    """Index of the first point and masses of a joint release's losses, by direct convolution of positive terms."""
    first, total = 0, np.ones(1)
    for start, mass, count in parts:
        for _ in range(count):
            first, total = first + start, np.convolve(total, mass)
    return first, total
