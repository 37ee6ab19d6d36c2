"""What [F]'s text says of one coordinate: Theorem 1 to section 4.5, its examples and remarks."""

from __future__ import annotations

from itertools import product
from math import comb, exp, log, log2

import numpy as np
from scipy.special import ndtr

from fedpriv._base.arrays import Vector
from fedpriv.accounting.published.discrete import agarwal_epsilon, agarwal_trials
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.mechanisms import (
    Binomial,
    BinomialNoise,
    Cldp,
    DiscreteGaussian,
    NoisySign,
    StochasticSign,
    Ternarize,
    Ternary,
)
from simulations.figures.checks import Claim
from simulations.reproduce.fdp._claim import SAME, held_claim, printed_number, slip_found

ALPHA = np.linspace(0, 1, 401)
SIGN, SPARSE = StochasticSign(clip=0.1, scale=0.25), Ternary(clip=0.1, spread=0.25, scale=0.5)
TERNGRAD = Ternarize(clip=0.1, scale=0.5)


def scalar_claims() -> list[Claim]:
    """In the order of the paper."""
    return [
        *_theorem_1(),
        _corollary_1(),
        *_remark_4(),
        *_section_4_2(),
        *_section_4_3(),
        *_section_4_4(),
        *_section_4_5(),
    ]


def binomial_law(trials: int, p: float) -> Vector:
    """Bin(M, p) by its definition: a route that shares nothing with the mechanisms'."""
    return np.array([comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(trials + 1)])


def _theorem_1() -> list[Claim]:
    """The claims of [F]'s Theorem 1 and Remarks 1 to 3, each checked by numbers of ours."""
    p, q = binomial_law(2, 0.3), binomial_law(2, 0.6)  # Q/P rises: part (2)
    above, up_to = 1 - np.cumsum(p), np.cumsum(p)
    curve, at = Tradeoff.between(p, q), 0.2

    def line(k: int, alpha: float) -> float:
        """One of Theorem 1's lines under the tradeoff curve, by its k."""
        return float(q[: k + 1].sum() + q[k] / p[k] * (above[k] - alpha))

    printed = [k for k in range(3) if above[k] < at <= up_to[k]]
    meant = [k for k in range(3) if above[k] < at <= above[k] + p[k]]
    lines = np.array([[line(k, alpha) for alpha in ALPHA] for k in range(3)])
    gap = float(np.abs(np.maximum(lines.max(axis=0), 0) - curve(ALPHA)).max())
    same, moved = (DiscreteGaussian(clip=1, levels=2, noise=2).between(0, end) for end in (0, 1))
    v = np.arange(-60, 62)  # its curve for inputs a step apart is that of sums of its law, by definition
    noise, shifted = (np.exp(-((v - end) ** 2) / (2 * 2.0**2)) for end in (0, 1))
    alpha, beta = 1 - np.cumsum(noise) / noise.sum(), np.cumsum(shifted) / shifted.sum()
    inside = (alpha > 0) & (alpha < 1)
    apart = float(np.abs(moved(alpha[inside]) - beta[inside]).max())
    return [
        slip_found(
            "Theorem 1, (8)", "α ∈ (P(X > k), P(X ≤ k)] names one k for each α",
            published="one k", ours=f"k = {printed} at α = {at}: Bin(2, .3) against Bin(2, .6)",
            right=f"P(X ≥ k), as in the appendix: k = {meant}, β = {line(meant[0], at):.6f}",
            false=printed != meant, proved=abs(line(meant[0], at) - curve(at)) < SAME,
        ),
        held_claim("Remark 2", "each k's line bounds β from below, and the highest of them is β",
                   f"within {max(gap, 1e-16):.0e}", gap < SAME),
        held_claim("Remark 3", "the discrete Gaussian's ratio rises: β = P(Y ≤ v) at α = P(X > v)",
                   f"within {max(apart, 1e-16):.0e}", apart < 1e-10 and same.advantage < SAME),
    ]  # fmt: skip


def _remark_4() -> list[Claim]:
    """The claims of [F]'s Corollary 1 and Remark 4, on binomial noise of any bias."""
    fair = BinomialNoise(clip=1, levels=8, trials=40).between(-1, 1)
    gap = float(np.abs(fair(ALPHA) - fair.inverse(ALPHA)).max())
    cases = []
    for trials, levels, alpha, p in ((2, 1, 0.25, 0.45), (20, 3, 0.13, 0.475)):
        best, other = (_smaller(trials, levels, each, alpha) for each in (0.5, p))
        cases.append(slip_found(
            "Remark 4", f"p = ½ maximises β⁺, β⁻ and f: M = {trials}, l = {levels}, α = {alpha:g}",
            published="holds", ours=f"f = {best:.4f} at ½, {other:.4f} at {p:g}",
            right="½ is the best at the ends of the curve, and nearly so elsewhere where M is large",
            false=other > best, proved=_smaller(trials, levels, p, 1e-4) <= _smaller(trials, levels, 0.5, 1e-4),
        ))  # fmt: skip
    return [held_claim("Remark 4", "β⁺ = β⁻ at p = ½", f"within {max(gap, 1e-16):.0e}", gap < SAME), *cases]


