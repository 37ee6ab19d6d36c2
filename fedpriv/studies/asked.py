"""The table of a study on what clients answer beside their messages: about the model, and which labels they have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fedpriv.errors import FedprivError, limited, natural, positive, whole
from fedpriv.mechanisms.table import MOST_LEVELS
from fedpriv.registry import Kind
from fedpriv.studies._settling import settle_table
from fedpriv.studies.kinds import ANSWERS


@dataclass(frozen=True, kw_only=True)
class Labels:
    """Which labels clients have: each tells, once in a run, the class of one record of its own, by randomised response.

    It is asked with the first evaluation, and charged beside the answer about the model.
    """

    classes: Annotated[
        int, whole, limited(least=2, most=MOST_LEVELS), "how many classes the data have: one of so many is told"
    ]
    epsilon: Annotated[float, positive, "ε of the one class told: its own is e^ε times as likely as any other"]

    def __post_init__(self) -> None:
        """Refuse a study's evaluation.labels of classes or of an ε that randomised response has not."""
        settle_table(self)
        try:
            ANSWERS.of(self.mechanism)
        except FedprivError as error:
            raise FedprivError(f"labels: {error}") from None

    @property
    def mechanism(self) -> Kind:
        """Randomised response of a study's classes, each of which is a point of its grid."""
        return Kind("RandomisedResponse", {"clip": 1.0, "levels": self.classes - 1, "epsilon": self.epsilon})


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What clients answer about the model, through a mechanism: which share of records of their own it gets right.

    Each answer is charged to whoever gives it, in the ledger of the messages, and counts for the same ε.
    """

    mechanism: Annotated[Kind, ANSWERS, "what an answer, from −1 (none right) to 1 (all), goes through"]
    every: Annotated[int, whole, "rounds between two evaluations; the last round has one too"] = 1
    held_out: Annotated[
        int,
        natural,
        "records that each client keeps out of training to be asked about; 0: asked about all it trains on",
    ] = 0
    public: Annotated[bool, "whether accuracy and loss on the server's held-out records are told too, uncharged"] = True
    labels: Annotated[Labels | None, "which labels clients have, told once, with the first evaluation"] = None

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "mechanism", self.mechanism.with_settings({"clip": 1.0} | dict(self.mechanism.settings))
        )
        settle_table(self)
        try:
            own = ANSWERS.of(self.mechanism)
            if (own.clip, own.peak) != (1.0, 1.0):
                raise FedprivError("clip and peak must be 1, or left out: an answer is from −1 to 1")
        except FedprivError as error:
            raise FedprivError(f"mechanism: {error}") from None

    def due(self, round: int, rounds: int) -> bool:
        """Whether clients are asked about a study's model after this round, of so many in all."""
        return round % self.every == 0 or round == rounds

    def tells(self, round: int, rounds: int) -> bool:
        """Whether clients are asked for a label after this round of a study: with its first evaluation."""
        return self.labels is not None and round == min(self.every, rounds)
