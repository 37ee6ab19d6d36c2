"""How the defences of a sweep stand: what each keeps under its worst attack, and which attacks it survives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Literal

from simulations.figures.intervals import FEWEST, Interval, interval_of, paired_interval
from simulations.figures.ranking import Ranking, mean_by_seed, ranking_of
from simulations.report.sweep._axes import amount, number
from simulations.report.sweep._spots import Condition, Field, Key, Spot, at_most
from simulations.report.sweep.grid import Grid

NOBODY = "–"  # what is said of a defence where nobody attacks
UNTRIED = "not tried"  # what is said where every attack failed by itself
OPENED = 0.1  # and where a backdoor opens to no more of the records it is tried on
KEPT = 0.9  # a defence survives where it keeps this much of the best accuracy at the same privacy and setting


@dataclass(frozen=True)
class Verdict:
    """Whether a defence survives an attack, over all conditions."""

    words: str  # for people: "all", "none", "up to 20%", …
    grade: Literal["all", "part", "none", "unknown", "open"]  # open: seeds cannot tell


@dataclass(frozen=True, eq=False)
class Standing:
    """One defence over the conditions it is compared on."""

    defence: Key
    fields: tuple[Field, ...]  # of every condition in which something is known
    compared: tuple[Field, ...]  # of the conditions known for every defence
    verdicts: tuple[Verdict, ...]  # one an attack, in the order of the axes
    overall: Verdict
    by_seed: Mapping[int, float]  # what it keeps on average over the conditions compared, of the seeds that all have

    @property
    def kept(self) -> Interval | None:
        """What the worst attacks leave this defence, on average over the conditions compared; None of no condition.

        Over the seeds that every defence has in all of them; where there is no such seed, it has no interval.
        """
        means = [field.mean for field in self.compared if field.mean is not None]
        return interval_of(list(self.by_seed.values())) or interval_of([fmean(means)] if means else [])

    @property
    def mean(self) -> float | None:
        """What the worst attacks leave this defence of accuracy, on average over the conditions compared."""
        return self.kept.mean if self.kept else None

    @property
    def words(self) -> str:
        """The mean that this defence keeps, and its interval, in words; with "≤" where attacks are missing."""
        return at_most(self.kept, any(field.partial for field in self.compared))

    @property
    def least(self) -> Field | None:
        """The field in which the defence keeps least; None where nothing is known."""
        return min(self.fields, key=lambda field: field.mean or 0.0, default=None)


class Standings:
    """All defences; ranked by what is left on average over the conditions known for each, where seeds suffice."""

    def __init__(self, grid: Grid) -> None:
        """Ready to rank the defences of a sweep's grid, by what is known of its spots."""
        self.grid = grid
        self._peers: dict[tuple[Key, Key], list[Spot]] = {}  # what is known, by setting and privacy
        for spot in grid.spots:
            if spot.accuracy:
                self._peers.setdefault((spot.condition.setting, spot.condition.privacy), []).append(spot)

    def _known(self, defence: Key) -> list[Field]:
        """The fields of a defence, one a condition, of which an accuracy is known."""
        return [field for field in self.grid.fields if field.defence == defence and field.worst]

    @cached_property
    def known(self) -> list[Key]:
        """The sweep's defences of which any accuracy is known, in the order of the axes."""
        return [defence for defence in self.grid.defences if self._known(defence)]

    @cached_property
    def common(self) -> set[Condition]:
        """The conditions in which something is known of every known defence: they are ranked on these."""
        every = [{field.condition for field in self._known(defence)} for defence in self.known]
        return set.intersection(*every) if every else set()

    @cached_property
    def ranking(self) -> Ranking[Key]:
        """The sweep's defences by what the worst attacks leave each, by seed, over the conditions known for all."""
        worst = {defence: [field.worst for field in self._compared(defence)] for defence in self.known}
        return ranking_of({
            defence: mean_by_seed([spot.by_seed() for spot in own if spot]) for defence, own in worst.items()
        })  # fmt: skip

    @cached_property
    def order(self) -> list[Standing]:
        """The sweep's defences with what each keeps and survives: the best first where seeds suffice to rank them."""
        return [self._standing(defence) for defence in self.ranking.order]

    def _compared(self, defence: Key) -> tuple[Field, ...]:
        """The fields of a defence in the conditions that are known for every defence."""
        return tuple(field for field in self._known(defence) if field.condition in self.common)

    def _standing(self, defence: Key) -> Standing:
        """How one defence of the sweep stands, over all conditions and against each attack."""
        spots = [spot for spot in self.grid.spots if spot.defence == defence]
        by_attack = ([spot for spot in spots if spot.attack == attack] for attack in self.grid.attacks)
        return Standing(
            defence, tuple(self._known(defence)), self._compared(defence), tuple(map(self._verdict, by_attack)),
            self._verdict(spots), self.ranking.values[defence],
        )  # fmt: skip

    def survives(self, spot: Spot) -> bool | None:
        """Whether a spot keeps 90% of the best mean accuracy, and its backdoor shut; None where open.

        Where seeds suffice it does or does not by an interval over seeds, which is open where it contains the limit.
        """
        known = [(peer, peer.accuracy.mean) for peer in self.peers(spot) if peer.accuracy]
        if not spot.accuracy:
            return False
        best, most = max(known, key=lambda each: each[1])
        over = paired_interval(spot.by_seed(), {seed: KEPT * value for seed, value in best.by_seed().items()})
        under = interval_of([OPENED - own for own in spot.by_seed("backdoor").values()])
        both = {
            _settled(over, by_mean=spot.accuracy.mean >= KEPT * most),
            _settled(under, by_mean=under is None or under.mean >= 0),
        }
        return False if False in both else None if None in both else True

    def peers(self, spot: Spot) -> list[Spot]:
        """The spots with a known accuracy at the same privacy and setting: what survival is measured by."""
        return self._peers.get((spot.condition.setting, spot.condition.privacy), [])

    def _verdict(self, spots: list[Spot]) -> Verdict:
        """Whether a defence survives in these spots, in a word: in all conditions attacked, some or none."""
        attacked = [spot for spot in spots if spot.attacked and len(self.peers(spot)) > 1]
        survived: dict[Condition, bool | None] = {}
        for spot in attacked:
            both = {survived.get(spot.condition, True), self.survives(spot)}
            survived[spot.condition] = False if False in both else None if None in both else True
        missing = [spot for spot in spots if not spot.accuracy]
        untried = bool(missing) and all(spot.untried for spot in missing)
        if not survived:
            return Verdict(UNTRIED if untried else NOBODY, "unknown")
        count, undecided = (list(survived.values()).count(own) for own in (True, None))
        if count == len(survived) and missing:
            return Verdict("all that was tried" if untried else "all so far", "unknown")
        if not undecided and count in (0, len(survived)):
            return Verdict("all" if count else "none", "all" if count else "none")
        said = (self._up_to(survived) or f"{count} of {len(survived)}") + f", {undecided} open" * bool(undecided)
        return Verdict(said, "part" if False in survived.values() else "open")

    def _up_to(self, survived: Mapping[Condition, bool | None]) -> str:
        """A verdict's "up to 20%": every condition with so many attackers or fewer is survived; "" where none is."""
        axes = self.grid.axes["attackers"]
        if len(axes) != 1 or None in map(number, axes[0].values):
            return ""
        label = {condition: axes[0].values[condition.attackers[0]] for condition in survived}
        lost = min(float(label[condition]) for condition, kept in survived.items() if not kept)
        below = [each for each in label.values() if float(each) < lost]
        return f"up to {amount(max(below, key=float))}" if below else ""

    @property
    def unattacked(self) -> bool:
        """Whether survival is always measured by an accuracy that nobody attacked, at each privacy."""
        return all(any(not spot.attacked for spot in peers) for peers in self._peers.values())

    @cached_property
    def attacked(self) -> bool:
        """Whether there was any attack in the sweep for its defences to survive."""
        return any(standing.overall.words != NOBODY for standing in self.order)


def _settled(over: Interval | None, *, by_mean: bool) -> bool | None:
    """Whether a sweep's value is above its limit by the interval of its excess, None where open; else by means."""
    if over is None or over.seeds < FEWEST:
        return by_mean
    return over.side > 0 if over.side else None
