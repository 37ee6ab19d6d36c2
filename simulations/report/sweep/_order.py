"""The order of a sweep's defences in sentences: which holds best, which cannot be told from it, or why none is said."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from shlex import quote

from simulations.figures.intervals import FEWEST, Interval, interval_words
from simulations.report.sweep._axes import first_few
from simulations.report.sweep._spots import Field, Key
from simulations.report.sweep._standing import Standing, Standings
from simulations.report.sweep.grid import Grid

BEHIND = "behind the first, by seed"  # what a column of differences is called
HOW = (
    "Defences are compared seed by seed, each under the attack that is worst for it by the same seeds: a difference is "
    "a mean over seeds ± half of Student's t interval, at 95% for all comparisons with the first together "
    "(Bonferroni), if differences are independent over seeds and normal. Where it contains 0, two are not "
    "distinguishable; the truly best is among those not told from the first with 97.5%."
)


def order_sentences(standings: Standings) -> list[str]:
    """How the defences of a sweep stand to each other, in sentences: ranked where seeds suffice, else just shown."""
    ranking, order = standings.ranking, standings.order
    if len(order) == 1:
        return [f"{under(standings.grid)}, accuracy is {_kept(standings, order[0])}."]
    if not ranking.ranked:
        shown = [f"{standings.grid.defence(each.defence)} {_kept(standings, each)}" for each in order]
        return [f"{under(standings.grid)}, in the order of the grid: {first_few(shown, '; ')}.", not_ranked(standings)]
    first, second, last = (order[at] for at in (0, 1, -1))
    name, kept = standings.grid.defence(first.defence), _kept(standings, first)
    said = f"{name} keeps most, accuracy {kept}, but {_alike(standings, ranking.first)}"
    if len(ranking.first) == 1:
        ahead = interval_words(ranking.difference(first.defence, second.defence))
        said = f"{name} holds best: accuracy {kept}, {ahead} ahead of {standings.grid.defence(second.defence)} by seed"
    name, kept = standings.grid.defence(last.defence), _kept(standings, last)
    alone = len(ranking.last) == 1
    least = f"holds worst: {kept}" if alone else f"keeps least, {kept}, and {_alike(standings, ranking.last)}"
    return [f"{under(standings.grid)}, {said}.", f"{name} {least}."]


def distance(standings: Standings, standing: Standing) -> Interval | None:
    """How much less a defence of a ranked sweep keeps than the first, by seed; None of the first, or of none ranked."""
    first = standings.order[0].defence
    ranked = standings.ranking.ranked and standing.defence != first
    return standings.ranking.difference(first, standing.defence) if ranked else None


def behind(standings: Standings, standing: Standing) -> str:
    """How much less a defence of a ranked sweep keeps than the first, in words for its column in tables."""
    apart = distance(standings, standing)
    return interval_words(apart) + ("" if apart is None or apart.side else ", not distinguishable")


def not_ranked(standings: Standings) -> str:
    """Why the defences of a sweep are not ranked, in a sentence: how many seeds there are, and how many it takes."""
    seeds, more = len(standings.grid.sweep.seeds), ""
    if seeds >= FEWEST:
        seeds, more = standings.ranking.seeds, " done for every defence so far"
    return f"Not ranked: {seeds} seed{'s' * (seeds != 1)}{more}; a ranking needs {FEWEST}."


def command_to_rank(standings: Standings) -> str:
    """The command that adds the seeds to a sweep that a ranking lacks, or goes on with them; "" where it lacks none."""
    sweep = standings.grid.sweep
    if standings.ranking.ranked or len(standings.known) < 2 or not sweep.study:
        return ""
    taken = {*sweep.seeds, *(cell.seed for cell in sweep.trials)}  # those of a choosing report nothing
    unused = (seed for seed in count(1) if seed not in taken)
    seeds = [*sweep.seeds, *(next(unused) for _ in range(FEWEST - len(sweep.seeds)))]
    more = f"--set {quote(f'sweep.run.seed={seeds}')} " * (len(seeds) > len(sweep.seeds))
    return f"fedpriv sweep {quote(str(sweep.directory / 'study.toml'))} {more}--out {quote(str(sweep.directory))}"


def under(grid: Grid) -> str:
    """What a sweep's defences were up against, as a sentence begins: "Under the worst of 4 attacks"."""
    runs = grid.sweep.ran
    if runs and not any(run.byzantine for run in runs):
        return "With nobody attacking"
    attacks = len(grid.attacks)
    if attacks > 1 and any(field.partial for field in grid.fields):
        return f"So far, not under all of {attacks} attacks"
    if attacks > 1:
        return f"Under the worst of {attacks} attacks"
    spot = next((spot for spot in grid.spots if grid.attack(spot) != "no attackers"), grid.spots[0])
    return f"Under {grid.attack(spot)}"


def _alike(standings: Standings, level: Sequence[Key]) -> str:
    """What is said of a defence of a sweep, the first of these, that cannot be told from the others of them."""
    return f"is not distinguishable from {first_few([standings.grid.defence(key) for key in level[1:]], ', ')}"


def _kept(standings: Standings, standing: Standing) -> str:
    """What accuracy a defence of a sweep keeps, on average and at the least, and where, in words."""
    least = standing.least
    assert least is not None
    at_least = f"{least.words}{_at(standings.grid, least)}"
    if standing.mean is None:
        return f"{at_least} at the least"
    if len(standing.compared) == 1:
        return f"{standing.words}{_at(standings.grid, standing.compared[0])}"
    return f"{standing.words} on average over {len(standing.compared)} conditions, {at_least} at the least"


def _at(grid: Grid, field: Field) -> str:
    """The condition and the attack that a field of a sweep stands for, in brackets; "" where there is one of each."""
    words = grid.where(field.condition)
    if len(grid.attacks) > 1 and field.worst:
        words += f"{', ' if words else ''}{grid.attack(field.worst)}" * (grid.attack(field.worst) not in words)
    return f" ({words})" if words else ""
