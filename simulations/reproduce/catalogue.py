"""What can be reproduced, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from simulations.figures.checks import Claim
from simulations.reproduce.fdp import claims, curves, resilience
from simulations.reproduce.prime import figures as prime_figures
from simulations.reproduce.ptr import release as ptr_release
from simulations.reproduce.ptr import sampled as ptr_sampled


@dataclass(frozen=True)
class Reproduction:
    """A figure of a paper."""

    about: str
    make: Callable[..., curves.Figure]  # the panels, and the claims checked
    note: str = ""  # under the figure
    minutes: float = 0.1  # on one core, at most
    scales: bool = False  # to any budget: `make` is given the minutes there are


@dataclass(frozen=True)
class Text:
    """What a paper says that no figure or table of it shows."""

    about: str
    make: Callable[[], list[Claim]]


CATALOGUE = {
    "fdp-figure-2": Reproduction("[F] Figure 2: privacy of binomial noise, M varied", curves.figure_2),
    "fdp-figure-3": Reproduction("[F] Figure 3: sparsification improves privacy", curves.figure_3),
    "fdp-figure-4": Reproduction("[F] Figure 4: privacy of noisy signs", curves.figure_4),
    "fdp-figure-7": Reproduction(
        "[F] Figure 7: binomial mechanism, privacy and attackers survived", resilience.figure_7, resilience.NOTE
    ),
    "fdp-figure-8": Reproduction(
        "[F] Figure 8: ternary compressor, privacy and attackers survived", resilience.figure_8, resilience.NOTE
    ),
    "fdp-figure-9": Reproduction(
        "[F] Figure 9: attackers survived by the number of honest clients", resilience.figure_9, resilience.NOTE
    ),
    "ptr-figure-1": Reproduction(
        "[P] Figure 1: privacy of one propose-test-release", ptr_release.figure_1, ptr_release.NOTE
    ),
    "ptr-figure-2": Reproduction(
        "[P] Figure 2: Rényi divergence of a sampled one", ptr_sampled.figure_2, ptr_sampled.NOTE_2
    ),
    "ptr-figure-3": Reproduction(
        "[P] Figure 3: privacy of sampled ones over rounds", ptr_sampled.figure_3, ptr_sampled.NOTE_3
    ),
    "ptr-figure-4": Reproduction(
        "[P] Figure 4: privacy of one propose-test-release, τ varied", ptr_release.figure_4, ptr_release.NOTE
    ),
    "ptr-figure-5": Reproduction(
        "[P] Figure 5: privacy of sampled ones over rounds, τ varied", ptr_sampled.figure_5, ptr_sampled.NOTE_5
    ),
    "prime-figure-1": Reproduction(
        "[M] Figure 1: private means under corruption, by dimension and by ε",
        prime_figures.figure_1,
        prime_figures.NOTE,
        minutes=10,
        scales=True,
    ),
    "prime-figure-2": Reproduction(
        "[M] Figure 2: private means under corruption, by the number of records",
        prime_figures.figure_2,
        prime_figures.NOTE,
        minutes=10,
        scales=True,
    ),
}

TEXTS = {
    "fdp-claims": Text("[F]: claims and numbers of its text that no figure shows, and its slips", claims.fdp_claims)
}
