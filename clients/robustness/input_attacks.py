"""Attacks on the inputs of a trained network, white box and batched: FGSM, I-FGSM, MIM, PGD, and several at once.

Each is given a differentiable network (records → logits), records in the box [−1, 1] and their labels, and gives back
records in the box and within `size` of where they were, in ℓ∞ or ℓ2. Each keeps, for every record, the worst point that
it saw on its way, the record itself included: so no attack ever helps. `INPUT_ATTACKS` has them by name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Protocol

import torch
from torch import Generator, Tensor

from clients.robustness._input_search import Network, Norm, Search, keep, losses_of, norms
from fedpriv.errors import FedprivError, at_least_zero, positive, whole
from fedpriv.registry import Registry
from fedpriv.settings import check_fields


class InputAttack(Protocol):
    """What every attack can do."""

    def __call__(self, network: Network, x: Tensor, y: Tensor, rng: Generator | None = None) -> Tensor:
        """Records near x, in the box, that a network takes for something else than y, where the attack finds such."""


Size = Annotated[float, positive, "μ, how far an input may be moved"]
Steps = Annotated[int, whole, "T, steps of the search"]
Measure = Annotated[Norm, "the norm that size is of"]


@dataclass(frozen=True, kw_only=True)
class Fgsm:
    """One step along the sign of the gradient, or in ℓ2 along the gradient. Goodfellow et al. 2015; [S] equation 7."""

    size: Size
    norm: Measure = "linf"

    def __post_init__(self) -> None:
        check_fields(self)

    def __call__(self, network: Network, x: Tensor, y: Tensor, rng: Generator | None = None) -> Tensor:
        """Each record of x, or the point one step along its gradient where the network's loss is larger."""
        search = Search(network, x, y, self.size, self.norm)
        return search.walked(x, 1, self.size)


@dataclass(frozen=True, kw_only=True)
class IFgsm:
    """T steps of size μ/T. Kurakin, Goodfellow and Bengio 2016; [S] equation 8."""

    size: Size
    steps: Steps = 10
    norm: Measure = "linf"

    def __post_init__(self) -> None:
        check_fields(self)

    def __call__(self, network: Network, x: Tensor, y: Tensor, rng: Generator | None = None) -> Tensor:
        """For each record of x, the point of the highest loss among itself and those of T steps along gradients."""
        search = Search(network, x, y, self.size, self.norm)
        return search.walked(x, self.steps, self.size / self.steps)


@dataclass(frozen=True, kw_only=True)
class Mim:
    """T steps of size μ/T along a running sum of gradients, each divided by its ℓ1 norm. Dong et al. 2018."""

    size: Size
    steps: Steps = 10
    decay: Annotated[float, at_least_zero, "how much of the running sum goes on"] = 1.0
    norm: Measure = "linf"

    def __post_init__(self) -> None:
        check_fields(self)

    def __call__(self, network: Network, x: Tensor, y: Tensor, rng: Generator | None = None) -> Tensor:
        """For each record of x, the point of the highest loss among itself and those of T steps with momentum."""
        search = Search(network, x, y, self.size, self.norm)
        return search.walked(x, self.steps, self.size / self.steps, self.decay)


@dataclass(frozen=True, kw_only=True)
class Pgd:
    """Steps of 2.5μ/T from random points of the ball, projected back into it. Madry et al. 2018."""

    size: Size
    steps: Steps = 10
    restarts: Annotated[int, whole, "points it starts from; the worst counts"] = 1
    norm: Measure = "linf"

    def __post_init__(self) -> None:
        check_fields(self)

    def __call__(self, network: Network, x: Tensor, y: Tensor, rng: Generator | None = None) -> Tensor:
        """For each record of x, the point of the highest loss on the ways from random points of its ball."""
        search = Search(network, x, y, self.size, self.norm)
        draw = partial(torch.rand, generator=rng)
        for _ in range(self.restarts):
            if self.norm == "linf":  # uniform in the ball
                away = (2 * draw(x.shape) - 1) * self.size
            else:
                towards = torch.randn(x.shape, generator=rng)
                reach = draw(len(x)) ** (1 / x[0].numel()) * self.size
                away = towards / norms(towards, 2) * reach.view(-1, *[1] * (x.ndim - 1))
            start = search.inside(x + away)
            search.walked(start, self.steps, 2.5 * self.size / self.steps)
        return search.worst


@dataclass(frozen=True, kw_only=True)
class Ensemble:
    """Several attacks, each on every record: the worst of what they find. [S] Algorithm 1 calls it A."""

    attacks: tuple[InputAttack, ...] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        if not self.attacks:
            raise FedprivError("attacks must name at least one attack")

    def __call__(self, network: Network, x: Tensor, y: Tensor, rng: Generator | None = None) -> Tensor:
        """For each record of x, the point of the highest loss that any of the attacks has found."""
        worst, highest = x.clone(), losses_of(network, x, y)
        for attack in self.attacks:
            found = attack(network, x, y, rng)
            losses = losses_of(network, found, y)
            keep(losses > highest, found, worst)
            highest = torch.maximum(losses, highest)
        return worst


INPUT_ATTACKS = Registry("attack on inputs", InputAttack, (Fgsm, IFgsm, Mim, Pgd))
