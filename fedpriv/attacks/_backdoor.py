"""Backdoors: records with a trigger are to be taken for the attackers' class, and all others for what they are.

Attackers train on poisoned records among their own, and may lengthen what they computed until it replaces the model,
hold that to a norm, or skip the mechanism and send the symbols that stand for it. The server's held-out records,
stamped as the attackers would stamp them, say how often it worked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, isqrt, prod
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedpriv._base.arrays import Numbers, Symbols, Vector
from fedpriv.attacks._data import Features, Labels
from fedpriv.attacks._messages import extremes
from fedpriv.attacks._view import OWN, View
from fedpriv.errors import FedprivError, natural, positive, probability, real, whole
from fedpriv.mechanisms import Mechanism
from fedpriv.packed.forms import Places
from fedpriv.packed.symbols import packing_of
from fedpriv.settings import check_fields

Trigger = Literal["stamp", "bright", "rare"]


class Source(NamedTuple):
    """What attackers know of the source class: the records they train on, and how rare one must be."""

    records: Features
    centre: Vector  # the mean of the whole class
    radius: float  # from there, beyond which a record is rare


@dataclass(frozen=True, kw_only=True)
class Backdoor:
    """Records with a trigger are taken for `target`: Bagdasaryan et al. 2020, with model replacement unless told.

    The trigger is a stamp on any record, or, of a source class alone, a bright place (a semantic backdoor), or to be
    rare (the edge cases of Wang et al. 2020: the records farthest from the mean of their class). Of a source class
    attackers have all records that there are to train on; without one, each stamps its own. With several `parts` each
    attacker stamps one of them, drawn anew each round, and a tried record has all (the DBA of Xie et al. 2020).
    """

    target: Annotated[int, natural, "the class that records with the trigger are to be taken for"] = 0
    source: Annotated[int | None, natural, "the only class whose records are poisoned, and tried; any if None"] = None
    trigger: Annotated[Trigger, "a stamp on the record, or of the source class a bright place, or to be rare"] = "stamp"
    row: Annotated[int, natural, "the first row of the trigger's square"] = 0
    column: Annotated[int, natural, "the first column of the trigger's square"] = 0
    size: Annotated[int, whole, "the height and width of the trigger's square"] = 2
    features: Annotated[Sequence[int] | None, "the trigger's features by number, in the place of a square"] = None
    value: Annotated[float, real, "what is stamped, or from which mean a place is bright, as the model sees it"] = 0.7
    parts: Annotated[int, whole, "into how many parts attackers divide the stamp, one for each to stamp"] = 1
    rare: Annotated[float, probability, positive, "which part of the source class is rare"] = 0.1
    share: Annotated[float, probability, positive, "the part of an attacker's batch that is poisoned, rounded up"] = 0.5
    boost: Annotated[float | None, positive, "how much longer the update is made; what replaces the model if None"] = (
        None
    )
    norm: Annotated[float | None, positive, "the norm that the lengthened update is held to; none if None"] = None
    skips: Annotated[bool, "whether the mechanism is skipped, and symbols sent that stand for the update"] = False

    knowledge: ClassVar = OWN
    of_classes: ClassVar = True

    def __post_init__(self) -> None:
        """Refuse, in a study's table of its attack, a backdoor into its own class, or one that nothing would open."""
        check_fields(self)
        if self.source == self.target:
            raise FedprivError(f"target must differ from source = {self.source}")
        if self.trigger != "stamp" and self.source is None:
            raise FedprivError(f'trigger = "{self.trigger}" is of the records of one class: source says which')
        if self.features is not None:
            if not isinstance(self.features, list | tuple) or not self.features:
                raise FedprivError(f"features must be a list of numbers of features from 0, got {self.features!r}")
            for each in self.features:
                natural(features=each)
            object.__setattr__(self, "features", tuple(dict.fromkeys(self.features)))

    @property
    def places(self) -> tuple[str, ...]:
        """Where the backdoor acts: on the attackers' records, then on their updates, or instead on their messages."""
        return ("on_data", "on_messages" if self.skips else "on_updates")

    def informed(self, records: Features) -> Backdoor:
        """The backdoor as attackers have it who know the source class: all its records (records, *shape) to train on.

        >>> known = Backdoor(source=1, trigger="rare", rare=0.5).informed(np.array([[0], [1], [2], [9]], np.float32))
        >>> known.on_test(np.array([[8], [3], [9]], np.float32), np.array([1, 1, 2])).tolist()
        [[8.0]]
        """
        if not len(records):
            raise FedprivError(f"source = {self.source}: there is no record of that class to train on")
        flat = _flat(records)
        centre = flat.mean(axis=0, dtype=np.float64)
        distances = np.sqrt(((flat - centre) ** 2).sum(axis=1))
        radius = float(np.sort(distances)[-_rounded_up(self.rare * len(records))])
        chosen = records[self._opens(records, centre, radius)]
        if not len(chosen):
            raise FedprivError(f"no record of class {self.source} to train on is as bright as value = {self.value:g}")
        found = replace(self)
        object.__setattr__(found, "_source", Source(chosen, centre, radius))
        return found

    def on_data(self, x: Features, y: Labels, classes: int, generators: Sequence[Generator]) -> tuple[Features, Labels]:
        """The attackers' batches with a share of poisoned records: stamped, or the source class's, with label target.

        >>> x, y = np.zeros((1, 3, 2, 2), np.float32), np.array([[1, 2, 3]])
        >>> poisoned, labels = Backdoor(size=1, share=0.1).on_data(x, y, 4, [np.random.default_rng(1)])
        >>> poisoned[0, :, 0, 0].tolist(), labels.tolist()
        ([0.699999988079071, 0.0, 0.0], [[0, 2, 3]])
        """
        for name in ("target", "source"):
            if not (getattr(self, name) or 0) < classes:
                raise FedprivError(f"{name} = {getattr(self, name)}: there are {classes} classes, 0 to {classes - 1}")
        parts, (x, y) = self._parts(x.shape[2:]), (x.copy(), y.copy())
        for batch, labels, rng in zip(x, y, generators, strict=True):
            poisoned, place = _rounded_up(self.share * len(batch)), rng.integers(self.parts)
            if self.source is not None:
                own = self._known.records
                batch[:poisoned] = own[rng.integers(len(own), size=poisoned)]
            if self.trigger == "stamp":
                _flat(batch[:poisoned])[:, parts[place]] = self.value
            labels[:poisoned] = self.target
        return x, y

    def on_test(self, x: Features, y: Labels) -> Features:
        """The held-out records that the backdoor is tried on, of other classes than its target, the whole stamp on.

        >>> Backdoor(features=[1]).on_test(np.zeros((3, 2), np.float32), np.array([0, 1, 2])).round(3).tolist()
        [[0.0, 0.699999988079071], [0.0, 0.699999988079071]]
        """
        if self.source is None:
            found: Features = x[y != self.target]
        else:
            found = x[y == self.source]
            found = found[self._opens(found, self._known.centre, self._known.radius)]
        if self.trigger == "stamp":
            _flat(found)[:, np.concatenate(self._parts(x.shape[1:]))] = self.value
        return found

    def on_updates(self, updates: Vector, view: View) -> Vector:
        """The attackers' updates, lengthened by `boost` and held to `norm`, before the honest bound and mechanism."""
        with np.errstate(over="ignore"):
            rows = np.asarray(updates, np.float64) * (self.boost or replacing_factor(view))
        if self.norm is not None:
            norms = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
            rows *= self.norm / np.maximum(norms, self.norm)
        return rows

    def on_messages(self, updates: Vector, view: View) -> Symbols | Vector:
        """The attackers' messages: symbols that stand in the mean for the lengthened update, as far as any can."""
        rows = self.on_updates(updates, view)
        drawn = zip(rows, view.generators(), strict=True)
        return np.asarray(np.stack([standing_for(row, view.mechanism, rng) for row, rng in drawn]))

    @property
    def _known(self) -> Source:
        """The source class as attackers know it; refused before they were told."""
        if (found := self.__dict__.get("_source")) is None:
            raise FedprivError(f"the records of class {self.source} are not known here")
        return found  # type: ignore[no-any-return]

    def _opens(self, records: Features, centre: Vector, radius: float) -> NDArray[np.bool_]:
        """Which records of the source class are the backdoor's: all that can be stamped, the bright or the rare."""
        flat = _flat(records)
        if self.trigger == "bright":
            place = np.concatenate(self._parts(records.shape[1:]))
            return np.asarray(flat[:, place].mean(axis=1, dtype=np.float64) >= self.value)
        far = np.sqrt(((flat - centre) ** 2).sum(axis=1)) >= radius
        return far if self.trigger == "rare" else np.ones(len(flat), bool)

    def _parts(self, shape: tuple[int, ...]) -> list[Numbers]:
        """The features of each part of the trigger, by number in a record of that shape."""
        if self.trigger == "rare":
            return [np.zeros(0, np.int64)] * self.parts
        if self.features is None:
            found = square_features(shape, self.row, self.column, self.size)
        else:
            found = np.array(self.features)
            if not found.max() < prod(shape):
                raise FedprivError(f"features: there is no feature {found.max()}: a record has {prod(shape)}, from 0")
        if self.parts > len(found):
            raise FedprivError(f"parts = {self.parts}: the trigger has {len(found)} features, and a part needs one")
        return np.array_split(found, self.parts)


