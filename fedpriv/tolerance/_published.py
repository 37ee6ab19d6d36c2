"""[F] Theorems 5, 6, 10 and 11: Chernoff bounds on how many attackers a vote survives, with their slips put right.

They hold for all honest data with mean x̄ (and attackers whose own data have that mean too, where these flip it).
"""

from __future__ import annotations

from math import expm1, log, sqrt

from fedpriv.mechanisms import Binomial, StochasticSign, Ternary
from fedpriv.mechanisms.abilities import trials_of
from fedpriv.tolerance.ballots import Attack, Polled


def published(
    mechanism: Polled, honest: int, mean: float, attack: Attack, probability: float | None = None
) -> tuple[str, float | None]:
    """[F]'s theorem about this vote, and how many attackers K, a real number, it tolerates: None if it fails."""
    omniscient = probability is None and attack == "omniscient"
    if isinstance(mechanism, Ternary) and not omniscient:
        spread, scale = mechanism.spread, mechanism.scale
        if probability is None:
            return "[F] Theorem 6", theorem_6(honest, mean, spread, scale)
        return "[F] Theorem 11", theorem_11(honest, mean, spread, scale, probability)
    if not isinstance(mechanism, Binomial | StochasticSign):
        return "none", None
    trials = trials_of(mechanism)
    if omniscient:
        return "[F] Theorem 10 at probability 1", theorem_10(honest, mean, mechanism.scale, trials, 1.0)
    if probability is not None:
        return "[F] Theorem 10", theorem_10(honest, mean, mechanism.scale, trials, probability)
    return "[F] Theorem 5", theorem_5(honest, mean, mechanism.scale, trials)


def theorem_5(honest: int, mean: float, scale: float, trials: int) -> float | None:
    """[F] Theorem 5's number of blind attackers that a vote by the binomial mechanism survives; None if none.

    K ≤ N·(x̄ − Bs)/(x̄ + Bs) with s = √(1 − 4^{−1/MN}), where x̄ > Bs.

    >>> round(theorem_5(100, 0.1, 0.5, 16), 2), round(theorem_5(100, 0.1, 0.5, 1), 2)
    (74.35, 26.05)
    """
    return _tolerated(honest, mean / scale, _room_of_votes(honest * trials), mean / scale)


def theorem_10(honest: int, mean: float, scale: float, trials: int, probability: float) -> float | None:
    """[F] Theorem 10's number of attackers, each vote wrong with p_att > ½, that a binomial vote survives.

    K ≤ N·(x̄/B − s)/(2p_att − 1 + s). Equation (132).

    The statement misplaces an exponent; its side condition, which lacks a factor N, follows from the bound.

    >>> round(theorem_10(100, 0.1, 0.5, 16, 1.0), 2)
    16.57
    """
    return _tolerated(honest, mean / scale, _room_of_votes(honest * trials), 2 * probability - 1)


def theorem_6(honest: int, mean: float, spread: float, scale: float) -> float | None:
    """[F] Theorem 6's number of blind attackers that a vote by the ternary compressor survives; None if none.

    K ≤ N·(x̄ − Bt)/(x̄ + Bt) with t² = A²/B² − (2^{−1/N} − 1 + A/B)².

    It also needs A/B ≥ 1 − 2^{−1/N}: squaring lost a sign. Without it N = 100, A = .005, B = 1, x̄ = .0049 would give
    2.92, where the vote is right with probability .39 without any attacker.

    >>> round(theorem_6(1000, 0.1, 0.15, 0.5), 2)
    815.06
    >>> theorem_6(100, 0.0049, 0.005, 1.0)
    """
    room = _room_of_symbols(honest, spread / scale)
    return None if room is None else _tolerated(honest, mean / scale, room, mean / scale)


def theorem_11(honest: int, mean: float, spread: float, scale: float, probability: float) -> float | None:
    """[F] Theorem 11's number of attackers, wrong with probability p_att, that a ternary vote survives; or None.

    K ≤ N·(x̄/B − t)/(p_att − q_att + t), q_att = A/B − p_att < p_att; and A/B ≥ 1 − 2^{−1/N}, as in Theorem 6.
    """
    room = _room_of_symbols(honest, spread / scale)
    return None if room is None else _tolerated(honest, mean / scale, room, 2 * probability - spread / scale)


def _tolerated(honest: int, lean: float, room: float, drag: float) -> float | None:
    """The attackers that [F]'s theorems tolerate: N·(lean − room)/(drag + room), None where lean ≤ room."""
    return honest * (lean - room) / (drag + room) if lean > room else None


def _room_of_votes(votes: int) -> float:
    """s = √(1 − 4^{−1/votes}) of [F] Theorems 5 and 10: what chance may take from the honest votes' lean."""
    return sqrt(-expm1(-log(4) / votes))


def _room_of_symbols(honest: int, rate: float) -> float | None:
    """t of [F] Theorems 6 and 11, of N ternary symbols sent at a rate A/B; None where A/B < 1 − 2^{−1/N}."""
    step = -expm1(-log(2) / honest)  # 1 − 2^{−1/N}
    return sqrt(step * (2 * rate - step)) if rate >= step else None
