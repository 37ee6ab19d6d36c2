"""Every mechanism as the laws try it: one that is added meets all of them once it stands in TRIED."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedpriv.errors import FedprivError
from fedpriv.mechanisms import (
    Binomial,
    BinomialNoise,
    Cldp,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    NoisySign,
    RandomisedResponse,
    ShapedBinomial,
    Sign,
    Skellam,
    StochasticSign,
    Table,
    Ternarize,
    Ternary,
)

TRIED: list[Any] = [  # of clip 1; a kind that stands in no other table has peak 1 too
    StochasticSign(clip=1.0, peak=0.25, scale=2),
    Binomial(clip=1.0, peak=0.5, scale=2, trials=4),
    Cldp(clip=1.0, epsilon=0.5),
    NoisySign(clip=1.0, peak=0.5, noise=8),
    Ternary(clip=1.0, peak=0.5, spread=2, scale=4),
    Ternarize(clip=1.0, scale=4),
    BinomialNoise(clip=1.0, levels=4, trials=400),
    BinomialNoise(clip=1.0, levels=2, trials=300, bias=0.3),
    DiscreteGaussian(clip=1.0, levels=4, noise=4),
    Skellam(clip=1.0, levels=4, noise=4),
    Gaussian(clip=1.0, noise=5),
    Laplace(clip=1.0, noise=10),
    RandomisedResponse(clip=1.0, levels=3, epsilon=1.0),
    ShapedBinomial(clip=1.0, peak=0.5, trials=4, low=0.4, high=0.6, shape="sine"),
    DiscreteLaplace(clip=1.0, levels=8, noise=2.0),
    Sign(clip=1.0),
    Table(  # a vote that says how sure it is: twice as much as that weighs it
        levels=(-1.0, 0.0, 1.0), chances=((0.4, 0.3, 0.15, 0.15), (0.25, 0.25, 0.25, 0.25), (0.15, 0.15, 0.3, 0.4))
    ),
]


def others(named: Sequence[Any]) -> list[Any]:
    """Those of TRIED whose kinds a test's own table lacks: of the kinds that it names it has settings of its own."""
    return [own for own in TRIED if type(own) not in {type(each) for each in named}]


def decodes(mechanism: Any) -> bool:
    """Whether it has an unbiased decoder: one that has none says so."""
    try:
        mechanism.decode(0.0, 1)
    except FedprivError:
        return False
    return True
