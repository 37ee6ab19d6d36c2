"""What [L] says of Laplace noise, of Gaussian noise, and of DP-SGD by the moments accountant: shown beside ours.

Δ is how far one record moves what is released: in ℓ1 under Laplace noise, in ℓ2 under Gaussian noise.
"""

from __future__ import annotations

from math import log, sqrt
from typing import Any

from fedpriv.accounting.event import Event
from fedpriv.bounds import geometry_of
from fedpriv.mechanisms import Gaussian, Laplace
from fedpriv.mechanisms.ptr_renyi import black_box_lower
from fedpriv.trust import sums_only, touched, word_of

Found = dict[str, Any]
ORDERS = range(2, 201)  # α = λ + 1, where [L] takes the moment E[L^λ]
BEYOND = "past 1, where it is not proved"


def lecture_published(event: Event, delta: float, target: float | None = None) -> dict[str, Found]:
    """By formula: ε of this noise; where ε is a `target`, also the noise that one release needs for it.

    >>> from fedpriv.accounting.event import by_hand
    >>> one = by_hand(Gaussian(clip=1, noise=3.7304))
    >>> found = lecture_published(one, 1e-5, target=1.0)
    >>> round(found["[L] Gaussian mechanism, calibrated"]["noise"], 2)
    4.84
    """
    mechanism = event.mechanism
    if not isinstance(mechanism, Gaussian | Laplace) or sums_only(word_of(event.trust)) or not event.rounds:
        return {}
    found: dict[str, Found] = {}
    if isinstance(mechanism, Gaussian):
        found = _gaussian(event, mechanism, delta)
    elif event.sampling == 1:  # Δ/b, added up over releases; what sampling does to it [L] does not say
        total = event.rounds * (_sensitivity(event) / mechanism.noise)
        found = {"[L] Laplace mechanism": {"epsilon": total, "delta": 0.0}}
    if target is not None and event.rounds == 1 and event.sampling == 1:
        name, needed = f"[L] {type(mechanism).__name__} mechanism", _sensitivity(event) / target
        factor = 1.0 if isinstance(mechanism, Laplace) else gaussian_factor(delta)
        found[f"{name}, calibrated"] = {"epsilon": target, "noise": needed * factor} | _limit(name, target)
    return found


def gaussian_factor(delta: float) -> float:
    """σ·ε/Δ of [L]'s Gaussian mechanism: √(2 ln(1.25/δ)), proved for ε below 1 (Dwork and Roth 2014, Theorem A.1).

    >>> round(gaussian_factor(1e-5), 2)
    4.84
    """
    return sqrt(2 * log(1.25 / delta))


def moments_epsilon(ratio: float, rate: float, rounds: int, delta: float) -> tuple[float, int]:
    """The moments accountant of [L] (Abadi et al. 2016, Theorem 2) for σ/Δ = `ratio`: ε and the order λ + 1 of it.

    ε = (T·ln E[L^λ] − ln δ)/λ, the least over whole λ. E[L^λ] of a sampled Gaussian release is then the binomial sum
    Σ C(λ+1, k)(1−q)^{λ+1−k} q^k e^{(k²−k)/2σ²}, that of the pair the other way round being no larger (Mironov,
    Talwar, Zhang 2019): it certifies, only not tightly.

    >>> epsilon, order = moments_epsilon(4, 0.01, 10_000, 1e-5)  # Abadi et al., section 3.2: 1.26
    >>> round(epsilon, 2)
    1.26
    """

    def curve(alpha: float) -> float:
        return alpha / (2 * ratio**2)

    def at(order: int) -> float:
        return rounds * black_box_lower(curve, rate, order) - log(delta) / (order - 1)

    return min((at(order), order) for order in ORDERS)


def _gaussian(event: Event, mechanism: Gaussian, delta: float) -> dict[str, Found]:
    """One release by its formula; many, sampled or not, by the moments accountant and by its rule of thumb."""
    if not 0 < delta < 1:
        return {}
    ratio, name = mechanism.noise / _sensitivity(event), "[L] Gaussian mechanism"
    one = gaussian_factor(delta) / ratio
    if event.rounds == 1 and event.sampling == 1:
        return {name: {"epsilon": one} | _limit(name, one)}
    found: dict[str, Found] = {}
    if event.sampling > 0 and (event.sampling == 1 or event.adjacency == "add-remove"):
        epsilon, order = moments_epsilon(ratio, event.sampling, event.rounds, delta)
        found["[L] moments accountant (Abadi et al. 2016)"] = {"epsilon": epsilon, "order": order}
    found["[L] q·ε·√T, approximate"] = {"epsilon": event.sampling * one * sqrt(event.rounds)}
    return found


def _limit(name: str, epsilon: float) -> Found:
    """What is wrong with an ε of the Gaussian mechanism past 1; nothing where nothing is."""
    return {"but": BEYOND} if "Gaussian" in name and not epsilon < 1 else {}


def _sensitivity(event: Event) -> float:
    """Δ, from a clip that is the largest coordinate under linf, else the ℓ2 norm: the ℓ1 norm is √d times that."""
    wide = sqrt(event.dimension)
    once: float = event.mechanism.clip * touched(event.adjacency)
    if isinstance(event.mechanism, Laplace):
        return once * (wide * wide if geometry_of(event.bound) == "linf" else wide)
    return once * (wide if geometry_of(event.bound) == "linf" else 1)