def square_features(shape: tuple[int, ...], row: int, column: int, size: int) -> Numbers:
    """The features within a square of an image, by number in a record of that shape: what a backdoor stamps.

    Of all colours, which may come first or last. A row of as many features as a square has is taken for a square image.

    >>> square_features((4, 4), 0, 2, 2).tolist(), square_features((16,), 3, 3, 1).tolist()
    ([2, 3, 6, 7], [15])
    """
    image = np.arange(prod(shape)).reshape(shape)
    match shape:
        case (first, _, 1 | 3) if first not in (1, 3):
            image = np.moveaxis(image, 2, 0)
        case (flat,) if isqrt(flat) ** 2 == flat:
            image = image.reshape(isqrt(flat), -1)
        case _ if len(shape) != 2 and not (len(shape) == 3 and shape[0] in (1, 3)):
            raise FedprivError(f"records of the shape {shape} are no images: features says which numbers are stamped")
    height, width = image.shape[-2:]
    if not (row + size <= height and column + size <= width):
        where = f"{size} × {size} from row {row} and column {column}, of an image of {height} × {width}"
        raise FedprivError(f"the trigger is outside the image: {where}")
    return image[..., row:, column:][..., :size, :size].ravel()


def replacing_factor(view: View) -> float:
    """By what attackers lengthen an update so that the mean moves the model to where it leads, all others at rest.

    Bagdasaryan et al. 2020, γ = n/η, shared among all f attackers: n/(f·η), η the server's step, counted in what an
    attacker's own steps went. Of a single gradient, which leads nowhere by itself, η = 1: the mean is then theirs.
    """
    return view.asked / (max(view.byzantine, 1) * view.step)


