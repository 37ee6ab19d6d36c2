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
from fedpriv.trust import sums_only, units_touched, word_of

Found = dict[str, Any]
ORDERS = range(2, 201)  # α = λ + 1, where [L] takes the moment E[L^λ]
BEYOND = "past 1, where it is not proved"


def lecture_published(event: Event, delta: float, target: float | None = None) -> dict[str, Found]:
    """By formula of [L]: the ε it prints for an event's noise; for a `target` ε also the noise that one release needs.

    >>> from fedpriv.accounting.event import by_hand
    >>> one = by_hand(Gaussian(clip=1, noise=3.7304))
    >>> found = lecture_published(one, 1e-5, target=1.0)
    >>> round(found["[L] Gaussian mechanism, calibrated"]["noise"], 2)
    4.84
    """
    mechanism = event.mechanism
    if not isinstance(mechanism, Gaussian | Laplace) or sums_only(word_of(event.trust)) or not event.rounds:
        return {}
    name, wide = f"[L] {type(mechanism).__name__} mechanism", sqrt(event.dimension)
    held = wide if geometry_of(event.bound) == "linf" else 1.0  # clip is the largest coordinate, or the ℓ2 norm
    once = mechanism.clip * units_touched(event.adjacency)
    sensitivity = once * (wide * held if isinstance(mechanism, Laplace) else held)  # Δ: the ℓ1 norm is √d times the ℓ2
    single, ratio = event.rounds == 1 and event.sampling == 1, mechanism.noise / sensitivity
    found: dict[str, Found] = {}
    if isinstance(mechanism, Laplace):
        if event.sampling == 1:  # Δ/b, added up over releases; what sampling does to it [L] does not say
            found[name] = {"epsilon": event.rounds * (sensitivity / mechanism.noise), "delta": 0.0}
    elif 0 < delta < 1 and single:
        one = gaussian_factor(delta) / ratio
        found[name] = {"epsilon": one} | _limit(name, one)
    elif 0 < delta < 1:  # many releases, sampled or not: by the moments accountant, and by its rule of thumb
        if event.sampling > 0 and (event.sampling == 1 or event.adjacency == "add-remove"):
            epsilon, order = moments_epsilon(ratio, event.sampling, event.rounds, delta)
            found["[L] moments accountant (Abadi et al. 2016)"] = {"epsilon": epsilon, "order": order}
        one = gaussian_factor(delta) / ratio
        found["[L] q·ε·√T, approximate"] = {"epsilon": event.sampling * one * sqrt(event.rounds)}
    if target is not None and single:
        factor = 1.0 if isinstance(mechanism, Laplace) else gaussian_factor(delta)
        needed = {"epsilon": target, "noise": sensitivity / target * factor}
        found[f"{name}, calibrated"] = needed | _limit(name, target)
    return found


def gaussian_factor(delta: float) -> float:
    """σ·ε/Δ of [L]'s Gaussian mechanism: √(2 ln(1.25/δ)), proved for ε below 1 (Dwork and Roth 2014, Theorem A.1).

    >>> round(gaussian_factor(1e-5), 2)
    4.84
    """
    return sqrt(2 * log(1.25 / delta))


def moments_epsilon(ratio: float, rate: float, rounds: int, delta: float) -> tuple[float, int]:
    """ε, and the order λ + 1 that gave it, by the moments accountant of [L], for σ/Δ = `ratio`.

    Abadi et al. 2016, Theorem 2.

    ε = (T·ln E[L^λ] − ln δ)/λ, the least over whole λ. E[L^λ] of a sampled Gaussian release is then the binomial sum
    Σ C(λ+1, k)(1−q)^{λ+1−k} q^k e^{(k²−k)/2σ²}, that of the pair the other way round being no larger (Mironov,
    Talwar, Zhang 2019): it certifies, only not tightly.

    >>> epsilon, order = moments_epsilon(4, 0.01, 10_000, 1e-5)  # Abadi et al., section 3.2: 1.26
    >>> round(epsilon, 2)
    1.26
    """

    def curve(alpha: float) -> float:
        """The Rényi divergence at order α of one Gaussian release without sampling."""
        return alpha / (2 * ratio**2)

    def at(order: int) -> float:
        """The ε that the moments accountant gets from one order."""
        return rounds * black_box_lower(curve, rate, order) - log(delta) / (order - 1)

    return min((at(order), order) for order in ORDERS)


def _limit(name: str, epsilon: float) -> Found:
    """The remark beside an ε of [L]'s Gaussian mechanism past 1, where it is unproved; empty where all is well."""
    return {"but": BEYOND} if "Gaussian" in name and not epsilon < 1 else {}
