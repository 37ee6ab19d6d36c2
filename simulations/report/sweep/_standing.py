"""How the defences of a sweep stand: what each keeps under its worst attack, and which attacks it survives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Literal

from simulations.report.sweep._axes import amount, number
from simulations.report.sweep._spots import Condition, Field, Key, Spot, at_most
from simulations.report.sweep.grid import Grid

NOBODY = "–"  # what is said of a defence where nobody attacks
UNTRIED = "not tried"  # what is said where every attack failed by itself
KEPT = 0.9  # a defence survives where it keeps this much of the best accuracy at the same privacy and setting


@dataclass(frozen=True)
class Verdict:
    """Whether a defence survives an attack, over all conditions."""

    words: str  # for people: "all", "none", "up to 20%", …
    grade: Literal["all", "part", "none", "unknown"]


@dataclass(frozen=True, eq=False)
class Standing:
    """One defence over the conditions it is compared on."""

    defence: Key
    fields: tuple[Field, ...]  # of every condition in which something is known
    compared: tuple[Field, ...]  # of the conditions known for every defence
    verdicts: tuple[Verdict, ...]  # one an attack, in the order of the axes
    overall: Verdict

    @property
    def mean(self) -> float | None:
        """What the worst attacks leave this defence of accuracy, on average over the conditions compared."""
        return fmean(field.mean for field in self.compared if field.mean is not None) if self.compared else None

    @property
    def words(self) -> str:
        """The mean that this defence keeps, in words; with "≤" where attacks are missing."""
        return at_most(self.mean, any(field.partial for field in self.compared))

    @property
    def least(self) -> Field | None:
        """The field in which the defence keeps least; None where nothing is known."""
        return min(self.fields, key=lambda field: field.mean or 0.0, default=None)


class Standings:
    """All defences, the best first: by what is left on average, over the conditions that are known for each of them."""

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
    def order(self) -> list[Standing]:
        """The sweep's defences with what each keeps and survives, the best first."""
        found = []
        for defence in self.known:
            fields = tuple(self._known(defence))
            compared = tuple(field for field in fields if field.condition in self.common)
            spots = [spot for spot in self.grid.spots if spot.defence == defence]
            by_attack = ([spot for spot in spots if spot.attack == attack] for attack in self.grid.attacks)
            verdicts = tuple(map(self._verdict, by_attack))
            found.append(Standing(defence, fields, compared, verdicts, self._verdict(spots)))
        return sorted(found, key=lambda each: -(each.mean or 0.0))

    def survives(self, spot: Spot) -> bool:
        """Whether a spot keeps 90% of the best accuracy in the sweep at the same privacy and setting."""
        best = max(peer.accuracy.mean for peer in self.peers(spot) if peer.accuracy)
        return spot.accuracy is not None and spot.accuracy.mean >= KEPT * best

    def peers(self, spot: Spot) -> list[Spot]:
        """The spots with a known accuracy at the same privacy and setting: what survival is measured by."""
        return self._peers.get((spot.condition.setting, spot.condition.privacy), [])

    def _verdict(self, spots: list[Spot]) -> Verdict:
        """Whether a defence survives in these spots, in a word: in all conditions attacked, some or none."""
        attacked = [spot for spot in spots if spot.attacked and len(self.peers(spot)) > 1]
        survived: dict[Condition, bool] = {}
        for spot in attacked:
            survived[spot.condition] = survived.get(spot.condition, True) and self.survives(spot)
        missing = [spot for spot in spots if not spot.accuracy]
        untried = bool(missing) and all(spot.untried for spot in missing)
        if not survived:
            return Verdict(UNTRIED if untried else NOBODY, "unknown")
        count = sum(survived.values())
        if count == len(survived) and missing:
            return Verdict("all that was tried" if untried else "all so far", "unknown")
        if count in (0, len(survived)):
            return Verdict("all" if count else "none", "all" if count else "none")
        axes = self.grid.axes["attackers"]
        if len(axes) == 1 and None not in map(number, axes[0].values):
            label = {condition: axes[0].values[condition.attackers[0]] for condition in survived}
            lost = min(float(label[condition]) for condition, kept in survived.items() if not kept)
            below = [each for each in label.values() if float(each) < lost]  # at which everything is survived
            if below:
                return Verdict(f"up to {amount(max(below, key=float))}", "part")
        return Verdict(f"{count} of {len(survived)}", "part")

    @property
    def unattacked(self) -> bool:
        """Whether survival is always measured by an accuracy that nobody attacked, at each privacy."""
        return all(any(not spot.attacked for spot in peers) for peers in self._peers.values())

    @cached_property
    def attacked(self) -> bool:
        """Whether there was any attack in the sweep for its defences to survive."""
        return any(standing.overall.words != NOBODY for standing in self.order)