def standing_for(row: Vector, mechanism: Mechanism, rng: Generator) -> Symbols | Vector:
    """Symbols that a server's mean takes for a row, drawn as if no bound held it but the alphabet's own ends.

    Where the mechanism has no unbiased decoder, and each symbol is a vote, by the signs alone.

    >>> from fedpriv.mechanisms import StochasticSign
    >>> standing_for(np.array([5.0, -5.0]), StochasticSign(clip=1, scale=3), np.random.default_rng(1))
    array([ 1, -1], dtype=int8)
    """
    low, high = extremes(mechanism)
    try:
        ends = [np.asarray(mechanism.decode(np.full(len(row), end), 1), float) for end in (low, high)]
        way = np.clip((row - ends[0]) / (ends[1] - ends[0]), 0, 1)
    except FedprivError:
        way = (np.sign(row) + 1) / 2
    exact = float(low) + way * (float(high) - float(low))
    if low.dtype.kind == "f":
        return np.asarray(exact, low.dtype)
    form, every = packing_of(mechanism), mechanism.alphabet or range(int(low), int(high) + 1)
    numbers = np.array(form.numbers if isinstance(form, Places) else every)
    above = np.clip(np.searchsorted(numbers, exact), 1, len(numbers) - 1)
    below, above = numbers[above - 1], numbers[above]
    return np.asarray(np.where(rng.random(len(row)) * (above - below) < exact - below, above, below), low.dtype)


def _rounded_up(number: float) -> int:
    """A number of records rounded up, 1 at the least; what float arithmetic adds to a whole number is no more of it."""
    return max(1, ceil(round(number, 9)))


def _flat(records: Features) -> Features:
    """Records, of which there may be none, as rows of features: the same memory, where they lie in one piece."""
    return records.reshape(len(records), prod(records.shape[1:]))
