"""[P] Tables 1, 3 and 4 as they are printed: the rows, the values of ε, the accuracies on the paper's data.

And what ours have beside that: releases that [P] has not, its own protocol, what it leaves open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

GAUSSIAN, DPSGD, PTR = PAPERS = ("TSGD+Gaussian", "DPSGD", "TSGD+PTR")
COIN = "TSGD+PTR (coin)"  # [P] has no coin; what else follows is what [P] leaves open, of either test
RELEASES = (*PAPERS, COIN)
UP, FREE = ", F up", ", no cap"  # after a test that passed, as in Appendix B.1.3; F to the whole batch
VARIANTS = (DPSGD, *(test + variant for test in (PTR, COIN) for variant in ("", UP, FREE)))
NONE = "none"
EPSILON, BUDGET = "privacy.epsilon", "privacy.budget"

Accuracies = tuple[float, float | None, float]  # percent, of the releases in their order; [P] gives some without DPSGD


@dataclass(frozen=True, kw_only=True)
class PaperTable:
    """One table: its rows, its values of ε, and what [P] found on its data."""

    about: str
    on: str  # the data of [P]
    published: Mapping[tuple[str, float], Accuracies]  # by row and ε; their order is the table's
    releases: tuple[str, ...] = RELEASES  # what it sets side by side
    axis: str = EPSILON  # what ε is: a target that noise is calibrated to in equal steps, or when a training ends
    colour: bool = False  # whether it is of CIFAR-10's images, with settings of their own

    def paper(self, row: str, epsilon: float, release: str) -> float | None:
        """What [P] has at a place of its table, in percent; None where it has nothing."""
        return dict(zip(PAPERS, self.published[row, epsilon], strict=True)).get(release)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Which releases the table compares: propose-test-release by each test with each release without."""
        plain = [release for release in self.releases if release in (GAUSSIAN, DPSGD)]
        return [(tested, other) for tested in self.tested for other in plain]

    @property
    def tested(self) -> list[str]:
        """The table's releases that propose and test, in its order."""
        return [release for release in self.releases if release not in (GAUSSIAN, DPSGD)]

    @property
    def rows(self) -> list[str]:
        """The labels of the table's corruptions, such as "gradient 0.1", in the paper's order."""
        return list(dict.fromkeys(row for row, _ in self.published))

    @property
    def epsilons(self) -> list[float]:
        """The table's values of ε, in the paper's order."""
        return list(dict.fromkeys(epsilon for _, epsilon in self.published))


def _published(epsilons: tuple[float, float], rows: Mapping[str, tuple[Accuracies, Accuracies]]) -> Mapping[Any, Any]:
    """A table's printed accuracies by row and ε, from rows that hold one entry for each of the two ε."""
    return {(row, epsilon): each[at] for row, each in rows.items() for at, epsilon in enumerate(epsilons)}


_MNIST = _published((3.0, 5.0), {
    NONE: ((87.53, None, 91.43), (81.31, None, 92.80)),
    "label 0.1": ((90.15, None, 93.29), (89.15, None, 94.61)),
    "label 0.2": ((91.33, None, 92.70), (92.47, None, 94.08)),
    "feature 0.1": ((89.47, None, 92.28), (86.53, None, 93.39)),
    "feature 0.2": ((91.71, None, 92.29), (86.99, None, 92.86)),
    "gradient 0.1": ((90.27, None, 91.70), (88.41, None, 91.68)),
    "gradient 0.2": ((91.13, None, 91.45), (88.70, None, 90.31)),
})  # fmt: skip

TABLES = {
    "ptr-table-1": PaperTable(
        about="[P] Table 1: accuracy at equal ε, labels, features or gradients corrupted", on="MNIST", published=_MNIST
    ),
    "ptr-table-1-variants": PaperTable(
        about="[P] Table 1, what [P] leaves open: which way F goes after a test, and how far",
        on="MNIST",
        published={spot: _MNIST[spot] for spot in ((NONE, 3.0), ("label 0.2", 3.0), ("gradient 0.2", 3.0))},
        releases=VARIANTS,
    ),
    "ptr-table-1-printed": PaperTable(
        about="[P] Table 1 by its own protocol: the printed noises, trained until ε is spent",
        on="MNIST",
        published=_MNIST,
        releases=(GAUSSIAN, PTR),
        axis=BUDGET,
    ),
    "ptr-table-1-cifar": PaperTable(
        about="[P] Table 1, CIFAR-10: accuracy at equal ε, labels, features or gradients corrupted",
        on="CIFAR-10",
        published=_published((7.0, 10.0), {
            NONE: ((57.94, None, 58.92), (58.82, None, 60.13)),
            "label 0.1": ((55.48, None, 56.26), (57.42, None, 58.22)),
            "label 0.2": ((49.69, None, 50.95), (52.95, None, 53.11)),
            "feature 0.1": ((55.70, None, 56.63), (57.36, None, 58.68)),
            "feature 0.2": ((55.13, None, 55.53), (56.93, None, 57.34)),
            "gradient 0.1": ((55.81, None, 57.29), (57.21, None, 58.96)),
            "gradient 0.2": ((54.45, None, 56.31), (56.11, None, 57.48)),
        }),
        colour=True,
    ),
    "ptr-table-3": PaperTable(
        about="[P] Table 3: accuracy at equal ε, labels flipped to a target or gradients upside down",
        on="EMNIST letters",
        published=_published((2.0, 2.5), {
            NONE: ((72.94, None, 76.44), (79.15, None, 81.02)),
            "targeted label 0.1": ((72.06, None, 75.11), (76.25, None, 78.97)),
            "targeted label 0.2": ((70.72, None, 73.85), (73.69, None, 76.67)),
            "gradient sign 0.1": ((69.58, None, 75.67), (75.39, None, 78.82)),
            "gradient sign 0.2": ((65.13, None, 75.67), (71.85, None, 78.85)),
        }),
    ),
    "ptr-table-4": PaperTable(
        about="[P] Table 4: accuracy at equal ε, beside DP-SGD without trimming",
        on="EMNIST letters",
        published=_published((2.0, 2.5), {
            NONE: ((72.94, 77.29, 76.44), (79.15, 83.06, 81.02)),
            "label 0.1": ((72.60, 74.80, 75.66), (79.38, 79.30, 80.63)),
            "label 0.2": ((70.03, 71.42, 72.62), (77.48, 77.43, 79.19)),
            "feature 0.1": ((69.60, 74.58, 74.01), (77.80, 80.95, 81.04)),
            "feature 0.2": ((70.04, 73.79, 74.76), (78.99, 79.43, 80.74)),
            "gradient 0.1": ((71.75, 72.97, 76.19), (77.32, 76.59, 77.73)),
            "gradient 0.2": ((70.76, 71.22, 74.65), (76.68, 75.69, 77.17)),
        }),
    ),
}  # fmt: skip
