"""The server's state between two rounds, and its file: written beside the old one and put in its place at once.

The state of every random stream is its key (seed, purpose, round, client), so none needs to be kept.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.arrays import Vector
from fedpriv._base.files import replace_file
from fedpriv.aggregation.optimisers import Memory, Optimiser
from fedpriv.errors import FedprivError
from fedpriv.studies import identity
from fedpriv.studies.study import Study

FILE = "checkpoint.npz"


@dataclass(frozen=True, eq=False)
class State:
    """After `round` rounds: the model, the optimiser's memory, and the settings of releases that adapt, by client."""

    round: int  # the last one that is in the weights; 0 before the first
    weights: NDArray[np.float64]  # of the model
    memory: Memory  # of the server's optimiser
    settings: NDArray[np.float64]  # (clients, how many adapt)

    @staticmethod
    def begun(study: Study, weights: NDArray[np.float32]) -> State:
        """The server's state before the first round of a study whose model starts with these weights."""
        settings = np.tile(np.array(study.first_settings), (study.clients.count, 1))
        return State(0, weights.astype(np.float64), study.server.stepping.start(weights.size), settings)

    def stepped(self, direction: Vector, step: float, optimiser: Optimiser) -> State:
        """The server's state one round on: weights ← weights − step·(what the optimiser makes of the direction)."""
        memory, change = optimiser.step(self.memory, direction)
        return replace(self, round=self.round + 1, weights=self.weights - step * change, memory=memory)

    def skipped(self) -> State:
        """The server's state one round on without a step, where the round's answers were not used."""
        return replace(self, round=self.round + 1)

    def adapted(self, settings: Mapping[int, Vector]) -> State:
        """The server's state with the settings that some clients' releases have moved in a round."""
        if not settings:
            return self
        moved = self.settings.copy()
        for client, own in settings.items():
            moved[client] = own
        return replace(self, settings=moved)


def save_checkpoint(directory: Path, state: State, study: bytes) -> None:
    """Write the server's state into a run's checkpoint, durably; whatever goes wrong, the old file stays whole."""
    content = io.BytesIO()
    np.savez(
        content, round=state.round, weights=state.weights, settings=state.settings, **state.memory._asdict(),
        study=np.frombuffer(study, "u1"), study_format=identity.FORMAT,
    )  # fmt: skip
    target = directory / FILE
    try:
        replace_file(target, content.getbuffer())
    except OSError as error:
        raise FedprivError(f"{target}: cannot be written ({error.strerror or error}); the last one is whole") from None


def load_checkpoint(directory: Path, study: bytes, start: State) -> State | None:
    """The server's state that a run saved last, of the shapes the start has, to resume from; None where none was."""
    path = directory / FILE
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as file:
            found = State(
                int(file["round"]), file["weights"],
                Memory(file["velocity"], file["squares"], int(file["steps"])), file["settings"],
            )  # fmt: skip
            if file["study"].tobytes() != study:
                made = int(file["study_format"]) if "study_format" in file else 0
                raise FedprivError(f"{path}: is the checkpoint of {identity.whose_study(made)}")
    except FedprivError:
        raise
    except (OSError, KeyError, ValueError, zipfile.BadZipFile, EOFError) as error:
        raise FedprivError(
            f"{path}: damaged checkpoint ({error}): remove it, and --resume begins again at round 1; "
            "what was charged stays charged"
        ) from None
    for name, own in _shapes(found).items():
        if own != (wanted := _shapes(start)[name]):
            raise FedprivError(f"{path}: holds {name} of shape {own}, the study's are {wanted}")
    return found


def _shapes(state: State) -> dict[str, tuple[int, ...]]:
    """The shape of each array of the server's state, by its name: a checkpoint's must be the study's."""
    held = {"weights": state.weights, "velocity": state.memory.velocity, "squares": state.memory.squares,
            "settings": state.settings}  # fmt: skip
    return {name: value.shape for name, value in held.items()}
