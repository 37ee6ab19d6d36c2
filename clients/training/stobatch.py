"""What a client of StoBatch or AdLM does: it noises its records once, and every round gives gradients of what it kept.

[S] Algorithms 1 and 4. A client holds pairs of fixed batches, B_i1 and B_i2, all its life. θ₁ goes along the gradient
of the perturbed reconstruction (its equation 6), θ₂ along that of the perturbed losses (equation 9) of B_i1 and of
adversarial examples made of B_i2 (equations 7 and 8). Everything after the noise is a function of what was noised.

Several pairs at one client are as many trainers of one pair: a message is the mean over its pairs.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from clients.data.pool import Pool
from clients.data.splits import Division, records_of
from clients.models.gradients import Net, block_slices
from clients.models.memory import channels_last
from clients.models.randomised import laplace_noise
from clients.models.stobatch import Encoded, encoded_of
from clients.robustness.input_attacks import INPUT_ATTACKS
from clients.training.byzantine import Byzantine
from clients.training.corrupting import Corrupting
from clients.training.stobatch_noise import Source
from fedpriv._base.arrays import Numbers, Rows, Vector
from fedpriv.errors import FAULTS, FedprivError, reason
from fedpriv.randomness.streams import stream
from fedpriv.releases.kept import Kept
from fedpriv.studies.study import Study

AT_ONCE = 256  # records: what they go through stays in cache


class Batch(NamedTuple):
    """A fixed batch, noised."""

    x: Tensor  # x̄, records as they go into the network, noised
    y: Tensor  # ȳ, noised labels that were one-hot
    number: int = 0  # of its first record among all: no other batch has it


class RecordNoise(Protocol):
    """What noises records and their labels, once: [S]'s functional mechanism, or what its paper prints."""

    @property
    def noise(self) -> float:
        """b, the Laplace scale of the noise on every input of records that a StoBatch client keeps."""

    def perturbed(self, x: Rows, rng: np.random.Generator) -> Vector:
        """A client's records (records, …) with the noise that they are kept under."""

    def perturbed_labels(self, y: Numbers, classes: int, rng: np.random.Generator) -> Vector:
        """A client's labels (records, classes), one-hot, with the noise that they are kept under."""


class Keeping:
    """The kept releases of a study's clients, and the gradients of them."""

    def __init__(
        self, study: Study, kept: Kept, pool: Pool, net: Net, division: Division,
        byzantine: Byzantine, corrupting: Corrupting, mechanism: RecordNoise, source: Source,
    ) -> None:  # fmt: skip
        self._study, self._kept, self._pool, self._net, self._division = study, kept, pool, net, division
        self._byzantine, self._corrupting, self._mechanism, self._source = byzantine, corrupting, mechanism, source
        self._hidden = 2 * mechanism.noise * kept.hidden_noise
        self._module: Encoded = channels_last(encoded_of(net))
        self._held: dict[int, list[Batch]] = {}  # what clients have kept, by client

    def updates(self, weights: Rows, round: int, clients: Numbers, out: Rows) -> dict[int, str]:
        """Each StoBatch or AdLm client's update, the gradient of what it keeps, into `out`; who has none, and why."""
        failures: dict[int, str] = {}
        take_weights(self._module, weights)
        for row, client in enumerate(clients.tolist()):
            try:
                batches, size, total = self.batches(client), self._kept.batches, torch.zeros(self._net.dimension)
                pairs = [batches[at : at + size] for at in range(0, len(batches), size)]
                for pair in pairs:  # what attacks draw from protects nothing
                    rng = stream(self._study.run.seed, "stobatch", round, pair[0].number)
                    total += self._gradient(pair, rng)
                out[row] = (total / len(pairs)).numpy()
            except FAULTS as error:
                out[row], failures[row] = np.nan, reason(error)
        return failures

    def batches(self, client: int) -> list[Batch]:
        """The fixed batches that a client has kept, noised when it is asked for first and never again."""
        if client in self._held:
            return self._held[client]
        m, own, found = self._kept.batch or 1, records_of(self._division, client), list[Batch]()
        held = len(own) - len(own) % (m * self._kept.batches)
        if not held:
            raise FedprivError(f"client {client} has {len(own)} records, too few for fixed batches of {m}")
        for part in block_slices(held, m):
            chosen, number, why = own[None, part], int(own[part][0]), dict[int, str]()
            # corrupted records were so before they are noised, and so were a Byzantine client's own
            clean = iter([self._corrupting.data(*self._pool.batch(chosen), chosen)])
            x, y = next(self._byzantine.poisoned(clean, 0, np.array([client]), None, self._pool.classes, why))
            if why:
                raise RuntimeError("; ".join(why.values()))
            within = np.clip(x[0], -1, 1)  # clean records are: it is their corruption that may not be
            bare = self._mechanism.perturbed(within, self._source(number, "records"))
            labels = self._mechanism.perturbed_labels(y[0], self._pool.classes, self._source(number, "labels"))
            x_bar = self._net.prepare(torch.from_numpy(bare.astype(np.float32)))
            x_bar = x_bar.contiguous(memory_format=torch.channels_last)
            found.append(Batch(x_bar, torch.from_numpy(labels.astype(np.float32)), number))
        self._held[client] = found
        return found

    def _gradient(self, pair: list[Batch], rng: np.random.Generator) -> Tensor:
        """The gradient of a kept pair of batches (d,): of R̄ by θ₁ and of L̄, adversarial examples too, by θ₂."""
        parts = [(pair[0], 1.0)]
        if len(pair) > 1:  # DP adversarial examples of x̄ keep their labels: an equal share by each attack, of one size
            size = 1 - rng.random()
            random = torch.Generator().manual_seed(int(rng.integers(2**62)))
            shares = np.array_split(np.arange(len(pair[1].x)), len(self._kept.attacks))
            found = [
                adversarial_examples(self._module, pair[1].x[share[part]], kind, size, self._kept.steps, random)
                for kind, share in zip(self._kept.attacks, shares, strict=True)
                for part in block_slices(len(share), AT_ONCE)
            ]
            parts.append((pair[1]._replace(x=torch.cat(found)), self._kept.xi))
        whole = sum(weight * len(batch.x) for batch, weight in parts)
        examples = sum(len(batch.x) for batch, _ in parts)
        total = torch.zeros(self._net.dimension)
        for batch, weight in parts:
            for part in block_slices(len(batch.x), AT_ONCE):
                some = Batch(batch.x[part], batch.y[part])
                total += noised_gradient(self._module, some, 1 / examples, weight / whole, self._hidden, rng)
        return total