def _smaller(trials: int, levels: int, p: float, alpha: float) -> float:
    """f = min(β⁺, β⁻) of binomial noise, (9)."""
    law = np.concatenate([binomial_law(trials, p), np.zeros(levels)])
    curve = Tradeoff.between(law, np.roll(law, levels))
    return float(min(curve(alpha), curve.inverse(alpha)))


def _corollary_1() -> Claim:
    """Its ratio of chances of outcome k for inputs x > x′, with N = 100 users and with M = 5 trials."""
    trials, x, other, k, p = 5, 2, 0, 3, 0.4
    law = binomial_law(trials, p)
    exact = float(law[k - other] / law[k - x])
    printed, meant = (
        (n - k + other + 1) * (n - k + x) / ((k - x + 1) * (k - other)) * ((1 - p) / p) ** (other - x)
        for n in (100, trials)
    )
    return slip_found(
        "Corollary 1, (49), (50)", "P(Y = k)/P(X = k) of M = 5, p = .4, x = 2, x′ = 0, k = 3, 100 users",
        published=f"{printed:.4f}", ours=f"{exact:.4f}", right="M in the place of N",
        false=abs(printed - exact) > SAME,
        proved=abs(meant - exact) < SAME,
    )  # fmt: skip


def _section_4_2() -> list[Claim]:
    """The claims of [F]'s section 4.2, on binomial noise beside Agarwal et al. 2018."""
    least = agarwal_trials(1.0, 0.5, 1, 8)
    delta = 10 * exp(-500 / 4 / 23)  # from M/4 = 23 ln(10/δ)
    theirs, one = (agarwal_epsilon(500, 0.5, 0.044, shift=(level,) * 3) for level in (8, 1))
    noise = {level: BinomialNoise(clip=1, levels=level, trials=500).tradeoff() for level in (8, 10, 11, 12)}
    own, few = noise[8], BinomialNoise(clip=1, levels=8, trials=9).tradeoff()
    law = np.array([comb(500, k) / 2**500 for k in range(501)])  # outcome by outcome, from ratios of whole numbers
    p, q = np.concatenate([law, np.zeros(8)]), np.concatenate([np.zeros(8), law])
    summed = float(np.maximum(q - exp(1.67) * p, 0).sum())
    near = ", ".join(f"{noise[level].delta(1.67):.4f} at l = {level}" for level in (10, 11, 12))
    return [
        printed_number("Section 4.2", "trials that Agarwal et al. 2018 need at p = ½, whatever δ", "212",
                       np.ceil(least), within=0),
        printed_number("Section 4.2", "the smallest δ that M = 500 allows there", "0.044", delta, within=5e-4,
                       shown=".5f"),
        slip_found(
            "Section 4.2", "ε of Agarwal et al. 2018, Theorem 1, at M = 500, δ = .044, l = 8", published="3.18",
            ours=f"{theirs:.4f}", right=f"{theirs:.2f}; 3.18 takes l = {3.18 / one:.2f}, which is no whole number",
            false=abs(theirs - 3.18) > 0.005, proved=abs(8 * one - theirs) < SAME,  # it is linear in l
        ),
        printed_number("Section 4.2", "the smallest δ of M = 500, l = 8, rounded up", "4.61e-136", own.delta(np.inf),
                       within=1e-138),
        slip_found(
            "Section 4.2", "δ at ε = 1.67, M = 500, l = 8", published="0.039", ours=f"{own.delta(1.67):.6f}",
            right=f"no l has it: {near}", false=abs(own.delta(1.67) - 0.039) > 5e-4,
            proved=abs(own.delta(1.67) - summed) < SAME,
        ),
        held_claim("Section 4.2", "some (ε, δ) for every M > l: M = 9, l = 8",
                   f"δ = {few.delta(np.inf):.4f} at a finite ε",
                   few.delta(np.inf) < 1),
    ]  # fmt: skip


