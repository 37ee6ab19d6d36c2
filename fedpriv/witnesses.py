"""Lower bounds of one release: explicit inputs, and the pair of message laws they produce."""

from __future__ import annotations

from math import sqrt
from typing import Any, NamedTuple

from fedpriv import secure_aggregation, vectors
from fedpriv.joint import joint
from fedpriv.mechanisms import Gaussian, Histogram, Laplace, Mechanism, Ptr, Ternary
from fedpriv.privacy_loss import Part
from fedpriv.release import Release
from fedpriv.routes import JOINT, share_at, votes_of
from fedpriv.tradeoff import Tradeoff
from fedpriv.vectors import OUTWARD

MANY_VOTES = 10_000_000


class Witness(NamedTuple):
    """Explicit inputs and the pair they produce, composed so often: a lower bound."""

    proof: str
    parts: tuple[Part, ...]


def witnesses_of(release: Release) -> list[Witness]:
    """Explicit pairs of inputs, at one or several numbers of coordinates."""
    if release.trust == "secure-aggregation" and not hasattr(release.mechanism, "aggregated"):
        return _sum_witnesses(release)
    mechanism: Any = release.mechanism
    if isinstance(mechanism, Ptr):
        return _ptr_witnesses(release, mechanism)
    if isinstance(mechanism, Histogram):
        return [_histogram_witness(release, mechanism)]
    if release.trust == "secure-aggregation":
        mechanism = mechanism.aggregated(release.clients)
    if isinstance(mechanism, Gaussian) and release.geometry != "linf":
        return _composed(release, _ends(mechanism, release, mechanism.clip), 1)
    pairs = [(_ends(mechanism, release, level), count) for level, count in _levels(release)]
    return [witness for pair, count in pairs for witness in _composed(release, pair, count)]


def _ptr_witnesses(release: Release, ptr: Ptr) -> list[Witness]:
    """Two data sets that attain their case of propose-test-release (docs/ptr.md), in every round."""
    passes = "explicit records: one of norm clip joins a batch with a margin"
    fails = "explicit records: all of norm clip, no margin"
    sampled = ", Poisson sampled" if release.sampling < 1 else ""
    return [
        Witness(proof + sampled, ((curve.subsampled(release.sampling, "add-remove"), release.rounds),))
        for proof, curve in ((passes, ptr.cases.passes), (fails, ptr.cases.fails))
    ]


def _histogram_witness(release: Release, histogram: Histogram) -> Witness:
    """A record that changes bins in every coordinate, all of them full: the limit in which no bin is held back."""
    if release.sampling < 1:
        return Witness("none where records are sampled", ((Tradeoff.between([1.0], [1.0]), release.rounds),))
    shift = histogram.shift(release.adjacency) / OUTWARD * sqrt(release.dimension)
    return Witness("explicit records: full bins, one changes", ((Tradeoff.gaussian(shift), release.rounds),))


def _levels(release: Release) -> list[tuple[float, int]]:
    if release.dimension == 1 or release.geometry == "linf":
        return [(release.mechanism.peak, release.dimension)]
    clip, peak = release.mechanism.clip, release.mechanism.peak
    return vectors.spans(clip=clip, peak=peak, dimension=release.dimension)


def _ends(mechanism: Mechanism, release: Release, level: float) -> Tradeoff:
    """The pair of inputs ±level; one of them absent (zero) where that is what neighbours, or samples, differ by."""
    return mechanism.between(level, 0.0 if _absent(release) else -level)


def _absent(release: Release) -> bool:
    """Whether real data of this noise differ by a record that is there or not, its noise being added to a sum."""
    summed = isinstance(release.mechanism, Gaussian | Laplace)
    return summed and (release.adjacency == "add-remove" or release.sampling < 1)


def _composed(release: Release, pair: Tradeoff, count: int) -> list[Witness]:
    """The pair on `count` coordinates at once, composed over rounds; if sampled, the record in either data set."""
    inputs = f"±clip/√k on k = {count} coordinates" if release.geometry == "l2" and release.dimension > 1 else "±peak"
    proof = f"explicit pair {'clip and nothing' if _absent(release) else inputs}"
    if release.sampling == 1:
        return [Witness(proof, ((pair, count * release.rounds),))]
    held = joint([(pair, min(count, JOINT))]).subsampled(release.sampling, "add-remove")
    always = Witness(f"{proof}, Poisson sampled", ((held, release.rounds),))
    if release.adjacency == "add-remove" or isinstance(release.mechanism, Gaussian | Laplace):
        return [always]
    half = release.rounds // 2
    parts = ((held, release.rounds - half), (held.inverse, half))
    return [always, Witness(f"{proof}, Poisson sampled, now one and now the other data set holding the record", parts)]


def _sum_witnesses(release: Release) -> list[Witness]:
    """Explicit data of everybody: the others all at one end, all at the other, or half and half."""
    clients, found = release.clients or 1, []
    if isinstance(release.mechanism, Ternary):
        spread, scale = release.mechanism.spread, release.mechanism.scale
        for level, count in _levels(release):
            pair = Tradeoff.between(*secure_aggregation.ternary_pair_lower(clients, level, spread, scale))
            found += [one._replace(proof=f"{one.proof}, others at 0") for one in _composed(release, pair, count)]
        return found
    trials, _ = votes_of(release.mechanism)
    for level, count in _levels(release):
        share = share_at(release.mechanism, level)
        mixed = {(clients - 1) // 2} if trials * clients <= MANY_VOTES else set()  # two wide laws convolve slowly
        for high in sorted({0, clients - 1} | mixed):
            pair = Tradeoff.between(*secure_aggregation.scalar_pair_lower(clients, trials, share, high=high))
            others = f"{high} of the others high, the rest low"
            found += [one._replace(proof=f"{one.proof}, {others}") for one in _composed(release, pair, count)]
    return found