def take_weights(module: Encoded, weights: Rows) -> None:
    """Put the server's vector of weights into the parameters of StoBatch's module, as these lie in memory."""
    start = 0
    with torch.no_grad():
        for own in module.parameters():
            own.copy_(torch.tensor(weights[start : start + own.numel()]).view(own.shape))
            start += own.numel()


def noised_gradient(
    module: Encoded, batch: Batch, reconstructed: float, labelled: float, noise: float, rng: np.random.Generator
) -> Tensor:
    """A kept batch's gradient (d,), summed: of `reconstructed`·R̄ by θ₁ and of `labelled`·L̄ by θ₂, by parameters.

    θ₂ reads the first layer under Laplace noise of that scale. [S] draws it once; nothing that is private depends on it
    here, so it is drawn anew, and the network learns to bear what verified inference draws.
    """
    with torch.enable_grad():
        hidden = module.first(batch.x)
        r = reconstruction_loss(module, hidden) * reconstructed
        added = torch.from_numpy(laplace_noise(tuple(hidden.shape), rng) * np.float32(noise)) if noise else 0.0
        scores = module.last(module.rest(hidden.detach() + added))
        loss = (scores / 2 + scores * scores / 8 - scores * batch.y).sum() * labelled
        first, others = [module.first.weight], [own for own in module.parameters() if own is not module.first.weight]
        found = dict(zip(first, torch.autograd.grad(r, first), strict=True))
        found |= dict(zip(others, torch.autograd.grad(loss, others), strict=True))
    return torch.cat([found[own].reshape(-1) for own in module.parameters()])


def reconstruction_loss(module: Encoded, hidden: Tensor) -> Tensor:
    """Σ_j ½θ_j·h̄ − x̄_j·(θ_j·h̄) over all patches, divided by their number: [S] equation 6, h̄ its coefficients.

    They are kept to [−1, 1], as [S] has them (θᵀx̄ is not, for x̄ is not): else −h² has no lowest value.
    `hidden` is θᵀx̄, so Σ_j x̄_j θ_j of a patch.
    """
    fixed = hidden.detach().clamp(-1, 1)
    halves = module.first.theta.sum((1, 2, 3)) / 2
    return (fixed * (halves[:, None, None] - hidden)).sum() / hidden[0, 0].numel()


def adversarial_examples(
    module: Encoded, x: Tensor, kind: str, size: float, steps: int, random: torch.Generator
) -> Tensor:
    """Kept records x̄ moved by `size` at most, against the label the model itself predicts: StoBatch trains on them.

    Attacks keep to the box [−1, 1], and x̄ is outside. So they see x̄ in units in which no move can leave the box.
    """
    unit = float(x.abs().max()) + size

    def network(moved: Tensor) -> Tensor:
        """The model's scores of x̄ in units whose box no move can leave: what the attack on inputs climbs."""
        found: Tensor = module(moved * unit)
        return found

    with torch.no_grad():
        predicted = module(x).argmax(1)
    settings = {"size": size / unit} | ({} if kind == "Fgsm" else {"steps": steps})
    return INPUT_ATTACKS.made(kind, settings)(network, x / unit, predicted, random) * unit
