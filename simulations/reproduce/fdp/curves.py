"""[F] Figures 2, 3 and 4: tradeoff curves of binomial noise, of the ternary compressor and of noisy signs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from math import log

import numpy as np

from fedpriv._base.arrays import Vector
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.mechanisms import BinomialNoise, NoisySign, StochasticSign, Ternary
from simulations.figures.checks import Check
from simulations.figures.curves import COLOURS
from simulations.figures.panels import DASHED, DOTTED, Line, Panel, tradeoff_panel
from simulations.reproduce.fdp import _formulas as formulas

ALPHA = np.unique(np.concatenate((np.linspace(0, 1, 1001), np.geomspace(1e-6, 0.1, 200))))
SAME = 1e-12  # between two routes to one curve
Figure = tuple[list[Panel], list[Check]]


def figure_2() -> Figure:
    """[F] Figure 2 drawn anew and checked: tradeoff curves of binomial noise, l = 8, p = ½, M varied."""
    curves = {m: BinomialNoise(clip=1, levels=8, trials=m).tradeoff() for m in (20, 50, 100, 200, 500)}
    own = zip(curves.items(), COLOURS, strict=True)
    lines = [Line(f"M = {m}", ALPHA, curve(ALPHA), colour) for (m, curve), colour in own]
    smallest, at = curves[500].delta(np.inf), curves[500].delta(1.67)
    checks = [
        *(same_curve(f"curve of Theorem 2, M = {m}", curve, partial(formulas.theorem_2, trials=m, levels=8))
          for m, curve in curves.items()),
        check_rising("a larger M gives more privacy, at every α", [line.y for line in lines]),
        Check(claim="smallest δ of a finite ε, M = 500", published="4.61e-136", ours=f"{smallest:.6g}",
              agrees=abs(smallest / 4.61e-136 - 1) < 2e-3),
        Check(claim="δ at ε = 1.67, M = 500", published="0.039", ours=f"{at:.12g}", agrees=abs(at - 0.039) < 5e-4,
              right=abs(at - 0.00525787631698) < 1e-12, why="its (1.67, 0.039) is not that of l = 8"),
    ]  # fmt: skip
    return [tradeoff_panel("Binomial noise, l = 8, p = ½", lines)], checks


def figure_3() -> Figure:
    """[F] Figure 3 drawn anew and checked: ternary compressor beside stochastic sign, c = .1, A = .25, B = .5."""
    sparse, sign = Ternary(clip=0.1, spread=0.25, scale=0.5).tradeoff(), StochasticSign(clip=0.1, scale=0.25).tradeoff()
    lines = [
        Line("ternary(x, A, B)", ALPHA, sparse(ALPHA), COLOURS[0]),
        Line("sto-sign(x, A)", ALPHA, sign(ALPHA), COLOURS[1]),
    ]
    gained = (ALPHA, lines[1].y, lines[0].y, "what sending nothing half of the time hides")
    pure = log(7 / 3)
    at_ln_2 = sign.delta(log(2))
    checks = [
        same_curve("curve of the ternary compressor, (22)", sparse, lambda x: formulas.ternary(x, 0.1, 0.25, 0.5)),
        same_curve("curve of the stochastic sign, (16)", sign, lambda x: formulas.stochastic_sign(x, 0.1, 0.25)),
        check_rising("the ternary compressor gives more privacy, at every α", [lines[1].y, lines[0].y]),
        check_number("pure ε of the ternary compressor, ln(7/3)", pure, sparse.epsilon(0.0)),
        check_number("pure ε of the stochastic sign, ln(7/3)", pure, sign.epsilon(0.0)),
        check_number("δ at ε = ln 2, ternary compressor", 0.05, sparse.delta(log(2))),
        Check(claim="δ at ε = ln 2, stochastic sign", published="> 0.05", ours=f"{at_ln_2:.10g}",
              agrees=at_ln_2 > 0.05, right=abs(at_ln_2 - 0.1) < SAME),
    ]  # fmt: skip
    panel = tradeoff_panel("Sparsification, c = .1, A = .25, B = .5", lines)
    return [Panel(title=panel.title, x=panel.x, y=panel.y, lines=lines, between=gained)], checks


def figure_4() -> Figure:
    """[F] Figure 4 drawn anew and checked: noisy signs beside the Gaussian mechanism, c = σ = μ = 1."""
    gaussian = Tradeoff.gaussian(1.0)
    printed, meant = NoisySign(clip=1, noise=1).tradeoff(), NoisySign(clip=1, noise=2).tradeoff()
    epsilon, delta = formulas.gaussian_epsilon_delta(1.0)
    approximate = formulas.approximate(ALPHA, epsilon, delta)
    lines = [
        Line("NoisySign, noise 2cσ: Φ(1/2σ)", ALPHA, meant(ALPHA), COLOURS[0]),
        Line("Gaussian noise, μ = 1", ALPHA, gaussian(ALPHA), COLOURS[2]),
        Line(f"(ε, δ) = ({epsilon:.2f}, {delta:.4f})", ALPHA, approximate, COLOURS[3], DOTTED),
        Line("NoisySign as printed, (25): Φ(c/σ)", ALPHA, printed(ALPHA), COLOURS[1], DASHED),
    ]
    lowest = float((printed(ALPHA) - gaussian(ALPHA)).min())
    order = "NoisySign ≥ Gaussian ≥ (ε, δ), at every α"
    checks = [
        same_curve("curve of (25), Φ(c/σ)", printed, lambda alpha: formulas.noisy_sign(alpha, 1.0)),
        same_curve("curve of (25), Φ(1/2σ)", meant, lambda alpha: formulas.noisy_sign(alpha, 0.5)),
        check_number("δ of the Gaussian at that ε", delta, gaussian.delta(epsilon)),
        Check(claim=f"{order}, Φ(c/σ) as printed", published="holds", ours=f"{-lowest:.4f} below it",
              agrees=lowest >= -SAME,
              why="Φ(c/σ) is noise of deviation σ, which is 2-GDP; Algorithm 3 has deviation 2cσ, which gives Φ(1/2σ)"),
        check_rising(f"{order}, Φ(1/2σ)", [approximate, gaussian(ALPHA), meant(ALPHA)]),
        check_number("μ of NoisySign, noise 2cσ (the Gaussian's)", 1.0, meant.mu),
    ]  # fmt: skip
    return [tradeoff_panel("The sign of noisy data, c = σ = μ = 1", lines)], checks


def same_curve(claim: str, ours: Tradeoff, formula: Callable[[Vector], Vector]) -> Check:
    """A check that our tradeoff curve is that of [F]'s closed form, at every α of the figure."""
    gap = float(np.abs(ours(ALPHA) - formula(ALPHA)).max())
    return Check(claim=claim, published="closed form", ours=f"within {max(gap, 1e-16):.0e}", agrees=gap < SAME)


def check_rising(claim: str, curves: list[Vector]) -> Check:
    """A check of [F]'s claim that each of some tradeoff curves is nowhere below the one before."""
    least = min(float((above - below).min()) for below, above in pairwise(curves))
    words = "holds" if least >= -SAME else f"fails by {-least:.2g}"
    return Check(claim=claim, published="holds", ours=words, agrees=least >= -SAME)


def check_number(claim: str, published: float, ours: float) -> Check:
    """A check that a number of [F] and ours are the same."""
    return Check(claim=claim, published=f"{published:.10g}", ours=f"{ours:.10g}", agrees=abs(ours - published) < 1e-9)
