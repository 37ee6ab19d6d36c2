"""The functional mechanism of [S]: objectives as polynomials, noise on their coefficients, and what both ε's are.

A reconstruction loss and a label loss are cut off after a few terms of Taylor's series; their coefficients get Laplace
noise. [S] draws one noise vector and adds it to every example of a batch (its equation 16 has Σ of the batch in mind):
the difference of two examples is untouched, and no guarantee for an example follows. Here the noise is drawn afresh for
each example, once, and kept. Then its ε at the level of examples is that of Laplace noise on a cube, and whatever is
computed from what was kept, in as many rounds as one likes, costs nothing more.

The label's noise is on the label itself. [S] adds it to the coefficients h·y, and keeps it while h changes: two steps
would then give (h − h')·y without noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from fedpriv._base.arrays import Vector, finite_floats
from fedpriv.accounting.account import Account
from fedpriv.accounting.event import Event
from fedpriv.bounds import Box
from fedpriv.curves.compose import Bounds
from fedpriv.errors import FedprivError, positive, whole
from fedpriv.mechanisms import Laplace
from fedpriv.trust import Local

EDGE = 1 + 1e-6  # float32 of a pixel may round past 1


@dataclass(frozen=True, kw_only=True)
class FunctionalMechanism:
    """The noise of StoBatch and AdLM, in the letters of [S].

    MNIST as in its Appendix P: 5 × 5 patches, feature maps of 14 × 14, 256 units before the classes, ε₂ = 0.1.

    >>> sizes = {"inputs": 784, "patch": 25, "hidden": 196, "last": 256, "batch": 2499}
    >>> mnist = FunctionalMechanism(**sizes, epsilon_1=0.5, epsilon_2=0.1)
    >>> mnist.sensitivity_r, mnist.sensitivity_l, round(mnist.gamma_x, 4)
    (4950, 512, 1.9808)
    >>> round(mnist.published(norm=1.0), 4), [round(e) for e in mnist.certified(0.0)]
    (0.9786, [397, 397])
    """

    inputs: int  # coordinates of an example
    patch: int  # d, the inputs that one hidden neuron reconstructs (its Appendix P)
    hidden: int  # β, neurons of one feature map
    last: int  # |h_π|, neurons before the classes
    batch: int  # m, examples in one
    epsilon_1: float  # ε₁, of the published total: for the inputs
    epsilon_2: float  # ε₂, of the published total: for the labels

    def __post_init__(self) -> None:
        """Refuse, for StoBatch's noise, sizes that are no whole numbers from 1 on, and ε's not positive."""
        whole(inputs=self.inputs, patch=self.patch, hidden=self.hidden, last=self.last, batch=self.batch)
        positive(epsilon_1=self.epsilon_1, epsilon_2=self.epsilon_2)

    @property
    def sensitivity_r(self) -> int:
        """Δ_R = d(β + 2), [S] Lemma 2: how far one example moves the reconstruction's coefficients."""
        return self.patch * (self.hidden + 2)

    @property
    def sensitivity_l(self) -> int:
        """Δ_L = 2|h_π|, [S] Lemma 4: how far one example moves the coefficients of the label loss."""
        return 2 * self.last

    @property
    def gamma_x(self) -> float:
        """γ_x = Δ_R/m of [S] Lemma 3, by which the published ε counts the noise on inputs: ε₁/γ_x.

        It takes Δ_x = 1 where the cube's ℓ1 diameter is 2·inputs.
        """
        return self.sensitivity_r / self.batch

    def gamma(self, norm: float) -> float:
        """γ = 2Δ_R/(m·‖θ₁‖_{1,1}) of [S] section 3.1, by which the published ε counts the first layer: ε₁/γ.

        The norm is the largest ℓ1 norm of θ₁'s columns.
        """
        positive(norm=norm)
        return 2 * self.gamma_x / norm

    def published(self, norm: float) -> float:
        """The ε that [S] Theorem 4 prints, of batches, not of examples: ε₁ + ε₁/γ_x + ε₁/γ + ε₂."""
        return self.epsilon_1 * (1 + 1 / self.gamma_x + 1 / self.gamma(norm)) + self.epsilon_2

    @property
    def noise(self) -> float:
        """b = Δ_R/(m·ε₁), the Laplace scale on every input coordinate of an example; the transformation's is 2b."""
        return self.gamma_x / self.epsilon_1

    @property
    def label_noise(self) -> float:
        """Δ_L/(m·ε₂), the Laplace scale on every coordinate of an example's one-hot label."""
        return self.sensitivity_l / (self.batch * self.epsilon_2)

    @property
    def events(self) -> tuple[Event, Event]:
        """The events of one example, noised once: its coordinates in [−1, 1]; two entries of its label, 0 or 1."""
        inputs, labels = Laplace(clip=1.0, noise=self.noise), Laplace(clip=0.5, noise=self.label_noise)
        return _kept(inputs, self.inputs), _kept(labels, 2)

    def certified(self, delta: float) -> Bounds:
        """The certified ε(δ), from both sides, of one example replaced, for the noise really drawn.

        2·inputs·m·ε₁/Δ_R + 2m·ε₂/Δ_L at δ = 0.
        """
        return Account(self.events).epsilon(delta).bounds

    def guarantees(self, norm: float, delta: float) -> dict[str, Any]:
        """The published ε and the certified one of an example, by name, for a study's promise: never one alone."""
        lower, upper = self.certified(delta)
        published = {"epsilon": self.published(norm), "delta": 0.0, "definition": "[S] Theorem 4: batches, one noise"}
        example = {
            "epsilon": {"lower": lower, "upper": upper}, "delta": delta,
            "definition": "one example replaced, noise drawn afresh for each and kept",
        }  # fmt: skip
        return {"published": published, "example-level": example}

    def perturbed(self, x: ArrayLike, rng: Generator) -> Vector:
        """An example's coordinates with the Laplace noise that training keeps for all rounds: x̄ = x + Lap(b).

        h̄ and everything else follow from it.
        """
        values = finite_floats(x)
        if not np.abs(values).max(initial=0.0) <= EDGE:
            raise FedprivError(f"inputs must be in [-1, 1], got {values.flat[np.abs(values).argmax()]:.6g}")
        return np.clip(values, -1, 1) + rng.laplace(0, self.noise, values.shape)

    def perturbed_labels(self, y: ArrayLike, classes: int, rng: Generator) -> Vector:
        """One-hot labels of examples with the Laplace noise that training keeps for all rounds."""
        labels = np.asarray(y)
        if labels.dtype.kind not in "iu" or not ((labels >= 0) & (labels < classes)).all():
            raise FedprivError(f"labels must be whole numbers from 0 to {classes - 1}")
        return np.asarray(np.eye(classes)[labels] + rng.laplace(0, self.label_noise, (*labels.shape, classes)))


def _kept(noise: Laplace, coordinates: int) -> Event:
    """The event of Laplace noise drawn once on each coordinate of a client's record, which neighbours replace."""
    return Event(
        mechanism=noise, bound=Box(noise.peak), dimension=coordinates, trust=Local(), unit="record", adjacency="replace"
    )


def epsilon_1_of(total: float, epsilon_2: float, gamma_x: float, gamma: float) -> float:
    """The ε₁ of inputs that makes the published total of StoBatch `total`: (ε − ε₂)/(1 + 1/γ_x + 1/γ). [S] Appendix P.

    >>> round(epsilon_1_of(0.9786364, 0.1, 4950 / 2499, 2 * 4950 / 2499), 4)
    0.5
    """
    positive(gamma_x=gamma_x, gamma=gamma)
    if not total > epsilon_2:
        raise FedprivError(f"epsilon must be larger than epsilon_2 = {epsilon_2}, got {total}")
    return (total - epsilon_2) / (1 + 1 / gamma_x + 1 / gamma)
