"""[F] Figures 7, 8 and 9: what more noise costs in attackers survived, by its theorems and counted exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor

import numpy as np

from fedpriv.mechanisms import Binomial, Ternary
from fedpriv.tolerance import Vote
from simulations.figures.checks import Check
from simulations.figures.curves import COLOURS
from simulations.figures.panels import Line, tradeoff_panel
from simulations.figures.tolerance import LEGEND, Survived, resilience_lines, survived_shares
from simulations.reproduce.fdp import _formulas as formulas
from simulations.reproduce.fdp.curves import ALPHA, Figure, check_rising, same_curve

CLIP = 0.1  # c, of the tradeoff curves
MEAN = 0.1  # x̄, of the votes
FEW = 100  # N, which the paper's text does not give for Figures 7 and 8
MANY = 1000  # N of some checks
NOTE = " ".join(LEGEND.values()) + (
    f"\nBlind attackers, x̄ = {MEAN:g}. The paper's text does not say which values are varied, nor N."
)
Own = Binomial | Ternary


def figure_7() -> Figure:
    """[F] Figure 7 drawn anew and checked: binomial mechanism, privacy by M and B, attackers survived by M."""
    by_trials = [_votes(1.0, m) for m in (4, 16, 64, 256)]
    by_scale = [_votes(b, 16) for b in (0.25, 0.5, 1.0, 2.0)]
    trials = [1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64]
    scales = (0.5, 1.0, 2.0)
    survived = _varied("B", {b: [_at(_votes(b, m), FEW) for m in trials] for b in scales})
    panels = [
        tradeoff_panel("Privacy, B = 1", resilience_curves([f"M = {each.trials}" for each in by_trials], by_trials)),
        tradeoff_panel("Privacy, M = 16", resilience_curves([f"B = {each.scale:g}" for each in by_scale], by_scale)),
        resilience_lines(f"Byzantine resilience, N = {FEW}", "votes a coordinate, M", trials, survived, log=2),
    ]
    checks = [_curve(each) for each in (*by_trials, *by_scale)]
    checks.append(check_rising("privacy falls with M, at every α", [line.y for line in panels[0].lines][::-1]))
    checks.append(check_rising("privacy rises with B, at every α", [line.y for line in panels[1].lines]))
    checks += [_more(f"K rises with M, {name}", votes) for name, votes, _ in survived]
    checks.append(_more("K falls with B, M = 16", [_at(_votes(b, 16), FEW) for b in scales][::-1]))
    checks += [_tolerated(by_trials[1], FEW), _tolerated(by_trials[1], MANY), _tolerated(by_trials[2], MANY)]
    return panels, checks


def figure_8() -> Figure:
    """[F] Figure 8 drawn anew and checked: ternary compressor, privacy by A and B, attackers survived by A."""
    by_spread = [_symbols(a, 0.5) for a in (0.15, 0.25, 0.35, 0.45)]
    by_scale = [_symbols(0.15, b) for b in (0.25, 0.5, 1.0, 2.0)]
    scales = (0.5, 0.75, 1.0)
    spreads = np.linspace(0.105, 0.495, 27)
    survived = _varied("B", {b: [_at(_symbols(float(a), b), FEW) for a in spreads] for b in scales})
    panels = [
        tradeoff_panel(
            "Privacy, B = 0.5", resilience_curves([f"A = {each.spread:g}" for each in by_spread], by_spread)
        ),
        tradeoff_panel("Privacy, A = 0.15", resilience_curves([f"B = {each.scale:g}" for each in by_scale], by_scale)),
        resilience_lines(f"Byzantine resilience, N = {FEW}", "how little a sign says, A", spreads, survived),
    ]
    checks = [_curve(each) for each in (*by_spread, *by_scale)]
    bounds = [vote.published[1] or 0.0 for vote in survived[0][1]]
    counts = [max(vote.exact, 0) for vote in survived[0][1]]
    checks += [
        check_rising("privacy rises with A, at every α", [line.y for line in panels[0].lines]),
        check_rising("privacy rises with B, at every α", [line.y for line in panels[1].lines]),
        Check(claim="the theorem's K falls with A, B = .5", published="holds",
              ours=f"{bounds[0]:.1f} to {bounds[-1]:.1f}", agrees=bool((np.diff(bounds) <= 0).all())),
        Check(claim="K itself falls with A, B = .5", published="holds",
              ours=f"between {min(counts)} and {max(counts)}", agrees=counts[0] > counts[-1] + 2,
              right=max(counts) - min(counts) <= 2,
              why="only the bound does: near the end the mean decides, K ≈ N − B/2x̄ whatever A is"),
        _more("K falls with B, A = .15", [_at(_symbols(0.15, b), FEW) for b in scales][::-1]),
    ]  # fmt: skip
    checks += [_tolerated(by_spread[0], FEW), _tolerated(by_spread[0], MANY), _tolerated(by_spread[1], MANY)]
    return panels, checks


def figure_9() -> Figure:
    """[F] Figure 9 drawn anew and checked: attackers survived by the number of honest clients, both mechanisms."""
    honest = np.unique(np.geomspace(10, 10_000, 40).astype(int))
    votes = _varied("B", {b: [_at(_votes(b, 16), int(n)) for n in honest] for b in (0.5, 1.0, 2.0)})
    symbols = _varied("A", {a: [_at(_symbols(a, 0.5), int(n)) for n in honest] for a in (0.15, 0.25, 0.45)})
    panels = [
        resilience_lines("Binomial mechanism, M = 16", "honest clients, N", honest, votes, log=10),
        resilience_lines("Ternary compressor, B = 0.5", "honest clients, N", honest, symbols, log=10),
    ]
    checks = [_more(f"K/N rises with N, {name}", votes, share=True) for name, votes, _ in (*votes, *symbols)]
    checks += [_tolerated(_symbols(0.25, 0.5), 10_000), _tolerated(_votes(1.0, 64), 10_000)]
    return panels, checks


def resilience_curves(names: Sequence[str], mechanisms: Sequence[Own]) -> list[Line]:
    """The tradeoff curves of some mechanisms as lines of the privacy panels of [F] Figures 7 and 8."""
    return [
        Line(name, ALPHA, each.tradeoff()(ALPHA), colour)
        for name, each, colour in zip(names, mechanisms, COLOURS, strict=False)
    ]


def _votes(scale: float, trials: int) -> Binomial:
    """The binomial mechanism of [F] Figures 7 and 9, at their clip, with B = `scale` and M = `trials`."""
    return Binomial(clip=CLIP, scale=scale, trials=trials)


def _symbols(spread: float, scale: float) -> Ternary:
    """The ternary compressor of [F] Figures 8 and 9, at their clip, with A = `spread` and B = `scale`."""
    return Ternary(clip=CLIP, spread=spread, scale=scale)


def _at(mechanism: Own, honest: int) -> Vote:
    """The vote of so many honest clients through a mechanism, at the figures' mean: how many attackers it survives."""
    return Vote(mechanism=mechanism, honest=honest, mean=MEAN)


