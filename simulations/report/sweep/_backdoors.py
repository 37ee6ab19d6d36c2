"""What a sweep tells of backdoors: how often each defence's model takes records with the trigger for the target."""

from __future__ import annotations

from simulations.figures.intervals import Interval, interval_of, interval_words
from simulations.figures.ranking import Ranking, mean_by_seed, ranking_of
from simulations.report.sweep._axes import first_few
from simulations.report.sweep._spots import Field, Key
from simulations.report.sweep.grid import Grid


def backdoor_ranking(grid: Grid) -> Ranking[Key]:
    """A sweep's defences by the share that worst backdoors fail at, by seed, over the conditions known for all."""
    tried = {field: field.worst_by("backdoor") for field in grid.fields}
    known: dict[Key, list[Field]] = {}
    for field in (field for field, worst in tried.items() if worst):
        known.setdefault(field.defence, []).append(field)
    common = set.intersection(*({field.condition for field in fields} for fields in known.values())) if known else set()
    opened = {
        defence: mean_by_seed([worst[0].by_seed("backdoor") for field in fields
                               if field.condition in common and (worst := tried[field])])
        for defence, fields in known.items()
    }  # fmt: skip
    return ranking_of({name: {seed: 1 - each for seed, each in own.items()} for name, own in opened.items()})


def backdoor_sentences(grid: Grid) -> list[str]:
    """What a sweep found of backdoors, in a sentence; none where none was tried, ranked where seeds suffice for it."""
    if not grid.backdoors:
        return []
    ranking = backdoor_ranking(grid)
    opened = {name: interval_words(success_of(ranking, name)) for name in ranking.order}
    begun = "Of the held-out records with the backdoor's trigger, the model takes for its target"
    if not ranking.ranked:
        return [
            f"{begun}: {first_few([f'{words} with {grid.defence(name)}' for name, words in opened.items()], '; ')}."
        ]
    said = []
    for how, level in (("fewest", ranking.first), ("most", ranking.last)):
        alike = f", not distinguishable from {first_few([*map(grid.defence, level[1:])], ', ')}" if level[1:] else ""
        said.append(f"{how} with {grid.defence(level[0])}, {opened[level[0]]}{alike}")
    return [f"{begun} {'; '.join(said)}."]


def success_of(ranking: Ranking[Key], defence: Key) -> Interval | None:
    """A backdoor's success against a defence of a sweep, on average over conditions, and its interval over seeds."""
    return interval_of([1 - own for own in ranking.values.get(defence, {}).values()])
