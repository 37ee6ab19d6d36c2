"""Releases that are made once and kept: a client noises its records, and every round is a function of what it kept.

The kinds of `[privacy.release]` that train on noised records: StoBatch of [S], and AdLM, the same functional mechanism
without the adversarial part (Phan et al. 2017). However many rounds, studies and models there are, they cost what
`FunctionalMechanism.events` cost, once. Neighbours differ in one record, replaced by another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import Field, asdict, dataclass, replace
from math import exp, log
from typing import Annotated, Any, ClassVar, Protocol

from fedpriv.accounting.account import Account
from fedpriv.certified.functional import FunctionalMechanism, epsilon_1_of
from fedpriv.errors import FedprivError, at_least_zero, positive, real, whole
from fedpriv.registry import UNPROVED, Registry
from fedpriv.settings import check_fields

PUBLISHED = 1.0  # the total ε of [S], where a study gives none
NORM = 1.0  # ‖θ₁‖_{1,1}, which `clients.models.stobatch` keeps the first layer's columns to
SIZES = ("inputs", "patch", "hidden", "last")  # of a network, as `FunctionalMechanism` names them
STEPS = 50  # of the search for an ε₁: it halves the range of its logarithm


class Kept(Protocol):
    """What every kept release has; all of it is public."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]  # it is a dataclass
    batches: ClassVar[int]  # fixed batches of a pair: B_i1, and B_i2 that adversarial examples are made of

    @property
    def epsilon(self) -> float | None:
        """The total ε of kept noise as [S] Theorem 4 publishes it; None where a study gives ε₁."""

    @property
    def epsilon_1(self) -> float | None:
        """ε₁ of kept noise, the part of records and auto-encoder; None where a study gives the total."""

    @property
    def epsilon_2(self) -> float:
        """ε₂ of kept noise, the part of the classes' polynomial, and so of the label."""

    @property
    def batch(self) -> int | None:
        """m, the records of a fixed batch that a client trains on; None until `filled_kept`."""

    @property
    def hidden_noise(self) -> float:
        """Noise on the first layer in training, a multiple of 2b, the scale of [S]: 1/ψ. It protects nothing."""

    @property
    def sizes(self) -> Sequence[int] | None:
        """Inputs, patch (d), hidden (β), last (|h_π|) of a study's network and data, which the noise depends on."""

    @property
    def xi(self) -> float:
        """ξ, the weight of adversarial examples in a client's training on kept noise."""

    @property
    def attacks(self) -> Sequence[str]:
        """The attacks on inputs that make a client's adversarial examples, an equal share of B_i2 each."""

    @property
    def steps(self) -> int:
        """T_μ, the steps of each attack on inputs that makes adversarial examples for training."""


Total = Annotated[float | None, positive, "the published total ε; 1 where epsilon_1 is not given either"]
First = Annotated[float | None, positive, "ε₁, the part of the records and the auto-encoder"]
Second = Annotated[float, positive, "ε₂, the part of the classes' polynomial"]
Hidden = Annotated[
    float, real, at_least_zero, "noise on the first layer, drawn anew in every round, as a multiple of 2b"
]
Sizes = Annotated[Sequence[int] | None, "inputs, patch, hidden and last of the network: filled in from the model"]


@dataclass(frozen=True, kw_only=True)
class StoBatch:
    """Noised records, the auto-encoder's and the classes' polynomials, adversarial examples. [S] Algorithms 1 and 4."""

    epsilon: Total = None
    epsilon_1: First = None
    epsilon_2: Second = 0.1
    batch: Annotated[int | None, whole, "m, records a batch; half of a client's where it is not given"] = None
    xi: Annotated[float, at_least_zero, real, "ξ, how much adversarial examples weigh beside the others"] = 1.0
    attacks: Annotated[Sequence[str], "attacks on inputs that make the adversarial examples"] = ("IFgsm", "Mim", "Pgd")
    steps: Annotated[int, whole, "T_μ, steps of such an attack"] = 10
    hidden_noise: Hidden = 0.5
    sizes: Sizes = None

    batches: ClassVar[int] = 2

    def __post_init__(self) -> None:
        _check(self)
        if isinstance(self.attacks, str) or not self.attacks or not all(isinstance(own, str) for own in self.attacks):
            raise FedprivError(f"attacks must be a list of kinds of attacks on inputs, got {self.attacks!r}")


@dataclass(frozen=True, kw_only=True)
class AdLm:
    """The functional mechanism alone: noised records, and the polynomials of the auto-encoder and the classes."""

    epsilon: Total = None
    epsilon_1: First = None
    epsilon_2: Second = 0.1
    batch: Annotated[int | None, whole, "m, records a batch; all of a client's where it is not given"] = None
    hidden_noise: Hidden = 0.5
    sizes: Sizes = None

    batches: ClassVar[int] = 1
    xi: ClassVar[float] = 0.0
    attacks: ClassVar[tuple[str, ...]] = ()
    steps: ClassVar[int] = 0

    def __post_init__(self) -> None:
        _check(self)


