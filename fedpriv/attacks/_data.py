"""Attacks on the data: a Byzantine client trains honestly on records that it has changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedpriv.attacks._view import OWN
from fedpriv.errors import FedprivError, natural, positive
from fedpriv.settings import check_fields

Features = NDArray[np.float32]  # (attackers, batch, …), as the model sees them
Labels = NDArray[np.int64]  # (attackers, batch)


@dataclass(frozen=True, kw_only=True)
class LabelFlip:
    """y → L − 1 − y on every record, L the number of classes. Fang et al. 2020, section 5."""

    knowledge: ClassVar = OWN
    of_classes: ClassVar = True

    def on_data(self, x: Features, y: Labels, classes: int, generators: Sequence[Generator]) -> tuple[Features, Labels]:
        """The attackers' batches, or corrupted records, with every label y flipped to L − 1 − y; features as they are.

        >>> LabelFlip().on_data(np.zeros((1, 3, 2), np.float32), np.array([[0, 1, 9]]), 10, [])[1]
        array([[9, 8, 0]])
        """
        return x, classes - 1 - y


@dataclass(frozen=True, kw_only=True)
class RandomLabel:
    """Each label replaced by one of the others, all alike. [P] appendix B.1.1."""

    knowledge: ClassVar = OWN
    of_classes: ClassVar = True

    def on_data(self, x: Features, y: Labels, classes: int, generators: Sequence[Generator]) -> tuple[Features, Labels]:
        """The attackers' batches, or corrupted records, with another label each, drawn; features as they are.

        >>> y = np.array([[0, 1, 9]])
        >>> RandomLabel().on_data(np.zeros((1, 3, 2), np.float32), y, 10, [np.random.default_rng(1)])[1]
        array([[5, 6, 6]])
        """
        steps: list[Any] = [rng.integers(1, classes, y.shape[1:]) for rng in generators]
        return x, (y + np.asarray(steps, np.int64).reshape(y.shape)) % classes


@dataclass(frozen=True, kw_only=True)
class TargetedFlip:
    """Labels source → target, the others as they are. Tolpegin et al. 2020, section 3."""

    source: Annotated[int, natural, "the class whose records get another label"]
    target: Annotated[int, natural, "the label they get"]

    knowledge: ClassVar = OWN
    of_classes: ClassVar = True

    def __post_init__(self) -> None:
        """Refuse, in a study's table of its attack, a source and a target that are no classes, or the same."""
        check_fields(self)
        if self.source == self.target:
            raise FedprivError(f"target must differ from source = {self.source}")

    def on_data(self, x: Features, y: Labels, classes: int, generators: Sequence[Generator]) -> tuple[Features, Labels]:
        """The attackers' batches, or corrupted records, with label source made target; features as they are.

        >>> TargetedFlip(source=1, target=7).on_data(np.zeros((1, 3, 2), np.float32), np.array([[0, 1, 9]]), 10, [])[1]
        array([[0, 7, 9]])
        """
        if not max(self.source, self.target) < classes:
            raise FedprivError(f"source and target must be below {classes}, the number of classes, got {self}")
        return x, np.where(y == self.source, self.target, y)


@dataclass(frozen=True, kw_only=True)
class FeatureNoise:
    """x + N(0, deviation²) on every feature, in the units the model sees; each attacker its own. [P] appendix B.1.1."""

    deviation: Annotated[float, positive, "the noise's standard deviation, in the units the model sees"] = 1.0

    knowledge: ClassVar = OWN

    def __post_init__(self) -> None:
        """Refuse, in a study's table of its attack, a deviation that is not positive."""
        check_fields(self)

    def on_data(self, x: Features, y: Labels, classes: int, generators: Sequence[Generator]) -> tuple[Features, Labels]:
        """The attackers' batches, or corrupted records, with drawn noise on all features; labels as they are."""
        noise: list[Any] = [rng.normal(0, self.deviation, x.shape[1:]) for rng in generators]
        return x + np.asarray(noise, np.float32).reshape(x.shape), y
