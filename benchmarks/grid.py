"""What noise on a grid gives away and what it costs: `python -m benchmarks.grid [coordinates]`.

The attack on float noise that docs/proofs/grid.md tells of, on released sums of both sides; the price of rounding,
exact; and the time of a draw beside numpy's on the same generator.
"""

from __future__ import annotations

import sys
from math import exp, sqrt
from time import process_time
from typing import Any

import numpy as np
from scipy.special import ndtr

from fedpriv.randomness.streams import stream
from fedpriv.randomness.wide import rounded_real
from fedpriv.releases import Batch, DpSgd

AT_ONCE = 1_000_000
SIDES = {"absent": 1 - 2.0**-20, "present": 1 + 2.0**-19}  # of a canary: sums on either side of 1
NEAR = 2.0**-22


def parity(coordinates: int, near: float = NEAR) -> dict[str, Any]:
    """How many released coordinates are near 0, and how many of them are odd, with independent noise on both sides.

    Odd multiples of 2⁻⁵³ are what told a sum below 1 from one above it where noise was of floats.
    """
    release = DpSgd(clip=2.0, noise=0.5, sampling=1.0)
    seen, bits, steps = (dict.fromkeys(SIDES, 0) for _ in range(3))
    for side, total in SIDES.items():
        for begun in range(0, coordinates, AT_ONCE):
            size = min(AT_ONCE, coordinates - begun)
            row = np.full((1, size), total, np.float32)
            batch = Batch(
                row, np.ones(1), np.arange(1), 1.0
            )  # alike in every coordinate: no clipping, as others' cancel
            released = release.released(batch, stream(1, f"parity {side}", begun // AT_ONCE)).total
            low = released[np.abs(released) < near]
            seen[side] += low.size
            bits[side] += int((np.rint(low * 2.0**53) % 2 != 0).sum())
            steps[side] += int((np.rint(low / release.fine.step) % 2 != 0).sum())
    apart = {name: (a - b) / sqrt(max(a + b, 1)) for name, (a, b) in
             {"seen": seen.values(), "odd steps": steps.values()}.items()}  # fmt: skip
    return {"seen": seen, "odd bits": bits, "odd steps": steps, "z of seen": apart["seen"],
            "z of odd steps": apart["odd steps"]}  # fmt: skip


def price(scale: float, away: int, epsilon: float) -> dict[str, float]:
    """δ of a shift by so many steps: of real noise, of the same rounded, of the discrete Gaussian of that parameter."""
    k = np.arange(-int(60 * scale), int(60 * scale) + away + 1)

    def stick(p: Any, q: Any) -> float:
        return float(np.maximum(q - exp(epsilon) * p, 0).sum())

    cells = [ndtr((k + 0.5 - moved) / scale) - ndtr((k - 0.5 - moved) / scale) for moved in (0, away)]
    heights = [np.exp(-(((k - moved) / scale) ** 2) / 2) for moved in (0, away)]
    shift = away / scale
    real = float(ndtr(shift / 2 - epsilon / shift) - exp(epsilon) * ndtr(-shift / 2 - epsilon / shift))
    return {"real": real, "rounded": stick(*cells), "discrete": stick(*(height / height.sum() for height in heights))}


def nanoseconds(count: int = 1 << 22) -> dict[str, tuple[float, float]]:
    """Of a draw, ours and numpy's, side by side on Philox: the best of five, in CPU time."""
    rng, found = stream(1, "speed"), {}
    for name, power, theirs in (("Gaussian", 2, rng.normal), ("Laplace", 1, rng.laplace)):
        law = rounded_real(1.37 * 2.0**26, 2 if power == 2 else 1)
        times = [
            (_time(lambda law=law: law.draw(count, rng)), _time(lambda f=theirs: f(0, 1, count))) for _ in range(5)
        ]
        own, other = (min(column) / count * 1e9 for column in zip(*times, strict=True))
        found[name] = own, other
    return found


def _time(what: Any) -> float:
    begun = process_time()
    what()
    return process_time() - begun


def main() -> None:
    """All three, in words."""
    coordinates = int(float(sys.argv[1])) if len(sys.argv) > 1 else 10**8
    for name, (own, numpy) in nanoseconds().items():
        print(f"{name}: {own:.1f} ns a draw on the grid, {numpy:.1f} ns by numpy")
    for scale, away, epsilon in ((3.0, 3, 1.0), (1024.0, 1024, 1.0)):
        own = price(scale, away, epsilon)
        print(f"σ = {scale:g} h, shift {away} h: δ({epsilon:g}) = " + ", ".join(f"{v:.9f} {n}" for n, v in own.items()))
    print(f"parity, {coordinates:,} coordinates a side, |v| < 2^-22:")
    for name, value in parity(coordinates).items():
        print(f"  {name}: {value if isinstance(value, dict) else round(value, 2)}")


if __name__ == "__main__":
    main()