def _section_4_3() -> list[Claim]:
    """The claims of [F]'s section 4.3, on votes: Remarks 5 and 6, Examples 1 and 2."""
    mirrored = Binomial(clip=0.1, scale=1, trials=16).tradeoff()
    gap = float(np.abs(mirrored(ALPHA) - mirrored.inverse(ALPHA)).max())
    theta, clip, votes, n = 0.1, 1.0, 16, 7
    totals = np.arange(votes * n + 1)
    means = clip / (votes * n * theta) * (totals - votes * n / 2)
    apart = float(np.abs(Binomial(clip=clip, scale=clip / (2 * theta), trials=votes).decode(totals, n) - means).max())
    wide = Binomial(clip=1, scale=1 / (2 * 0.4), trials=4).tradeoff()
    rise = (0.25 + 0.1) / (0.25 - 0.1)
    drawn = Cldp(clip=0.1, epsilon=1.0)
    x = np.linspace(-0.1, 0.1, 9)
    asked = 0.5 + x / 0.2 * (np.e - 1) / (np.e + 1)
    kept = np.e / (np.e + 1)  # randomised response on the sign drawn with A = c
    answered = (0.1 + x) / 0.2 * kept + (0.1 - x) / 0.2 * (1 - kept)
    return [
        held_claim("Remark 5", "β⁺ = β⁻ where p_max = 1 − p_min", f"within {max(gap, 1e-16):.0e}", gap < SAME),
        held_claim("Remark 6", "μ̂ of the Poisson binomial mechanism is our decoder at B = c/2θ",
                   f"within {max(apart, 1e-16):.0e}", apart < SAME),
        held_claim("Remark 6", "it needs no θ ≤ ¼: θ = .4, M = 4", f"ε = {wide.epsilon(0.0):.4f}",
                   abs(wide.epsilon(0.0) - 4 * log(0.9 / 0.1)) < 1e-9),
        slip_found(
            "Example 1, (16); Example 2, (18)", "β = 1 − (A + c)/(A − c)·α up to α = (A + c)/2A: c = .1, A = .25",
            published="a tradeoff function", ours=f"β = {1 - rise * 0.5:.4f} at α = .5",
            right=f"the lines meet at (A − c)/2A = .3: β = {(1 - 0.5) / rise:.4f}",
            false=1 - rise * 0.5 < 0, proved=abs(SIGN.tradeoff()(0.5) - 0.5 / rise) < SAME,
        ),
        held_claim("Example 1", "sto-sign is (ln((A + c)/(A − c)), 0)-DP", f"ε = {SIGN.tradeoff().epsilon(0.0):.9f}",
                   abs(SIGN.tradeoff().epsilon(0.0) - log(rise)) < 1e-9, f"{log(rise):.9f}"),
        held_claim("Example 2", "CLDP∞(ε) is sto-sign with A = c(e^ε + 1)/(e^ε − 1), and (ε, 0)-DP",
                   f"ε = {drawn.tradeoff().epsilon(0.0):.9f} of 1",
                   abs(drawn.tradeoff().epsilon(0.0) - 1) < 1e-9 and bool(np.allclose(drawn.chance(x), asked, SAME))),
        held_claim("Example 2", "it is sto-sign with A = c, then randomised response", "the same chances",
                   float(np.abs(answered - asked).max()) < SAME),
    ]  # fmt: skip


