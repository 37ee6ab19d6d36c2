"""[S] Figures 2, 4 and 6 as far as its text gives their numbers, and what each of them asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

STOBATCH, ADLM, SECURE, DPSGD, PIXELDP, PLAIN = METHODS = (
    "StoBatch", "AdLM", "SecureSGD", "DP-SGD", "PixelDP", "no defence",
)  # fmt: skip
PRINTED = "one noise for all"
EACH = "noise for each"
HONEST = "noise for ε"
DRAWS = {
    PRINTED: "as [S] draws it, one noise vector in all examples: it protects none of them, whatever ε is printed",
    EACH: "of the same scale, drawn afresh for each example: it protects that example at the example-level ε given",
    HONEST: "drawn for each example, at the scale whose example-level ε is the one that others are compared at",
}


@dataclass(frozen=True, kw_only=True)
class PaperFigure:
    """One figure: what is trained, what it is asked, and what [S] says of it, in percent."""

    about: str
    epsilons: tuple[float, ...]  # published ones, the most telling first
    sizes: tuple[float, ...]  # μ of the attacks, in ℓ∞
    certified: bool  # certified accuracy, and not accuracy under attack
    published: Mapping[tuple[str, float], float]  # by method and what is below the figure


FIGURES = {
    "stobatch-figure-2": PaperFigure(
        about="[S] Figure 2: accuracy under attacks of μ = .2, by the published ε",
        epsilons=(2.0, 0.2, 1.0),
        sizes=(0.2,),
        certified=False,
        published={(STOBATCH, 0.2): 82.7, (STOBATCH, 2.0): 89.59, (SECURE, 0.2): 11.2, (SECURE, 2.0): 44.1},
    ),
    "stobatch-figure-4": PaperFigure(
        about="[S] Figure 4: accuracy under attacks by their size, at the published ε = .2",
        epsilons=(0.2,),
        sizes=(0.05, 0.1, 0.2, 0.4, 0.6),
        certified=False,
        published={},
    ),
    "stobatch-figure-6": PaperFigure(
        about="[S] Figure 6: certified accuracy by the radius, at the published ε = 1",
        epsilons=(1.0,),
        sizes=(0.05,),
        certified=True,
        published={
            (STOBATCH, 0.05): 84.29, (STOBATCH, 0.6): 72.41, (PIXELDP, 0.05): 94.19, (PIXELDP, 0.6): 9.08,
            (SECURE, 0.05): 87.23, (SECURE, 0.6): 5.26,
        },
    ),
}  # fmt: skip
