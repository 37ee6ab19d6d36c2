"""Lower bounds of one event: explicit inputs, and the pair of message laws they produce."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from typing import NamedTuple, assert_never

from fedpriv.accounting.event import Event, levels_of
from fedpriv.accounting.routes import JOINT, REPLACED, replaced_on_a_sum, seen_as_one, seen_of
from fedpriv.bounds import geometry_of
from fedpriv.bounds import sums as secure_aggregation
from fedpriv.bounds.vectors import OUTWARD
from fedpriv.curves.compose import Part
from fedpriv.curves.joint import joint
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.mechanisms import Gaussian, GeneralPtr, Histogram, Laplace, Mechanism, Ptr, Ternary
from fedpriv.mechanisms.abilities import AddsUp, OneRelease, Paired, share_at, votes_of
from fedpriv.mechanisms.general_ptr import general_attained
from fedpriv.mechanisms.ptr_pairs import ptr_attained
from fedpriv.randomness.grid import FINE
from fedpriv.trust import Central, Local, Sums

MANY_VOTES = 10_000_000  # of all clients, past which two wide laws convolve slowly
REACHED_TESTED = (
    1 + 2.0**-14
)  # the same of a tested value, which is brought to a coarser grid (estimation/_released.py)
REACHED = 1 + 4 * FINE  # real noise so much larger tells no more than what is drawn on a grid (docs/proofs/grid.md)


class Witness(NamedTuple):
    """Explicit inputs and the pair they produce, composed so often: a lower bound."""

    proof: str  # the inputs, in words
    parts: tuple[Part, ...]  # curves, and how often each is composed


def witnesses_of(event: Event) -> list[Witness]:
    """Witnesses of one event: explicit inputs of neighbours, and their curve, a lower bound of what it gives away."""
    event = event.one_release
    match event.trust:
        case Sums(certain) if not isinstance(event.mechanism, AddsUp):
            return _sum_witnesses(event, certain)
        case Local() | Central() | Sums():
            mechanism = seen_as_one(event)
        case _ as never:
            assert_never(never)
    if isinstance(mechanism, OneRelease):
        return [_in_every_round(event, *mechanism.reached(event.adjacency))]
    if isinstance(mechanism, GeneralPtr) and mechanism.noise is not None:
        mechanism = replace(mechanism, noise=mechanism.noise * REACHED_TESTED)
    elif isinstance(mechanism, Gaussian | Laplace | Ptr | Histogram):  # on the grid surely no better than
        mechanism = replace(mechanism, noise=mechanism.noise * REACHED)  # with as much more real noise
    if isinstance(mechanism, Ptr):  # data sets that attain their case in every round, of what is seen and sampled of it
        seen = seen_of(event)
        found = ptr_attained(mechanism, seen, rate=event.sampling, rounds=event.rounds, dimension=event.dimension)
        return [_in_every_round(event, proof, curve) for proof, curve in found]
    if isinstance(mechanism, GeneralPtr):
        return [_in_every_round(event, proof, curve) for proof, curve in general_attained(mechanism)]
    if isinstance(mechanism, Histogram):  # bins full in every coordinate: the limit in which none is held back
        if event.sampling < 1:
            return [_in_every_round(event, "none where records are sampled", Tradeoff.between([1.0], [1.0]))]
        shift = mechanism.shift(event.adjacency) / OUTWARD * sqrt(event.dimension)
        return [_in_every_round(event, "explicit records: full bins, one changes", Tradeoff.gaussian(shift))]
    if (replaced := replaced_on_a_sum(event, 1 / REACHED)) is not None:
        if isinstance(mechanism, Gaussian):  # a record c made −c, of Laplace in one coordinate
            return [_in_every_round(event, f"explicit records: {REPLACED}", replaced)]
        nearly = "the grid to first order (docs/proofs/grid.md)"
        if event.dimension == 1:
            return [_in_every_round(event, f"explicit records: {REPLACED}; {nearly}", replaced)]
        alone = replaced_on_a_sum(replace(event, dimension=1), 1 / REACHED) or replaced
        proof = f"explicit records: {REPLACED}, in one coordinate; {nearly}"
        return [_in_every_round(event, proof, alone), *_on_every_level(event, mechanism)]
    if isinstance(mechanism, Gaussian) and geometry_of(event.bound) != "linf":
        return _composed(event, _ends(mechanism, event, mechanism.clip), 1)
    return _on_every_level(event, mechanism)


def _in_every_round(event: Event, proof: str, curve: Tradeoff) -> Witness:
    """The witness of inputs whose curve, given here, is met once in each of the event's rounds."""
    return Witness(proof, ((curve, event.rounds),))