def _section_4_4() -> list[Claim]:
    """The claims of [F]'s section 4.4, on three symbols: Examples 3 and 4, Remarks 7 and 8."""
    sparse, sign = SPARSE.tradeoff(), SIGN.tradeoff()
    gain = sparse(ALPHA) - sign(ALPHA)
    inside = (ALPHA > 0.15 / 1 + 1e-9) & (ALPHA < 1 - 0.35 - 1e-9)
    at_ln_2 = sparse.delta(log(2)), sign.delta(log(2))
    pairs = list(product(np.linspace(-0.1, 0.1, 25), repeat=2))
    seen = min(float((TERNGRAD.between(x, y)(ALPHA) - np.maximum(0.8 - ALPHA, 0)).min()) for x, y in pairs)
    scaled = _terngrad_between((0.1, 0.05), (0.05, 0.025))
    return [
        slip_found(
            "Example 3", "A > B > c", published="B = .25, A = .5, c = .1", ours=f"p₀ = 1 − A/B = {1 - 0.5 / 0.25:g}",
            right="B > A > c", false=1 - 0.5 / 0.25 < 0, proved=abs(SPARSE.plus(np.zeros(1))[0] * 2 - 0.5) < SAME,
        ),
        held_claim("Remark 7",
                   "ternary is above sto-sign inside [(A − c)/2B, 1 − (A + c)/2B], and equal to it elsewhere",
                   f"by up to {gain.max():.4f}",
                   bool((gain[inside] > 0).all() and np.abs(gain[~inside]).max() < SAME)),
        printed_number("Remark 7", "ε of both at δ = 0, ln(7/3)", "0.847297860387", sparse.epsilon(0.0),
                       within=1e-11, shown=".12f"),
        printed_number("Remark 7", "δ of ternary at ε = ln 2", "0.05", at_ln_2[0], within=SAME, shown=".12g"),
        held_claim("Remark 7", "sto-sign is not (ln 2, .05)-DP", f"δ = {at_ln_2[1]:.12g}",
                   abs(at_ln_2[1] - 0.1) < SAME, "δ > 0.05"),
        slip_found(
            "Example 4", "ternarize is of Theorem 4, whose p₀ is independent of x", published="p₀ the same for all x",
            ours=f"p₀ = 1 at x = 0, {1 - 0.1 / 0.5:g} at x = c = .1, B = .5",
            right=f"(24) holds all the same: of {len(pairs)} pairs x, x′ none is below it", false=1 - 0.1 / 0.5 != 1,
            proved=-SAME < seen < SAME,
        ),
        printed_number("Example 4", "δ of ternarize at ε = 0, c/B at c = .1, B = .5", "0.2",
                       TERNGRAD.tradeoff().delta(0.0), within=SAME),
        held_claim("Remark 8", "TernGrad's scaling gives the magnitude away", f"advantage {scaled.advantage:g}",
                   scaled.advantage == 1.0),
    ]  # fmt: skip


def _terngrad_between(*inputs: tuple[float, float]) -> Tradeoff:
    """TernGrad of two vectors: s·sign(x_j) with probability |x_j|/s, s the largest |x_j|, which is sent along."""
    laws: list[dict[tuple[float, ...], float]] = []
    for x in inputs:
        scale, law = max(map(abs, x)), dict[tuple[float, ...], float]()
        for sent in product((0, 1), repeat=len(x)):
            chances = [abs(v) / scale if bit else 1 - abs(v) / scale for v, bit in zip(x, sent, strict=True)]
            law[scale, *(scale * bit for bit in sent)] = float(np.prod(chances))
        laws.append(law)
    outcomes = sorted({*laws[0], *laws[1]})
    return Tradeoff.between(*([law.get(each, 0.0) for each in outcomes] for law in laws))


def _section_4_5() -> list[Claim]:
    """The claims of [F]'s section 4.5, on signs with noise and without."""
    plain = Tradeoff.between(*([x > 0, x <= 0] for x in (0.1, -0.1)))
    one, printed, meant = Tradeoff.gaussian(1.0), NoisySign(clip=1, noise=1), NoisySign(clip=1, noise=2)
    below = float((printed.tradeoff()(ALPHA) - one(ALPHA)).min())
    order = float((meant.tradeoff()(ALPHA) - one(ALPHA)).min())
    chance = float(meant.chance(np.ones(1))[0])
    bits = {own.trials: own.entropy for own in (Binomial(clip=1, scale=2, trials=m) for m in (1, 16))}
    return [
        held_claim("Section 4.5", "sign(x) alone hides nothing where x·x′ < 0", f"advantage {plain.advantage:g}",
                   plain.advantage == 1),
        slip_found(
            "Section 4.5, (25)", "noise of variance 4c²σ² gives p = Φ(c/σ): c = σ = 1", published=f"{ndtr(1):.6f}",
            ours=f"{chance:.6f}; with Φ(c/σ) the sign is {-below:.4f} below the Gaussian it is made of",
            right="Φ(1/2σ): then NoisySign ≥ Gaussian at every α", false=below < -SAME,
            proved=bool(abs(chance - ndtr(0.5)) < SAME and order > -SAME),
        ),
        slip_found(
            "Theorem 5", "the binomial mechanism takes log(M) bits",
            published=f"{log2(1):g} at M = 1, {log2(16):g} at M = 16",
            ours=f"{log2(2):g} and {log2(17):.4f}", right="M + 1 symbols: log₂(M + 1) bits, "
            f"{bits[1]:.4g} and {bits[16]:.4g} of entropy", false=log2(2) > log2(1),
            proved=abs(bits[1] - 1) < SAME and bits[16] < log2(17),
        ),
        slip_found(
            "Theorem 6", "the ternary compressor takes A/B bits: A = .25, B = .5", published="0.5",
            ours=f"{SPARSE.entropy:.4f} of entropy", right="H(A/B) + A/B", false=SPARSE.entropy > 0.5 + SAME,
            proved=abs(SPARSE.entropy - 1.5) < SAME,
        ),
    ]  # fmt: skip
