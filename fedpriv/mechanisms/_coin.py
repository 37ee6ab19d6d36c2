"""The coin of propose-test-release: a test that passes by an exact coin, its chance a function of the margin alone.

p_m = Φ(Φ⁻¹(δ₀) + m·μ) for margins m up to F, with μ = −2Φ⁻¹(δ₀)/F: δ₀ at m = 0, 1 − δ₀ at F and past it. Each chance
is stated by its rarer side, a float that is drawn and costed as it is. Proofs: docs/proofs/testing.md.
"""

from __future__ import annotations

from math import log, log1p
from typing import NamedTuple

from scipy.special import ndtr, ndtri

DOUBT = 2.0**-44  # relative: by which Φ of another machine's library may differ


class Coin(NamedTuple):
    """What PTR's coin shows at one margin: the rarer of its two sides, and how likely that is, the very float drawn."""

    passes: bool  # whether the rarer side lets the trimmed sum through
    chance: float  # at most ½


def coin_step(failure: float, trimmed: int) -> float:
    """μ of PTR's coin between δ₀ and 1 − δ₀ in F steps: what one record may move it by, in Gaussian DP.

    A chance that is off by `DOUBT` of itself moves Φ⁻¹ by less than 16 · DOUBT, which is counted in.

    >>> round(coin_step(1e-8, 36), 4)
    0.3118
    """
    return -2 * float(ndtri(failure)) / trimmed + 16 * DOUBT


def coin_at(failure: float, trimmed: int, margin: int) -> Coin:
    """PTR's coin at a margin, which counts up to F: its rarer side and that one's chance, a float to be drawn exactly.

    >>> coin_at(1e-8, 36, 0), coin_at(1e-8, 36, 40)
    (Coin(passes=True, chance=1e-08), Coin(passes=False, chance=1e-08))
    """
    own = min(margin, trimmed)
    passes = 2 * own <= trimmed
    steps = own if passes else trimmed - own  # from the nearer end
    chance = min(float(ndtr(ndtri(failure) * (1 - 2 * steps / trimmed))), 0.5) if steps else failure
    return Coin(passes, chance)


def log_coin(coin: Coin) -> tuple[float, float]:
    """ln of the chances that PTR's coin passes and fails."""
    own, other = log(coin.chance), log1p(-coin.chance)
    return (own, other) if coin.passes else (other, own)
