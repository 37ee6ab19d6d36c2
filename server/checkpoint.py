"""The server's state between two rounds, and its file: written beside the old one and put in its place at once.

The state of every random stream is its key (seed, purpose, round, client), so none needs to be kept.
"""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedpriv.arrays import Vector
from fedpriv.errors import FedprivError
from fedpriv.files import replaced

FILE = "checkpoint.npz"


@dataclass(frozen=True, eq=False)
class State:
    """After `round` rounds: the model, and the optimiser's memory of where it was going."""

    round: int
    weights: NDArray[np.float64]
    velocity: NDArray[np.float64]

    def stepped(self, direction: Vector, step: float, momentum: float) -> State:
        """One round on: v ← momentum·v + direction, weights ← weights − step·v."""
        velocity = momentum * self.velocity + direction
        return State(self.round + 1, self.weights - step * velocity, velocity)

    def skipped(self) -> State:
        """One round on, without a step."""
        return State(self.round + 1, self.weights, self.velocity)


def save(directory: Path, state: State, study: bytes) -> None:
    """Durably; whatever goes wrong, the old file stays whole."""
    content = io.BytesIO()
    np.savez(
        content, round=state.round, weights=state.weights, velocity=state.velocity, study=np.frombuffer(study, "u1")
    )
    target = directory / FILE
    try:
        replaced(target, content.getbuffer())
    except OSError as error:
        raise FedprivError(f"{target}: cannot be written ({error.strerror or error}); the last one is whole") from None


def load(directory: Path, study: bytes, dimension: int) -> State | None:
    """What was saved last; None where nothing was."""
    path = directory / FILE
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as file:
            found = State(int(file["round"]), file["weights"], file["velocity"])
            if file["study"].tobytes() != study:
                raise FedprivError(f"{path}: is the checkpoint of another study")
    except (OSError, KeyError, ValueError, zipfile.BadZipFile, EOFError) as error:
        if isinstance(error, FedprivError):
            raise
        raise FedprivError(
            f"{path}: damaged checkpoint ({error}): remove it, and --resume begins again at round 1; "
            "what was charged stays charged"
        ) from None
    if found.weights.shape != (dimension,) or found.velocity.shape != (dimension,):
        raise FedprivError(f"{path}: holds a model of {found.weights.size} weights, the study's has {dimension}")
    return found
