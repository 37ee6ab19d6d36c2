"""StoBatch and AdLM with the noise that [S] draws: one vector, added to every example.

The difference of two examples is untouched by it, so it protects none of them (theory: docs/certified.md). Nothing here
is a run: there is no ledger, for there is nothing to promise, and no study can ask for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.random import Generator

from clients.models.arrays import Floats, Labels
from clients.models.stobatch import encoded_of
from clients.training.byzantine import Byzantine
from clients.training.corrupting import Corrupting
from clients.training.prepared import Prepared, division_of
from clients.training.stobatch import Keeping
from clients.training.stobatch_noise import seeded_source
from fedpriv._base.arrays import Vector
from fedpriv.certified import FunctionalMechanism
from fedpriv.errors import FedprivError
from fedpriv.randomness.streams import stream
from fedpriv.releases.kept import mechanism_of
from server.directory import checkpoint
from server.directory.checkpoint import State


@dataclass(frozen=True)
class OneDraw:
    """The functional mechanism's scales, and one noise vector in all of the examples."""

    mechanism: FunctionalMechanism
    seed: int  # of the study

    @property
    def noise(self) -> float:
        """The Laplace scale of the noise on every input, as training by `Keeping` asks a mechanism for it."""
        return self.mechanism.noise

    @property
    def kept(self) -> Vector:
        """The one noise vector of [S]'s training, an entry for each input, drawn from the study's seed."""
        return stream(self.seed, "as printed").laplace(0, self.mechanism.noise, self.mechanism.inputs)

    def perturbed(self, x: Floats, rng: Generator) -> Vector:
        """Records with the one noise added to each of them, as `Keeping` asks for a batch to be noised."""
        return np.asarray(x + self.kept.reshape(x.shape[1:]))

    def perturbed_labels(self, y: Labels, classes: int, rng: Generator) -> Vector:
        """One-hot rows of a kept batch's labels for a client's trainer; [S] has noise on h·y: `of_coefficients`."""
        return np.asarray(np.eye(classes)[y])

    def of_coefficients(self, count: int) -> Vector:
        """The one noise on the coefficients h·y of so many last weights, by which [S] protects labels."""
        return stream(self.seed, "labels as printed").laplace(0, self.mechanism.label_noise, count)


def one_draw(prepared: Prepared) -> OneDraw:
    """A prepared study's noise as [S] draws it: one vector for all examples, at the mechanism's scales."""
    kept = prepared.study.privacy.kept
    assert kept is not None
    return OneDraw(mechanism_of(kept), prepared.study.run.seed)


def noise_of_inputs(prepared: Prepared) -> torch.Tensor:
    """The one noise that all inputs of a training as printed have, in their shape, for judging its network."""
    return torch.tensor(one_draw(prepared).kept.reshape(prepared.pool.shape), dtype=torch.float32)


def as_printed(prepared: Prepared, place: Path) -> None:
    """Train a study as [S] prints it, one noise in all examples; its checkpoints in `place` are gone on from."""
    study, kept, once = prepared.study, prepared.study.privacy.kept, one_draw(prepared)
    assert kept is not None
    parts = (
        Byzantine(prepared.plan, prepared.pool),
        Corrupting(prepared.plan, prepared.pool.classes),
        once,
        seeded_source(study.run.seed, once.mechanism),
    )
    keeping = Keeping(study, kept, prepared.pool, prepared.net, division_of(study, prepared.pool), *parts)
    last = encoded_of(prepared.net).last.weight.numel()  # the last of the parameters
    place.mkdir(parents=True, exist_ok=True)
    begun = State.begun(study, prepared.net.initial())
    state = checkpoint.load_checkpoint(place, study.id, begun) or begun
    while state.round < study.run.rounds:
        asked = prepared.plan.participation.asked(study.clients.count, study.run.seed, state.round + 1)
        rows = np.empty((len(asked), prepared.net.dimension), np.float32)
        for why in keeping.updates(state.weights.astype(np.float32), state.round + 1, asked, rows).values():
            raise FedprivError(why)
        rows[:, -last:] -= once.of_coefficients(last)
        state = state.stepped(rows.mean(axis=0).astype(float), study.server.step, prepared.plan.optimiser)
        if state.round == study.run.rounds or not state.round % study.run.checkpoint_every:
            checkpoint.save_checkpoint(place, state, study.id)
