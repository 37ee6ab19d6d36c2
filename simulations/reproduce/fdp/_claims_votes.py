"""What [F]'s text says of attackers and of convergence: sections 5 and 6.2, appendices A.8 and D."""

from __future__ import annotations

from math import sqrt

import numpy as np
from scipy.optimize import minimize_scalar

from fedpriv._base.arrays import Vector
from fedpriv.mechanisms import Binomial, Ternary
from fedpriv.tolerance import Vote
from simulations.figures.checks import Claim
from simulations.reproduce.fdp._claim import SAME, held_claim, slip_found
from simulations.reproduce.fdp._claims_scalar import binomial_law


def vote_claims() -> list[Claim]:
    """In the order of the paper."""
    return [*_section_5(), *_remarks_9_to_11(), *_theorem_8(), *_convergence(), *_appendix_d()]


def _votes(scale: float, trials: int, clip: float = 0.1) -> Binomial:
    """The vote of binomial messages that [F]'s theorems on attackers are checked on."""
    return Binomial(clip=clip, scale=scale, trials=trials)


def _exact(mechanism: Binomial | Ternary, honest: int = 100, probability: float | None = None) -> int:
    """The attackers that such a vote survives, counted exactly."""
    return Vote(mechanism=mechanism, honest=honest, mean=0.1, probability=probability).exact or 0


def _section_5() -> list[Claim]:
    """The claims of [F]'s section 5 on bits and blind attackers: Theorems 5 and 6."""
    x = np.array([-1.0, -1.0, 5.0])
    spread, scale, mean, honest = 0.005, 1.0, 0.0049, 100
    sparse = Ternary(clip=mean, spread=spread, scale=scale)
    bound = _theorem_11_bound(honest, mean / scale, spread / scale, mean / scale)
    right = float(Vote(mechanism=sparse, honest=honest, mean=mean).chances([0])[0][0])
    plus, minus = (float(each(np.array([mean]))[0]) for each in (sparse.plus, sparse.minus))
    law = np.ones(1)
    for _ in range(honest):
        law = np.convolve(law, [minus, 1 - plus - minus, plus])
    own = float(law[honest + 1 :].sum())  # P(more +1 than −1), by repeated convolution
    step = 1 - 0.5 ** (1 / honest)
    return [
        slip_found(
            "Section 5", "most of sign(x_i) is the sign of Σx_i more often than not: x = −1, −1, 5",
            published="P(wrong) < ½",
            ours=f"most say {np.sign(np.sign(x).sum()):+.0f}, the sum {np.sign(x.sum()):+.0f}: always wrong",
            right="it takes signs that are each right more often than not, as Bernstein et al. 2019 have them",
            false=bool(np.sign(np.sign(x).sum()) != np.sign(x.sum())),
        ),
        slip_found(
            "Theorem 6", f"K ≤ {bound:.2f} tolerated: N = 100, A = .005, B = 1, x̄ = .0049",
            published=f"P(right) > ½ at K ≤ {bound:.2f}",
            ours=f"P(right) = {right:.4f} at K = 0",
            right=f"squaring lost a sign: it also needs A/B ≥ 1 − 2^(−1/N) = {step:.5f}",
            false=bound > 0 and right < 0.5, proved=abs(own - right) < 1e-10 and spread / scale < step,
        ),
    ]  # fmt: skip


def _remarks_9_to_11() -> list[Claim]:
    """The claims of [F]'s Remarks 9 to 11, on what more noise does to the attackers survived."""
    by_scale = [_exact(_votes(b, 16)) for b in (0.5, 1.0, 2.0)]
    by_trials = [_exact(_votes(1.0, m)) for m in (1, 4, 16)]
    by_spread = [_exact(Ternary(clip=0.1, spread=a, scale=0.5)) for a in (0.105, 0.2, 0.3, 0.4, 0.495)]
    sparse = [_exact(Ternary(clip=0.1, spread=0.15, scale=b)) for b in (0.5, 0.75, 1.0)]
    bounds = [
        Vote(mechanism=_votes(1.0, 16), honest=n, mean=0.1).published[1] or 0.0 for n in (1000, 100_000, 10_000_000)
    ]
    shares = [bound / n for bound, n in zip(bounds, (1000, 100_000, 10_000_000), strict=True)]
    return [
        held_claim("Remark 9", "K falls with B: M = 16, N = 100, x̄ = .1", f"{by_scale}",
                   by_scale == sorted(by_scale, reverse=True)),
        held_claim("Remark 9", "K rises with M: B = 1, N = 100, x̄ = .1", f"{by_trials}",
                   by_trials == sorted(by_trials)),
        slip_found(
            "Remark 10", "K falls with A: B = .5, N = 100, x̄ = .1", published="holds",
            ours=f"K = {by_spread} at A = .105 … .495",
            right="only Theorem 6's bound falls: near the end the mean decides, K ≈ N − B/2x̄",
            false=by_spread[0] <= by_spread[-1] + 2, proved=max(by_spread) - min(by_spread) <= 2,
        ),
        held_claim("Remark 10", "K falls with B: A = .15, N = 100, x̄ = .1", f"{sparse}",
                   sparse == sorted(sparse, reverse=True)),
        held_claim("Remark 11", "K/N goes to 1: Theorem 5's at N = 1000, 10⁵, 10⁷",
                   ", ".join(f"{share:.4f}" for share in shares),
                   shares == sorted(shares) and shares[-1] > 0.99),
    ]  # fmt: skip


