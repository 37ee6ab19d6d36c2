"""What [F]'s text says of vectors, of rounds, and of sums: section 6.1, Lemma 2, appendix B."""

from __future__ import annotations

from itertools import product
from math import log, sqrt

import numpy as np

from fedpriv._base.arrays import Vector
from fedpriv.accounting.published import clt_mu, subsampled_mu
from fedpriv.bounds.sums import published_epsilon
from fedpriv.bounds.vectors import published_theorem_7, theorem_a
from fedpriv.curves.compose import compose
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.mechanisms import StochasticSign
from simulations.figures.checks import Claim
from simulations.reproduce.fdp._claim import SAME, held_claim
from simulations.reproduce.fdp._claims_scalar import ALPHA, binomial_law


def vector_claims() -> list[Claim]:
    """In the order of the paper."""
    return [*_theorem_7(), *_many_rounds(), *_theorem_9()]


def _theorem_7() -> list[Claim]:
    """The claims of [F]'s Theorem 7 and Remark 12, on vectors."""
    once = log(10.1 / 9.9)  # one vote of c = .1, B = 10
    few, many = published_theorem_7(once, 100), published_theorem_7(once, 100_000)
    curve = StochasticSign(clip=0.1, scale=10).tradeoff()
    three = compose([(curve, 3)]).delta(0.0).upper
    ours = theorem_a(clip=0.1, peak=0.1, scale=10)
    return [
        held_claim("Theorem 7", "its μ for c/B = .01, M = 1, d = 100 and 100,000", f"{few:.3f} and {many:.2f}",
                   abs(few - 2.358) < 5e-4 and abs(many - 126.33) < 5e-3, "−2Φ⁻¹(1/(1 + e^{dε}))"),
        held_claim("Theorem 7", "one coordinate, one vote: the smallest μ there is",
                   f"within {abs(published_theorem_7(once, 1) - curve.mu):.0e}",
                   abs(published_theorem_7(once, 1) - curve.mu) < 1e-10),
        held_claim("Theorem 7", "three coordinates: the curve is nowhere below G_μ", f"advantage {three:.6f}",
                   three <= Tradeoff.gaussian(published_theorem_7(once, 3)).advantage),
        held_claim("Remark 12", "some privacy is lost by counting every coordinate at c, where ‖x‖₂ ≤ c",
                   f"μ = {ours:.6f} at any d, where it has {many:.2f} at d = 100,000", ours < many),
    ]  # fmt: skip


def _many_rounds() -> list[Claim]:
    """The claims of [F]'s Remark 13 and Lemma 2, on many rounds."""
    limit = clt_mu([0.55, 0.45], [0.45, 0.55], 100)
    low, high = binomial_law(100, 0.45), binomial_law(100, 0.55)  # the number of votes says all
    whole = Tradeoff.between(low, high)
    rate, mu = 0.01, 1.0
    asymptotic = Tradeoff.gaussian(subsampled_mu(mu, rate, 100)).epsilon(1e-5)
    sampled = compose([(Tradeoff.gaussian(mu).subsampled(rate, "replace"), 100)]).epsilon(1e-5)
    return [
        held_claim("Remark 13", "the central limit describes 100 votes well: c = .1, A = 1",
                   f"μ = {limit:.6f}, the smallest there is {whole.mu:.6f}", abs(limit / whole.mu - 1) < 1e-4),
        held_claim("Lemma 2, (27)", "asymptotically: 100 steps of μ = 1 on a hundredth of the records",
                   f"ε = {asymptotic:.4f} at δ = 1e-5, certified {sampled.upper:.4f}: a limit, no guarantee",
                   asymptotic < sampled.lower, "no rate of convergence"),
    ]  # fmt: skip


def _sum_law(chances: Vector) -> Vector:
    """The law of a sum of votes, one client's chance given and the others', by convolution."""
    law = np.ones(1)
    for p in chances:
        law = np.convolve(law, [1 - p, p])
    return law


def _theorem_9() -> list[Claim]:
    """The claims of [F]'s Theorem 9 and Appendix B, on votes in a sum."""
    low, high = 0.2, 0.6
    chords = Tradeoff.between([low, 1 - low], [high, 1 - high])
    least = min(
        float((Tradeoff.between(_sum_law(np.array([x, *others])), _sum_law(np.array([y, *others])))(ALPHA)
               - np.minimum(chords(ALPHA), chords.inverse(ALPHA))).min())
        for others in product((low, 0.4, high), repeat=3) for x, y in ((low, high), (high, low), (low, 0.4))
    )  # fmt: skip
    five = [float(np.log(binomial_law(5, a) / binomial_law(5, b)).max()) for a, b in ((low, high), (high, low))]
    return [
        held_claim("Theorem 9", "ε of p in [.2, .6], ln 3", f"{published_epsilon(low, high):.11f}",
                   abs(published_epsilon(low, high) - log(3)) < SAME,
                   f"{log(3):.11f}"),
        held_claim("Theorem 9", "no data of four clients are below f_pb", "none", least > -SAME),
        held_claim("Appendix B", "M > 1 follows by the same technique: M = 5",
                   f"ε = {published_epsilon(low, high, 5):.6f}, the largest ratio of chances",
                   abs(max(five) - published_epsilon(low, high, 5)) < 1e-12 * sqrt(5)),
    ]  # fmt: skip
