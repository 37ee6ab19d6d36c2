"""Losses put on a lattice, so that thousands of rounds compose by one Fourier transform.

`Lattice` holds what one round of a pair becomes: masses of Q at offset + k·step, an impossible mass, and how far the
true loss may lie from the point that stands for it. Three ways to get there:

- *exact*: two outcomes, the binomial mechanism, the discrete Gaussian: the losses already lie on a lattice;
- *spread* (upper bound): an outcome between two points is divided between them so that both masses are kept;
- *merged* (lower bound): the outcomes nearest a point become one outcome, whose own loss is remembered in `residual`;
- *gathered* (lower bound): neighbouring outcomes, cut where need be, become one whose loss is that of a point exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.arrays import Vector
from fedpriv._base.compiled import compiled
from fedpriv.curves._densities import Density, masses
from fedpriv.curves.atoms import ROUNDING, Atoms

Index = NDArray[np.int64]
LARGEST = 1 << 21  # points a transform may have
MOST_CELLS = 1 << 20  # points one round's losses may be cut into
FINER = 4096  # steps tried to bring heavy outcomes near points
NEGLIGIBLE = -690.0  # ln of a mass that no query sees


@dataclass(frozen=True, eq=False)
class Lattice:
    """Masses of Q at `offset + index·step`; the true losses there are the point + residual, up to rounding."""

    index: Index  # rising
    log_mass: Vector
    residual: Vector  # by which the true loss exceeds the point
    offset: float  # the loss of the point of index 0
    step: float
    impossible: float  # mass of Q where P has none
    error: float  # of each loss and, relative, of each mass
    widest: float = 0.0  # the largest that an outcome's loss exceeds its point by
    unseen: float = 0.0  # mass of Q too small to be kept: none of it counts below, all of it above

    @property
    def loss(self) -> Vector:
        """The loss ln(Q/P) at each point of the lattice on which a release is composed."""
        return self.offset + self.index * self.step


def step_of(losses: Vector) -> float | None:
    """The step of the coarsest lattice that holds all losses up to rounding; None: they must be spread to compose.

    >>> step_of(np.array([-1.5, 0.5, 2.5]))
    2.0
    """
    points = np.sort(losses)
    points -= points[0]
    scale = max(float(np.abs(losses).max()), 1e-300)
    gaps = np.diff(points)
    gaps = gaps[gaps > 1e-11 * scale]
    if not gaps.size:
        return 0.0
    step = float(gaps.min())
    if points[-1] / step > LARGEST:
        return None
    step = float(points[-1] / np.rint(points[-1] / step))
    off = points - np.rint(points / step) * step
    return step if np.abs(off).max() <= 1e-12 * scale else None


def exact(pair: Atoms, step: float) -> Lattice:
    """A finite pair on the lattice that `step_of` found, nothing changed; what rounding moved is in the residual."""
    finite = pair.finite
    loss, log_q = finite.loss[::-1], finite.log_q[::-1]
    index = np.rint((loss - loss[0]) / (step or 1.0)).astype(np.int64)
    residual = loss - loss[0] - index * step
    return _collect(index, log_q, residual, float(loss[0]), step, pair)


def spread(pair: Atoms | Density, step: float, offset: float) -> Lattice:
    """A pair on a lattice for an upper bound: each outcome divided between the points around it gives away no less.

    Of an outcome with masses (P, Q) between losses a and b = a + step, (Q − P·e^a)/(1 − e^−step) of Q goes to b. A
    density is cut into cells at the points; what lies above the last point is impossible under P.
    """
    if isinstance(pair, Atoms):
        finite = pair.finite
        slack = 2 * pair.error * (1 + np.abs(finite.loss))
        index = np.floor((finite.loss - offset) / step).astype(np.int64)
        past = np.clip(finite.loss - offset - index * step + slack, 0, step)
        share = np.expm1(-past) / np.expm1(-step)
        with np.errstate(divide="ignore"):
            log_mass = np.concatenate((finite.log_q + np.log1p(-np.minimum(share, 1)), finite.log_q + np.log(share)))
        both = np.concatenate((index, index + 1))
        return _collect(both, log_mass, np.zeros(both.size), offset, step, pair)
    points = _points(pair, step, offset)
    loss = offset + points * step
    cut = pair.place(loss)
    (p, _), (q, used) = masses(pair.p_below, pair.p_above, cut), masses(pair.q_below, pair.q_above, cut)
    doubt = 8 * ROUNDING * used[1:-1]
    with np.errstate(over="ignore", invalid="ignore"):
        up = (q[1:-1] - p[1:-1] * np.exp(loss[:-1]) + 2 * doubt) / -np.expm1(-step)
    up = np.clip(np.nan_to_num(up, nan=np.inf), 0, q[1:-1])  # where P underflows all goes up
    mass = np.concatenate(([q[0]], up)) + np.concatenate((q[1:-1] - up, [0.0]))
    kept = mass > 0
    error = 4 * ROUNDING * (1 + float(np.abs(loss).max()))
    return Lattice(points[kept], np.log(mass[kept]), np.zeros(kept.sum()), offset, step, float(q[-1]), error)


def merged(pair: Atoms | Density, step: float, offset: float) -> Lattice:
    """A pair on a lattice for a lower bound: outcomes nearest a point made one, its own loss kept in the residual.

    The merged loss is −ln E_Q[e^−loss] over the cell. Cells of a density whose mass is rounding noise are left out.
    """
    if isinstance(pair, Atoms):
        finite = pair.finite
        index = np.rint((finite.loss - offset) / step).astype(np.int64)
        return _collect(index, finite.log_q, finite.loss - offset - index * step, offset, step, pair)
    points = _points(pair, step, offset)
    cut = pair.place(offset + (np.append(points, points[-1] + 1) - 0.5) * step)
    p, p_used = masses(pair.p_below, pair.p_above, cut)
    q, q_used = masses(pair.q_below, pair.q_above, cut)
    p, q = p[1:-1] + 8 * ROUNDING * p_used[1:-1], q[1:-1] - 8 * ROUNDING * q_used[1:-1]
    kept = (q > 8 * ROUNDING * q_used[1:-1]) & (q > 1e-250) & (p > 1e-300)
    points, loss = points[kept], np.log(q[kept] / p[kept])
    residual = loss - offset - points * step
    return Lattice(points, np.log(q[kept]), residual, offset, step, 0.0, 4 * ROUNDING * (1 + np.abs(loss).max()))


def gathered(pair: Atoms | Density, step: float, offset: float) -> Lattice:
    """A pair on a lattice for a lower bound: outcomes, in falling order, made one once they tell a point's very loss.

    What Σ q·(1 − e^{g−loss}) of those above a point g is too much, Σ q·(e^{g−loss} − 1) of those below uses up; the
    last of them is cut. This is post-processing (docs/proofs/composition.md, section 3), and takes about a quarter of
    (gap between outcomes + step)·step off a round, where what `merged` leaves over adds up to √rounds · step.
    """
    if isinstance(pair, Density) or not (pair.finite.log_q > NEGLIGIBLE).any():
        return merged(pair, step, offset)
    finite = pair.finite
    seen = finite.log_q > NEGLIGIBLE
    index, mass, doubt = _gather(finite.loss[seen], np.exp(finite.log_q[seen]), step, offset)
    points, where = _distinct(index[mass > 0])
    size = float(np.abs(offset + points * step).max(initial=0.0))
    error = pair.error + 8 * ROUNDING * (1 + size) + ROUNDING * doubt
    total = np.bincount(where, mass[mass > 0])
    return Lattice(points, np.log(total), np.zeros(points.size), offset, step, pair.impossible, error)


@compiled
def _gather(loss: Vector, q: Vector, step: float, offset: float) -> tuple[Index, Vector, float]:
    """The loop of `gathered`: (points, masses, the most that a point's sum may lose by rounding, in units of it)."""
    n = len(loss)
    points, masses, found, doubt = np.empty(n, np.int64), np.empty(n), 0, 0.0
    at, left = 0, q[0]
    while at < n:
        first, top = at, loss[at]
        point = np.int64(np.floor((top - offset) / step))
        goal = min(offset + point * step, top)
        mass, excess = 0.0, 0.0
        while at < n and loss[at] >= goal:
            excess -= left * np.expm1(goal - loss[at])
            mass += left
            at += 1
            left = q[at] if at < n else 0.0
        while at < n and excess > 0:
            lack = np.expm1(goal - loss[at])
            if left * lack > excess:
                used = excess / lack
                mass, left, excess = mass + used, left - used, 0.0
            else:
                mass, excess = mass + left, excess - left * lack
                at += 1
                left = q[at] if at < n else 0.0
        last = loss[min(at, n - 1)]
        doubt = max(doubt, (at - first + 2) * (top - last))
        points[found], masses[found] = point, mass
        found += 1
    return points[:found][::-1], masses[:found][::-1], doubt


def _points(pair: Density, step: float, offset: float) -> Index:
    """The points of a density's lattice: all between its least and largest loss, and one more at either end."""
    low, high = pair.reach
    return np.arange(np.floor((low - offset) / step) - 1, np.ceil((high - offset) / step) + 2).astype(np.int64)


def finest(pair: Atoms | Density) -> float:
    """The smallest lattice step that suits a pair: so many points from end to end, and every index a whole number."""
    if isinstance(pair, Atoms) and not pair.finite.loss.size:
        return 0.0
    low, high = pair.reach if isinstance(pair, Density) else (float(pair.finite.loss[-1]), float(pair.finite.loss[0]))
    return max((high - low) / MOST_CELLS, max(abs(low), abs(high)) * 2.0**-45)


def aligned(heavy: Sequence[tuple[float, float]], wanted: float) -> tuple[float, float]:
    """(step, offset) of a lattice, the step at most about `wanted`, with points near outcomes of mass of their own.

    The two heaviest (loss, weight) lie on points exactly; among the steps that allow this, the one that leaves the
    others nearest. A lower bound loses what lies between points, so for a handful of outcomes this matters.
    """
    if not heavy:
        return wanted, 0.0
    ranked = sorted(heavy, key=lambda outcome: -outcome[1])
    first = ranked[0][0]
    ranked = [outcome for outcome in ranked[1:] if abs(outcome[0] - first) > 1e-9 * wanted]
    gaps = np.array([loss - first for loss, _ in ranked])
    if not gaps.size:
        return wanted, first
    if abs(gaps[0]) < wanted:  # several outcomes a point: an odd number, or cell borders would cut through some
        return float(abs(gaps[0]) * (2 * int((wanted / abs(gaps[0]) - 1) / 2) + 1)), first
    counts = np.arange(0, FINER) + np.ceil(abs(gaps[0]) / wanted)
    counts = counts[counts <= 1.5 * counts[0] + 1]
    steps = abs(gaps[0]) / counts
    off = gaps[None, :] / steps[:, None]
    weights = np.array([weight for _, weight in ranked])
    cost = (((off - np.rint(off)) * steps[:, None]) ** 2 * weights).sum(axis=1)  # BLAS' sums depend on its threads
    return float(steps[int(np.argmin(cost))]), first


def _collect(
    index: Index,
    log_mass: Vector,
    residual: Vector,
    offset: float,
    step: float,
    pair: Atoms,
) -> Lattice:
    """The lattice of outcomes that `exact`, `spread` or `merged` gave points: masses summed, tails of 1e−300 kept."""
    if not index.size:  # nothing common was left: a point with a mass that no query sees
        index, log_mass, residual = np.zeros(1, np.int64), np.full(1, NEGLIGIBLE), np.zeros(1)
    seen = log_mass > min(NEGLIGIBLE, float(log_mass.max()) - 1.0)
    unseen = float(np.exp(log_mass[~seen]).sum() + np.exp(NEGLIGIBLE) * (~seen & (log_mass > -np.inf)).any())
    index, log_mass, residual = index[seen], log_mass[seen], residual[seen]
    points, where = _distinct(index)
    total = np.bincount(where, np.exp(log_mass))
    widest = float(residual.max(initial=0.0))
    loss = -np.log1p(np.bincount(where, np.exp(log_mass) * np.expm1(-residual)) / total)
    size = float(np.abs(offset + points * step).max(initial=0.0))
    error = pair.error + ROUNDING * (1 + size)
    return Lattice(points, np.log(total), loss, offset, step, pair.impossible, error, widest, unseen)


def _distinct(index: Index) -> tuple[Index, Index]:
    """The distinct lattice indices, rising, and each one's place among them, for summing masses point by point."""
    low, high = int(index.min()), int(index.max())
    if high - low > 8 * LARGEST:
        return np.unique(index, return_inverse=True)
    used = np.zeros(high - low + 1, dtype=bool)
    used[index - low] = True
    return np.flatnonzero(used) + low, np.cumsum(used)[index - low] - 1
