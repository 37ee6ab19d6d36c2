"""Releases by one of two branches, which branch being seen: the curve that dominates many such pairs of neighbours.

Each branch is normal noise on a value that moves by μ of its deviations, taken with one chance under P and another
under Q. Hockey sticks of such pairs are closed forms, convex in t = e^ε, and so is the largest of several. Between a
grid's points its chords lie above it and its tangents below: two finite pairs that enclose the hull, in a pass over the
pairs. Every set of pairs holds each pair both ways round, so one direction is the other (docs/proofs/ptr-general.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from fedpriv._base.arrays import Vector
from fedpriv.curves.atoms import ROUNDING, Atoms
from fedpriv.curves.pair import Enclosure
from fedpriv.curves.tradeoff import Tradeoff

CELLS = 1 << 13  # of the losses between 0 and the largest looked at: chords are O(1/CELLS²) too high
MANY = 300  # pairs, past which there are fewer cells: each takes a pass over them
DEEPEST = 300.0  # nats: the largest loss looked at; what is left beyond is held to give everything away
SEEN_TO = 1e-10  # δ₀ at most, by which it is chosen how far out noise is looked at
ROUNDED = 1e-12  # relative: of a chance, of Φ and of its argument, all that rounding makes of a term


class Branch(NamedTuple):
    """One of two ways that a release can go: its chances under P and Q, and by how many deviations its value moves."""

    p: float
    q: float
    mu: float  # ∞ where nothing hides the value, 0 where it does not move


Branches = tuple[Branch, ...]  # all the ways that a release of one of two neighbours can go


class _Stick(NamedTuple):
    """A hockey stick at losses: from above, from below, P's mass past each loss, and Q's where P has none."""

    above: Vector
    below: Vector
    tail: Vector
    impossible: float


def hull_of_branches(pairs: Sequence[Branches], failure: float) -> Tradeoff:
    """The curve that dominates all pairs of a tested release, both ways round; from below it is the worst of them.

    Noise is looked at to three deviations past δ₀, `failure`, or past 1e-10: what is beyond gives everything away. From
    below no one pair of neighbours reaches it at every δ, so it is no witness of a release among others.

    >>> even = (Branch(0.5, 0.5, 1.0), Branch(0.5, 0.5, 1.0))  # a coin that says nothing, and noise of one deviation
    >>> curve = hull_of_branches([even], 1e-8)
    >>> abs(curve.delta(1.0) - Tradeoff.gaussian(1.0).delta(1.0)) < 1e-6
    True
    """
    deviations = 3.0 - float(ndtri(min(failure, SEEN_TO)))
    cells = CELLS if len(pairs) <= MANY else CELLS // 4
    loss = farthest_loss(pairs, deviations) * np.linspace(0.0, 1.0, cells + 1) ** 2  # small ones matter most
    times = np.exp(loss)
    above, below, tail, impossible = np.zeros(cells + 1), np.zeros(cells + 1), np.zeros(cells + 1), 0.0
    both = [
        (pair, tuple(Branch(own.q, own.p, own.mu) for own in pair)) for pair in pairs
    ]  # noise that moves either way
    for branches in dict.fromkeys(tuple(sorted(way)) for ways in both for way in ways):
        own = stick_of(branches, loss, times)
        np.maximum(above, own.above, out=above)
        higher = own.below > below
        below[higher], tail[higher] = own.below[higher], own.tail[higher]
        impossible = own.impossible if higher[-1] else impossible
    return Tradeoff(Enclosure(chords_of(loss, above), tangents_of(loss, below, tail, impossible)))


def by_branch(passed: Tradeoff, failed: Tradeoff, before: tuple[float, float], after: tuple[float, float]) -> Tradeoff:
    """The curve of a release by one of two branches, seen which; `before`, `after`: their ln chances under P, Q."""
    doubt = 4 * ROUNDING * (1 + max(-chance for chance in (*before, *after)))

    def together(one: Atoms, other: Atoms) -> Atoms:
        """The finite pair of both branches' outcomes, each by its branch's chances under P and Q."""
        sides = list(zip((one, other), before, after, strict=True))
        return Atoms.sorted(
            np.concatenate([atoms.log_p + p for atoms, p, _ in sides]),
            np.concatenate([atoms.log_q + q for atoms, _, q in sides]),
            np.concatenate([atoms.loss + (q - p) for atoms, p, q in sides]),
            2 * max(one.error, other.error) + doubt,
        )

    return Tradeoff(Enclosure(together(passed.above, failed.above), together(passed.below, failed.below)))


def farthest_loss(pairs: Sequence[Branches], deviations: float) -> float:
    """The largest loss that is looked at in the branches of a tested release."""
    far = [
        abs(float(np.log(own.q / own.p))) + own.mu * (own.mu / 2 + deviations)
        for branches in pairs
        for own in branches
        if own.p > 0 < own.q and own.mu < inf
    ]
    return max([own for own in far if own < DEEPEST], default=0.0) or 1.0


def stick_of(branches: Branches, loss: Vector, times: Vector) -> _Stick:
    """The hockey stick of one pair at losses from 0 up, rounding counted: Σ q·Φ(μ/2 − x) − t·p·Φ(−μ/2 − x), t = e^ε."""
    stick, terms, tail, impossible = np.zeros(loss.size), np.zeros(loss.size), np.zeros(loss.size), 0.0
    for p, q, mu in branches:
        if p == 0 or mu == inf:
            held, lost = np.full(loss.size, q), np.zeros(loss.size)
            impossible += q
        elif mu == 0:
            held = np.where(q > times * p, q, 0.0)
            lost = np.where(held > 0, p, 0.0)
        else:
            with np.errstate(divide="ignore"):
                place = (loss + np.log(p) - np.log(q)) / mu
            held, lost = q * ndtr(mu / 2 - place), p * ndtr(-mu / 2 - place)
        stick, terms, tail = stick + held - times * lost, terms + held + times * lost, tail + lost
    return _Stick(stick + ROUNDED * terms, np.maximum(stick - ROUNDED * terms, 0.0), tail, impossible)


def chords_of(loss: Vector, stick: Vector) -> Atoms:
    """The finite pair whose hockey stick joins the points of one: above it, as it is convex."""
    steps = np.exp(loss[:-1]) * np.expm1(np.diff(loss))
    slope = np.maximum.accumulate(((stick[:-1] - stick[1:]) / steps)[::-1])[::-1]
    return _symmetric(loss[1:], slope - np.append(slope[1:], 0.0), float(stick[-1]))


def tangents_of(loss: Vector, stick: Vector, tail: Vector, impossible: float) -> Atoms:
    """The finite pair whose hockey stick is the largest of the tangents to one: below it, as it is convex."""
    tail = np.minimum.accumulate(tail)
    mass = tail - np.append(tail[1:], 0.0)
    steps = np.append(np.exp(loss[:-1]) * np.expm1(np.diff(loss)), 0.0)
    following, behind = np.append(stick[1:], impossible), np.append(tail[1:], 0.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ahead = np.log1p(np.maximum(stick - following - behind * steps, 0.0) / (mass * np.exp(loss)))
    widths = np.append(np.diff(loss), DEEPEST)
    kept = mass > 0
    return _symmetric((loss + np.clip(ahead, 0.0, widths))[kept], mass[kept], impossible)


def _symmetric(loss: Vector, p: Vector, impossible: float) -> Atoms:
    """The pair with these masses of P at losses of at least 0, the same of Q turned round, and the rest at 0."""
    kept = p > 0
    loss, p = loss[kept], p[kept]
    log_p = np.log(p)
    log_q = log_p + loss
    with np.errstate(divide="ignore"):
        rest = np.log([max(1 - float(p.sum() + np.exp(log_q).sum()) - impossible, 0.0)])
        odd = np.log(min(impossible, 1.0))
    rest = rest[rest > -np.inf]  # where no mass is left at any loss, the pair gives everything away
    return Atoms.sorted(
        np.concatenate(([-np.inf], log_p, rest, log_q, [odd])),
        np.concatenate(([odd], log_q, rest, log_p, [-np.inf])),
        np.concatenate(([np.inf], loss, 0 * rest, -loss, [-np.inf])),
        balanced=True,
    )
