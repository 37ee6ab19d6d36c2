"""The Gaussian-DP parameter of a composition from the vertices of its own curve, where √n·μ of one release is too much.

The composed curve is a polygon, and a polygon lies above the convex G_μ exactly when its vertices (a, b) do: μ = max of
−Φ⁻¹(a) − Φ⁻¹(b). A vote of two outcomes touches G_μ with the one vertex that it has; a hundred are nearly Gaussian.
Blocks of rounds are composed by direct convolution, of positive terms only, so that a and b keep their digits in both
tails; blocks add up as squares. Proof: docs/proofs/composition.md, section 12.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, inf, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.arrays import Vector
from fedpriv.curves import _lattice as lattice
from fedpriv.curves.atoms import ROUNDING, Atoms
from fedpriv.curves.pair import normal_quantile
from fedpriv.curves.tradeoff import Tradeoff

Long = NDArray[np.longdouble]
POINTS = 1 << 13  # of a block's lattice
FEWEST = 64  # points that one release's losses are spread over, where no lattice holds them
DEEPEST = -0.95 * float(np.log(np.finfo(np.longdouble).tiny))  # nats at which no mass of a block has underflowed
SHORT = 256  # points of a block below which halving its products saves nothing
SEEN = 600.0  # nats of one release's masses; lattices drop those of e^−690
STEEPEST = 1.2534  # above √(π/2): what z moves by for a relative change of the smaller of Φ(z) and 1 − Φ(z)


class _Block(NamedTuple):
    """Masses of P and Q on the points of a lattice, losses rising, and a bound on their relative errors."""

    p: Long
    q: Long
    error: float  # relative, of every mass


@lru_cache(maxsize=64)
def composed_mu(curve: Tradeoff, rounds: int) -> float:
    """The μ of Gaussian DP that so many releases of a curve keep, read off their composition; ∞ where none is known.

    >>> vote = Tradeoff.between([0.55, 0.45], [0.45, 0.55])
    >>> round(composed_mu(vote, 100), 5), round(10 * vote.mu, 5)
    (2.01003, 2.51323)
    """
    one = curve.mu
    plain = sqrt(rounds) * one * (1 + 8 * ROUNDING) if one < 1e150 else inf
    if rounds < 2 or not 0 < one < 1e150 or curve.gaussian_mu is not None:
        return plain
    pair = curve.above
    if not np.isfinite(pair.loss).all() or pair.loss.size < 2 or min(pair.log_p.min(), pair.log_q.min()) < -SEEN:
        return plain
    single, most = _single(pair, rounds)
    blocks = ceil(rounds / most)
    size = rounds // blocks
    if size < 2:
        return plain
    block = _power(single, size)
    # max −Φ⁻¹(a) − Φ⁻¹(b) over the inner vertices, and what the errors of the masses may add to it
    a, not_a = _sums(block.p[::-1])[:-1], _sums(block.p)[::-1][1:]
    b, not_b = _sums(block.q)[::-1][1:], _sums(block.q[::-1])[:-1]
    z_a, z_b = normal_quantile(a, not_a), normal_quantile(b, not_b)
    error = block.error + block.p.size * ROUNDING
    with np.errstate(invalid="ignore"):
        corner = -z_a - z_b + 2 * STEEPEST * error + 16 * ROUNDING * (1 + np.abs(z_a) + np.abs(z_b))
    mu = float(np.nan_to_num(corner, nan=inf).max(initial=0.0))
    squares = blocks * mu**2 + (rounds - blocks * size) * one**2
    return min(plain, sqrt(squares) * (1 + 8 * ROUNDING))


def _single(pair: Atoms, rounds: int) -> tuple[_Block, int]:
    """One release put on a lattice, exactly or spread, for `composed_mu`, and how many of them a block may hold.

    Taking a mass out of its logarithm costs `ROUNDING` times the size of the logarithm. What rounding has moved a loss
    by, to its lattice point, counts as an error of its mass.
    """
    step, width = lattice.step_of(pair.loss), float(pair.loss[0] - pair.loss[-1])
    shallow = int(DEEPEST / max(1.0, -float(min(pair.log_p.min(), pair.log_q.min()))))
    if step and width / step <= POINTS / 2:
        place = (pair.loss - pair.loss[-1]) / step
        index = np.rint(place).astype(np.int64)
        moved = float(np.abs(place - index).max()) * step
        deep = ROUNDING * (1 + float(np.abs(pair.log_p).max() + np.abs(pair.log_q).max()))
        block = _Block(_dense(index, pair.log_p), _dense(index, pair.log_q), pair.error + 2 * moved + deep)
        return block, max(min(shallow, int(POINTS * step / width)), 1)
    most = max(min(shallow, POINTS // FEWEST, rounds), 1)
    one = lattice.spread(pair, width * most / POINTS, float(pair.loss[-1]))
    index = one.index - one.index[0]
    deep = ROUNDING * (1 + float(np.abs(one.log_mass).max() + np.abs(one.loss).max()))
    return _Block(_dense(index, one.log_mass - one.loss), _dense(index, one.log_mass), 2 * one.error + deep), most


def _dense(index: NDArray[np.int64], log_mass: Vector) -> Long:
    """A block's masses at every lattice point, from some points and their log masses: what `composed_mu` convolves."""
    mass = np.zeros(int(index.max()) + 1, dtype=np.longdouble)
    np.add.at(mass, index, np.exp(log_mass.astype(np.longdouble)))
    return mass


def _power(one: _Block, count: int) -> _Block:
    """The block of `count` releases, for `composed_mu`: half of them squared, an odd one last; errors only add."""
    if count == 1:
        return one
    half = _power(one, count >> 1)
    square = _product(half, half)
    return _product(square, one) if count & 1 else square


def _product(one: _Block, two: _Block) -> _Block:
    """Two blocks of releases as one, for `composed_mu`: masses of P and Q convolve, relative errors add up."""
    terms = min(one.p.size, two.p.size)
    error = (one.error + two.error) * (1 + 1e-6) + (terms + 2) * ROUNDING
    p = _convolved(one.p, two.p)
    mirrored = all(np.array_equal(own.p, own.q[::-1]) for own in (one, two))  # as votes are: half of the work
    return _Block(p, p[::-1] if mirrored else _convolved(one.q, two.q), error)


def _convolved(one: Long, two: Long) -> Long:
    """Masses convolved directly; a square in half the products, from its even and odd places, every term positive."""
    if one is not two or one.size < SHORT:
        return np.convolve(one, two)
    even, odd = one[::2], one[1::2]
    found = np.zeros(2 * one.size - 1, dtype=np.longdouble)
    found[::2][: 2 * even.size - 1] = _convolved(even, even)
    found[1::2] = 2 * np.convolve(even, odd)
    found[2::2][: 2 * odd.size - 1] += _convolved(odd, odd)
    return found


def _sums(mass: Long) -> Vector:
    """ln of the running sums of a block's masses, for `composed_mu`: the errors at the vertices of its curve."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.cumsum(mass)), dtype=np.float64)