KEPT = Registry("release", Kept, (StoBatch, AdLm), proof=UNPROVED)


def filled_kept(kept: Kept, records: int, sizes: Sequence[int]) -> Kept:
    """StoBatch or AdLm with batch size m and the real model's sizes; refused where others are claimed, or records few.

    >>> filled_kept(AdLm(epsilon_1=0.5), 100, (784, 25, 196, 256)).batch
    100
    """
    batch = kept.batch or records // kept.batches
    if not 1 <= kept.batches * batch <= records:
        raise FedprivError(
            f"{type(kept).__name__} needs {kept.batches} fixed batch{'es' * (kept.batches > 1)} of batch = "
            f"{batch or 1} records at each client, which has {records}"
        )
    if kept.sizes is not None and tuple(kept.sizes) != tuple(sizes):
        pairs = zip(SIZES, kept.sizes, sizes, strict=True)
        told = ", ".join(f"{name} {own} for {there}" for name, own, there in pairs if own != there)
        raise FedprivError(f"sizes are those of another model or other data: {told}")
    return replace(kept, batch=batch, sizes=list(sizes))


def mechanism_of(kept: Kept) -> FunctionalMechanism:
    """The functional mechanism that noises a client's records, once m and the sizes are known: what it costs.

    >>> mnist = filled_kept(StoBatch(epsilon=1.0), 4998, (784, 25, 196, 256))
    >>> round(mechanism_of(mnist).epsilon_1, 4), round(mechanism_of(mnist).published(NORM), 4)
    (0.5122, 1.0)
    """
    if kept.batch is None or kept.sizes is None:
        raise FedprivError("batch and sizes must be given where no model is at hand: inputs, patch, hidden, last")
    known = dict(zip(SIZES, kept.sizes, strict=True)) | {"batch": kept.batch, "epsilon_2": kept.epsilon_2}
    own = FunctionalMechanism(**known, epsilon_1=kept.epsilon_1 or 1.0)  # type: ignore[arg-type]
    if kept.epsilon_1 is not None:
        return own
    total = PUBLISHED if kept.epsilon is None else kept.epsilon
    return replace(own, epsilon_1=epsilon_1_of(total, kept.epsilon_2, own.gamma_x, own.gamma(NORM)))


def settings_of(kept: Kept, *, calibrating: bool = False) -> dict[str, Any]:
    """A kept release's settings as a resolved study writes them: ε₁ in the total's place, or still to be found."""
    own = asdict(kept)
    if not calibrating:
        own |= {"epsilon": None, "epsilon_1": mechanism_of(kept).epsilon_1}
    given = {name: value for name, value in own.items() if value is not None}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}


def calibrated_kept(kept: Kept, target: float, delta: float) -> Kept:
    """A kept release with the largest ε₁ whose example-level ε(δ) is at most a study's target.

    >>> own = calibrated_kept(filled_kept(AdLm(), 100, (64, 9, 16, 16)), target=30.0, delta=1e-5)
    >>> 29.9 < mechanism_of(own).certified(1e-5).upper <= 30
    True
    """

    def cost(epsilon_1: float) -> float:
        """The certified ε(δ) of the records' noise at this ε₁."""
        return Account(mechanism_of(replace(kept, epsilon_1=epsilon_1)).events).upper_epsilon(delta)

    low, high = log(1e-9), log(1e9)
    if not cost(exp(low)) <= target:
        raise FedprivError(
            f"epsilon = {target:g} is less than labels alone cost at epsilon_2 = {kept.epsilon_2:g} and batch = "
            f"{kept.batch}: a smaller epsilon_2, or a larger batch"
        )
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if cost(exp(middle)) <= target else (low, middle)
    return replace(kept, epsilon_1=exp(low))


def _check(kept: Kept) -> None:
    """Refuse a study's settings of kept noise that are wrong by themselves or beside each other."""
    check_fields(kept)
    if kept.epsilon is not None and kept.epsilon_1 is not None:
        raise FedprivError("epsilon is the published total, which epsilon_1 follows from: give one of them")
    if kept.epsilon is not None and not kept.epsilon > kept.epsilon_2:
        raise FedprivError(f"epsilon must be larger than epsilon_2 = {kept.epsilon_2}, got {kept.epsilon}")
    if kept.sizes is not None:
        if isinstance(kept.sizes, str) or len(kept.sizes) != len(SIZES):
            raise FedprivError(f"sizes must be {', '.join(SIZES)}, got {kept.sizes!r}")
        whole(**dict(zip(SIZES, kept.sizes, strict=True)))