def _varied(letter: str, votes: Mapping[float, Sequence[Vote]]) -> Survived:
    """Votes by the values of the setting of that letter, each named and coloured as a line of a resilience panel."""
    named = zip(votes.items(), COLOURS, strict=False)
    return [(f"{letter} = {value:g}", own, colour) for (value, own), colour in named]


def _curve(mechanism: Own) -> Check:
    """A check of a mechanism's tradeoff curve against [F]'s closed form, (22) or Theorem 3."""
    curve = mechanism.tradeoff()
    if isinstance(mechanism, Ternary):
        a, b = mechanism.spread, mechanism.scale
        return same_curve(f"curve of (22), A = {a:g}, B = {b:g}", curve, lambda x: formulas.ternary(x, CLIP, a, b))
    high, trials = 0.5 + CLIP / (2 * mechanism.scale), mechanism.trials
    claim = f"curve of Theorem 3, B = {mechanism.scale:g}, M = {trials}"
    return same_curve(claim, curve, lambda alpha: formulas.theorem_3(alpha, trials, high))


def _tolerated(own: Own, honest: int) -> Check:
    """A check that the exact share K/N of attackers survived is at least the bound of [F]'s theorem."""
    vote = _at(own, honest)
    theorem, bound = vote.published
    other = f"A = {own.spread:g}" if isinstance(own, Ternary) else f"M = {own.trials}"
    certified = "" if vote.hoeffding is None else f", {vote.hoeffding / honest:.3f} certified"
    exact, least = max(vote.exact, 0), bound or 0.0
    claim = f"K/N at least {theorem[4:]}'s, {other}, B = {own.scale:g}, N = {honest:,}"
    return Check(claim=claim, published=f"{least / honest:.3f}", ours=f"{exact / honest:.3f} counted{certified}",
                 agrees=exact >= floor(least))  # fmt: skip


def _more(claim: str, votes: Sequence[Vote], share: bool = False) -> Check:
    """A check that both K by [F]'s theorem and K counted rise along some votes, but for ties (an attacker or two).

    The numbers are K, or with `share` K/N.
    """
    exact, _, published = (np.nan_to_num(each) for each in survived_shares(votes))
    if not share:
        exact, published = exact * votes[0].honest, published * votes[0].honest
    ties = 2 / np.array([vote.honest for vote in votes[1:]]) if share else 2
    rises = bool((np.diff(exact) >= -ties).all() and (np.diff(published) >= -1e-9).all())
    ends = f"{exact[0]:.3g} to {exact[-1]:.3g}"
    return Check(claim=claim, published=f"{published[0]:.3g} to {published[-1]:.3g}", ours=ends, agrees=rises)