def wrong_or_tied(honest: int, attackers: int, sampled: float, trials: int, lean: float) -> float:
    """P(no more than half of the votes are right), each client there with its M votes or not: exact, by convolution."""
    size = 2 * trials * (honest + attackers) + 1
    found = np.ones(size // 2 + 1, dtype=complex)
    for count, p in ((honest, (1 + lean) / 2), (attackers, (1 - lean) / 2)):
        law = np.zeros(2 * trials + 1)
        law[::2] = sampled * binomial_law(trials, p)
        law[trials] += 1 - sampled
        found *= np.fft.rfft(law, size) ** count
    sums = np.fft.irfft(found, size)
    return float(sums[: trials * (honest + attackers) + 1].sum())


def printed_103(honest: int, attackers: int, sampled: float, trials: int, lean: float) -> float:
    """[F] (103), the expectation in Theorem 8's condition (2)."""
    clients = honest + attackers
    return float((1 - sampled + sampled * sqrt(1 - ((honest - attackers) * lean / clients) ** 2)) ** (clients * trials))


def client_bound(honest: int, attackers: int, sampled: float, trials: int, lean: float) -> float:
    """min over a of (1 − p_s + p_s·h^M)^N·(1 − p_s + p_s·k^M)^K: a client's votes are there together or not at all."""

    def exponent(a: float) -> float:
        """The exponent of a sound bound in Theorem 8's place, at a tilt."""
        own = [(np.cosh(a) - side * lean * np.sinh(a)) ** trials for side in (1, -1)]
        return float(sum(n * np.log1p(sampled * (h - 1)) for n, h in zip((honest, attackers), own, strict=True)))

    return float(np.exp(minimize_scalar(exponent, bounds=(0.0, 2.0), method="bounded").fun))


def _theorem_8() -> list[Claim]:
    """The claims of [F]'s Theorem 8 on votes cast by lot, its condition (103) beside the exact count."""
    found = []
    for case in ((100, 10, 0.05, 64, 0.3), (20, 2, 0.2, 64, 0.5), (5, 0, 0.2, 100, 0.9), (20, 0, 0.1, 16, 0.6)):
        exact, printed, mended = (f(*case) for f in (wrong_or_tied, printed_103, client_bound))
        n, k, p, m, lean = case
        found.append(slip_found(
            "Theorem 8, (103)", f"P(wrong): N = {n}, K = {k}, p_s = {p:g}, M = {m}, x̄/B = {lean:g}",
            published=f"≤ {printed:.2g}", ours=f"{exact:.6f}",
            right=f"a client's M votes stay away together: ≤ {mended:.4f} where all are at x̄, more where not",
            false=exact > printed, proved=exact <= mended * (1 + 1e-9),
        ))  # fmt: skip
    one = wrong_or_tied(100, 10, 0.5, 1, 0.3), printed_103(100, 10, 0.5, 1, 0.3)
    found.append(held_claim("Theorem 8, (103)", "P(wrong) at M = 1: N = 100, K = 10, p_s = .5, x̄/B = .3",
                            f"{one[0]:.6f}", one[0] <= one[1], f"≤ {one[1]:.3f}"))  # fmt: skip
    return found


def _convergence() -> list[Claim]:
    """The claims of [F]'s Theorem 8 on convergence: its last term, and (107)."""
    dimension, rounds = 100, 100
    step = 1 / sqrt(rounds)  # F = ‖w‖²/2, L = 1, F* = 0, and every vote right
    w: Vector = np.full(dimension, step / 2)
    start, slopes = float(w @ w) / 2, []
    for _ in range(rounds):
        slopes.append(float(np.abs(w).sum()))
        w = w - step * np.sign(w)
    left = float(np.mean(slopes))
    printed, meant = (start / sqrt(rounds) + d / (2 * sqrt(rounds)) for d in (1, dimension))
    cases = [(0.6 * 0.55, 0.4, +1), (0.6 * 0.45, 0.4, -1), (0.4, -0.5, -1)]  # chance, g, vote
    truth = np.sign(sum(p * g for p, g, _ in cases))
    one = sum(p for p, g, _ in cases if np.sign(g) != truth)
    two = sum(p for p, g, vote in cases if vote != np.sign(g))
    chance = sum(p for p, _, vote in cases if vote != truth)  # P(vote ≠ sign of E g), counted case by case
    product_form, both = one * (1 - 2 * two) + two, one + two  # what (107) makes of ρ₁ and ρ₂; their sum
    return [
        slip_found(
            "Theorem 8, (26), (108), (110)", "the last term is √L/2√T: F = ‖w‖²/2, d = T = 100, no vote wrong",
            published=f"left side ≤ {printed:.4f}", ours=f"left side {left:.4f}",
            right=f"d√L/2√T, as in (109): ≤ {meant:.4f}",
            false=left > printed, proved=left <= meant,
        ),
        slip_found(
            "Theorem 8, (107)",
            "p = ρ₁(1 − 2ρ₂) + ρ₂: g = .4 six times in ten, its vote wrong with .45; else −.5, never wrong",
            published=f"{product_form:.3f}", ours=f"{chance:.3f}",
            right="(107) takes the two as independent; p ≤ ρ₁ + ρ₂ always",
            false=chance > product_form + SAME, proved=chance <= both + SAME,
        ),
    ]  # fmt: skip


def _appendix_d() -> list[Claim]:
    """The claims of [F]'s Theorems 10 and 11 and Remarks 14 and 15, on attackers by probability."""
    honest, trials, scale, mean = 100, 16, 0.5, 0.1
    own, lean = _votes(scale, trials), mean / scale
    gap = 1 - 0.25 ** (1 / (trials * honest))
    printed, right = sqrt(lean - gap) / (1 + sqrt(gap)) * honest, (lean - sqrt(gap)) / (1 + sqrt(gap)) * honest
    vote = Vote(mechanism=own, honest=honest, mean=mean, probability=1.0)
    chance = float(vote.chances([int(printed)])[0][0])
    blind = 0.5 + lean / 2
    falling = [_exact(_votes(scale, 1), probability=p) for p in (0.6, 0.8, 1.0)]
    flipped, told = _exact(own), _exact(own, probability=blind)
    sparse = Ternary(clip=0.1, spread=0.15, scale=0.5)
    shares = [_exact(sparse, probability=p) for p in (0.2, 0.25, 0.3)]
    return [
        slip_found(
            "Theorem 10", "K ≤ [x̄/B − (1 − 4^(−1/MN))]^½/…: x̄ = .1, B = .5, M = 16, N = 100, p_att = 1",
            published=f"{printed:.2f}",
            ours=f"P(right) = {chance:.2g} at K = {int(printed)}",
            right=f"(132), the exponent on the inner bracket alone: {right:.2f}",
            false=chance < 0.5, proved=abs((vote.published[1] or 0) - right) < 1e-9 and right <= (vote.exact or 0),
        ),
        slip_found(
            "Theorem 10", "its side condition is (2p_att − 1)K < x̄/B", published=f"K < {lean:g}",
            ours=f"K = {int(right)} is tolerated: exact {vote.exact}",
            right=f"(2p_att − 1)K < N·x̄/B: K < {honest * lean:g}", false=(vote.exact or 0) >= lean,
            proved=right < honest * lean,
        ),
        held_claim("Remark 14", "K falls as p_att rises: M = 1, p_att = .6, .8, 1", f"{falling}",
                   falling == sorted(falling, reverse=True)),
        held_claim("Remark 14", f"blind attackers are p_att = ½ + x̄/2B = {blind:g}", f"K = {told} and {flipped}",
                   told == flipped),
        *_theorem_11(),
        held_claim("Remark 15", "K falls as p_att rises: A = .15, B = .5, p_att = .2, .25, .3", f"{shares}",
                   shares == sorted(shares, reverse=True)),
    ]  # fmt: skip


def _theorem_11() -> list[Claim]:
    """Of its conditions one is Theorem 6's, and (138) is not printed."""
    spread, scale, mean, honest = 0.005, 1.0, 0.0049, 100
    bound = _theorem_11_bound(honest, mean / scale, spread / scale, spread / scale)
    sparse = Ternary(clip=mean, spread=spread, scale=scale)
    right = float(Vote(mechanism=sparse, honest=honest, mean=mean, probability=spread / scale).chances([0])[0][0])
    drags = np.linspace(0.01, 0.5, 50)  # p_att − q_att at A = .25, B = .5
    worst = max(float(drag) * _theorem_11_bound(honest, 0.2, 0.5, float(drag)) for drag in drags)
    return [
        slip_found(
            "Theorem 11", f"K ≤ {bound:.2f} tolerated: N = 100, A = .005, B = 1, x̄ = .0049, p_att = A/B",
            published=f"P(right) > ½ at K ≤ {bound:.2f}", ours=f"P(right) = {right:.4f} at K = 0",
            right="A/B ≥ 1 − 2^(−1/N) is needed, as in Theorem 6", false=bound > 0 and right < 0.5,
            proved=spread / scale < 1 - 0.5 ** (1 / honest),
        ),
        held_claim("Theorem 11", "(138), (p_att − q_att)K < N·x̄/B, follows from its bound where p_att > q_att",
                   f"at most {worst:.2f} of {0.2 * honest:g}", worst < 0.2 * honest),
    ]  # fmt: skip


def _theorem_11_bound(honest: int, lean: float, rate: float, drag: float) -> float:
    """K as it is printed, `lean` being x̄/B, `rate` A/B and `drag` p_att − q_att; Theorem 6's where that is x̄/B."""
    room = sqrt(rate**2 - (0.5 ** (1 / honest) - 1 + rate) ** 2)
    return honest * (lean - room) / (drag + room)
