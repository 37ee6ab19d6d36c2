"""The tables of a study on its clients: who takes part and holds which records, and what each of them computes."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import expm1, log1p
from typing import Annotated, Literal

from fedpriv.aggregation.optimisers import OPTIMISERS, Optimiser, Sgd, tried_optimiser
from fedpriv.errors import FedprivError, at_least_zero, natural, positive, probability, real, whole
from fedpriv.population.dealing import SPLITS, Dealing
from fedpriv.population.participation import PARTICIPATIONS, Participation
from fedpriv.registry import Kind
from fedpriv.settings import Family
from fedpriv.studies._settling import settle_table

Split = Literal["iid", "by-label", "in-order", "pool", "natural"]
Divisor = Literal["drawn", "expected"]
Device = Literal["cpu", "cuda", "mps", "auto"]
ALONG = Kind("Sgd")  # one table for all studies that say nothing of local steps: it makes its object once


@dataclass(frozen=True, kw_only=True)
class Clients:
    """Who takes part: how many, what each holds, how many of them are Byzantine, and who is asked in a round."""

    count: Annotated[int, whole, "how many take part"]
    records: Annotated[int, whole, "each client's own; the mean, where the split makes them uneven"] = 1
    split: Annotated[Split | Kind, SPLITS, "how records are divided among clients: a word, or a table"] = "iid"
    byzantine: Annotated[
        Annotated[int, natural] | Annotated[float, probability],
        "how many attack: a number of clients, or a share",
    ] = 0
    participation: Annotated[Kind, PARTICIPATIONS, "who is asked in a round"] = field(
        default_factory=lambda: Kind("All")
    )

    def __post_init__(self) -> None:
        settle_table(self)
        if not isinstance(division := self.division, str):
            division.check(self.records)
        if self.attackers >= self.count:
            raise FedprivError(f"byzantine leaves no honest client: {self.attackers} of {self.count}")
        self.schedule.check(self.count)

    @property
    def attackers(self) -> int:
        """How many of a study's clients are Byzantine: a share is rounded down."""
        if isinstance(self.byzantine, int):
            return self.byzantine
        return int(self.byzantine * self.count * (1 + 1e-12))

    @property
    def division(self) -> Split | Dealing:
        """How a study's records are divided among clients: a word, or the dealing of a table with a kind."""
        if isinstance(self.split, Kind):
            return SPLITS.of(self.split)
        return self.split

    @property
    def by_user(self) -> bool:
        """Whether a study's clients are those whom its data name as whose each record is."""
        return self.split == "natural" or getattr(self.division, "by_user", False)

    @property
    def schedule(self) -> Participation:
        """The participation of a study's clients: an object that says which of them each round asks."""
        return PARTICIPATIONS.of(self.participation)

    @property
    def most_asked(self) -> int:
        """How many clients a round of a study asks at most: all, where their number is drawn."""
        return self.schedule.surely(self.count) or self.count


@dataclass(frozen=True, kw_only=True)
class Training:
    """What a client computes: the gradient of its batch, or the sum of its gradients along several local steps."""

    model: Annotated[Kind, Family("model"), "what is trained"] = field(default_factory=lambda: Kind("Logistic"))
    loss: Annotated[Kind, Family("loss"), "what is made small, of each record"] = field(
        default_factory=lambda: Kind("CrossEntropy")
    )
    batch: Annotated[int, natural, "records a step; 0 for all the client has"] = 0
    sampling: Annotated[
        Annotated[float, probability, positive] | None,
        "q, in the place of a batch: each record is in a step's with this chance, drawn by its client in private",
    ] = None
    divisor: Annotated[
        Divisor, "what a sampled batch's gradients are divided by: how many were drawn, or q times clients.records"
    ] = "drawn"
    local_steps: Annotated[int, whole, "steps a client makes by itself in a round"] = 1
    learning_rate: Annotated[float, positive, "of local steps; one gradient needs none"] = 0.1
    optimiser: Annotated[Kind, OPTIMISERS, "how a local step is made of a gradient; it begins anew in every round"] = (
        field(default_factory=lambda: ALONG)
    )
    proximal: Annotated[
        float, real, at_least_zero, "μ of FedProx: a local step's gradient is one of the loss + ½μ‖w − w₀‖²"
    ] = 0.0
    device: Annotated[Device, "where gradients are computed; auto: on a GPU, where there is one"] = "cpu"

    def __post_init__(self) -> None:
        settle_table(self)
        if self.sampling is not None and self.batch:
            raise FedprivError(f"batch = {self.batch} and sampling = {self.sampling:g}: give one of them")
        if self.sampling is None and self.divisor != "drawn":
            raise FedprivError(f"divisor = {self.divisor!r} is of batches that are drawn by chance: sampling says how")
        if not self.is_plain and self.local_steps == 1:  # asked first, so that a wrong optimiser is refused here
            what = f"proximal = {self.proximal:g}" if self.proximal else f"optimiser = {self.optimiser.kind}"
            raise FedprivError(f"{what} is of several local steps, and local_steps = 1 is one gradient")

    @property
    def stepping(self) -> Optimiser:
        """The optimiser by which a study's client makes its local steps, from the beginning in every round."""
        return tried_optimiser(self.optimiser)

    @property
    def is_plain(self) -> bool:
        """Whether local steps are along gradients of the loss as they are: without momentum, proximal term or else."""
        return self.stepping == Sgd() and not self.proximal

    @property
    def met(self) -> float:
        """The chance that a record has any part in its client's message, 1 − (1 − q)^s of s local steps, rounded up.

        >>> Training(sampling=0.01, local_steps=2).met
        0.01990000000000002
        """
        if self.sampling is None or self.sampling == 1:
            return 1.0
        if self.local_steps == 1:
            return self.sampling
        return min(-expm1(self.local_steps * log1p(-self.sampling)) * (1 + 2.0**-50), 1.0)