def _on_every_level(event: Event, mechanism: Mechanism) -> list[Witness]:
    """Witnesses ±level on as many coordinates as the event's bound allows, one or several for each level."""
    if isinstance(mechanism, Paired) and (event.dimension == 1 or geometry_of(event.bound) != "l2"):
        found = [_composed(event, mechanism.between(*pair), event.dimension) for pair in mechanism.worst_inputs]
        told = [f"explicit pair {x:g} and {y:g}" for x, y in mechanism.worst_inputs]
        return [
            one._replace(proof=one.proof.replace("explicit pair ±peak", words))
            for words, own in zip(told, found, strict=True)
            for one in own
        ]
    pairs = [(_ends(mechanism, event, level), count) for level, count in levels_of(event)]
    return [witness for pair, count in pairs for witness in _composed(event, pair, count)]


def _ends(mechanism: Mechanism, event: Event, level: float) -> Tradeoff:
    """The curve of inputs level and −level; or level and nothing (zero) where a record is there or not."""
    return mechanism.between(level, 0.0 if _absent(event) else -level)


def _absent(event: Event) -> bool:
    """Whether a witness of the event is a record there or not (noise on a sum), not one input made its opposite."""
    if not isinstance(event.mechanism, Gaussian | Laplace):
        return False
    match event.adjacency:
        case "add-remove":
            return True
        case "replace":
            return event.sampling < 1
        case _ as never:
            assert_never(never)


def _composed(event: Event, pair: Tradeoff, count: int) -> list[Witness]:
    """Witnesses of a pair met on `count` coordinates in every round; if sampled, its record in either data set."""
    inputs = (
        f"±clip/√k on k = {count} coordinates" if geometry_of(event.bound) == "l2" and event.dimension > 1 else "±peak"
    )
    proof = f"explicit pair {'clip and nothing' if _absent(event) else inputs}"
    if event.sampling == 1:
        return [Witness(proof, ((pair, count * event.rounds),))]
    held = joint([(pair, min(count, JOINT))]).subsampled(event.sampling, "add-remove")
    always = _in_every_round(event, f"{proof}, Poisson sampled", held)
    if event.adjacency == "add-remove" or isinstance(event.mechanism, Gaussian | Laplace):
        return [always]
    half = event.rounds // 2
    parts = ((held, event.rounds - half), (held.inverse, half))
    return [always, Witness(f"{proof}, Poisson sampled, now one and now the other data set holding the record", parts)]


def _sum_witnesses(event: Event, clients: int) -> list[Witness]:
    """Witnesses of an event of which sums alone are seen: the other clients all at one end, the other, or half each."""
    found = []
    if isinstance(event.mechanism, Ternary):
        spread, scale = event.mechanism.spread, event.mechanism.scale
        for level, count in levels_of(event):
            pair = Tradeoff.between(*secure_aggregation.ternary_pair_lower(clients, level, spread, scale))
            found += [one._replace(proof=f"{one.proof}, others at 0") for one in _composed(event, pair, count)]
        return found
    trials, _ = votes_of(event.mechanism)
    for level, count in levels_of(event):
        share = share_at(event.mechanism, level)
        mixed = {(clients - 1) // 2} if trials * clients <= MANY_VOTES else set()
        for high in sorted({0, clients - 1} | mixed):
            pair = Tradeoff.between(*secure_aggregation.scalar_pair_lower(clients, trials, share, high=high))
            others = f"{high} of the others high, the rest low"
            found += [one._replace(proof=f"{one.proof}, {others}") for one in _composed(event, pair, count)]
    return found
