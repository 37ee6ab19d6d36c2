"""The tables of a study on privacy, the server and the run, each with its settings and what they may be."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Literal, assert_never

from fedpriv.aggregation.optimisers import OPTIMISERS, Optimiser, optimiser_of
from fedpriv.channel import Channel, How
from fedpriv.errors import (
    FedprivError,
    at_least_zero,
    limited,
    natural,
    positive,
    probability,
    real,
    whole,
    words_among,
)
from fedpriv.mechanisms import Mechanism
from fedpriv.packed.symbols import sends_reals
from fedpriv.registry import Kind
from fedpriv.releases import SUMS, PrivateSum, settled_sum
from fedpriv.releases.kept import KEPT, Kept
from fedpriv.studies._settling import settle_table
from fedpriv.studies.kinds import CARRIERS, RELEASES
from fedpriv.trust import Adjacency, Unit, Word, curated

Noise = Literal["seeded", "cryptographic"]
Decoder = Literal["mean", "vote"]


@dataclass(frozen=True, kw_only=True)
class Privacy:
    """What is promised to each client, or to each of its records, and what its message goes through.

    `epsilon` is a target: the one setting that the mechanism, or the release, lacks is calibrated to it. `budget` stops
    a run. With a release the promise is to records, and the mechanism only carries what is private already.
    """

    mechanism: Annotated[Kind, CARRIERS, "what an update goes through on its way into a message"] = field(
        default_factory=lambda: Kind("Plain")
    )
    release: Annotated[Kind | None, RELEASES, "how each record is hidden at its client, before the mechanism"] = None
    norm: Annotated[How, "how an update is held to clip: shortened, brought to it, or each coordinate alone"] = "clip"
    trust: Annotated[Word, "who sees what: each message, sums of them alone, or a curator all"] = "local"
    unit: Annotated[
        Unit | None, "what is protected: a client, or a record through training.sampling; a release says it"
    ] = None
    adjacency: Annotated[Adjacency | None, "what neighbours differ by; what is released says it if not given"] = None
    colluding: Annotated[int, natural, "clients whose noise the server may know"] = 0
    dropouts: Annotated[int, natural, "clients asked that may not answer, under secure aggregation"] = 0
    delta: Annotated[float, probability, "the δ that ε holds at"] = 1e-5
    epsilon: Annotated[float | None, positive, "a target that the setting left out is calibrated to"] = None
    budget: Annotated[float | None, positive, "the ε at which a run stops"] = None
    noise: Annotated[Noise, "drawn from the seed, so that runs repeat, or from the operating system"] = "seeded"

    def __post_init__(self) -> None:
        settle_table(self)
        CARRIERS.named(self.mechanism.kind)
        if self.release is not None:
            self._check_release(self.release)
        elif self.protected == "record":
            self._check_record()
        elif self.adjacency == "add-remove":
            raise FedprivError(
                "adjacency 'add-remove' is not that of a client's message, for who sends none is seen to be absent: "
                "'replace', or none given; it is that of records (unit = 'record', or a [privacy.release]), and of "
                "noise that a trusted curator adds (fedpriv account --trust central)"
            )

    def _check_record(self) -> None:
        """Refuse to promise a record what no message keeps, or no proof speaks of."""
        if curated(self.trust):
            raise FedprivError(
                "unit 'record' is of messages: the noise of a curator under trust 'central' hides clients"
            )
        if self.is_plain:
            raise FedprivError("unit 'record' needs a mechanism: a Plain message promises nothing to any record")
        if self.adjacency == "add-remove" and self.sends_reals:
            raise FedprivError(
                f"a message through {self.mechanism.kind} noise is costed by replacement, which covers a record added "
                "or removed: adjacency 'replace', or none given"
            )

    def _check_release(self, release: Kind) -> None:
        """Refuse a study's release that its trust or its adjacency does not go with."""
        RELEASES.named(release.kind)
        if self.unit == "client":
            raise FedprivError(f"{release.kind} protects records, not clients: unit 'record', or none given")
        if release.kind in KEPT:
            self._check_kept(release)
            return
        match self.trust:
            case "local":
                pass
            case "secure-aggregation" | "central":
                raise FedprivError(
                    f"a release protects records from whoever sees its message: trust 'local', not {self.trust}"
                )
            case _ as never:
                assert_never(never)
        if self.adjacency not in (None, "add-remove"):
            raise FedprivError("a release is of records that are there or not: adjacency 'add-remove', or none given")

    def _check_kept(self, release: Kind) -> None:
        """Refuse a study's kept release that its trust, adjacency or noise does not go with."""
        if curated(self.trust):
            raise FedprivError(f"{release.kind} protects records from the server too: trust 'local', not central")
        if self.adjacency not in (None, "replace"):
            raise FedprivError(
                f"{release.kind} releases every record, one in the place of another: adjacency 'replace', or none given"
            )
        if self.noise != "seeded":
            raise FedprivError(
                f"noise = '{self.noise}': what {release.kind} keeps is seeded in a simulation, and from a deployed "
                "client's own secret key whatever the study says: noise = 'seeded'"
            )

    @property
    def protected(self) -> Unit:
        """Whom the promise is to: a client, unless the study says a record or releases records."""
        return self.unit or ("client" if self.release is None else "record")

    @property
    def is_plain(self) -> bool:
        """Whether a study's messages travel as they are, without a mechanism's noise."""
        return self.mechanism.kind == "Plain"

    @property
    def sends_reals(self) -> bool:
        """Whether a study's messages are of reals, not of symbols."""
        return self.is_plain or sends_reals(CARRIERS.named(self.mechanism.kind))

    @property
    def promises(self) -> bool:
        """Whether a study promises its clients or their records any ε."""
        return self.release is not None or not self.is_plain or curated(self.trust)

    def in_records(self, records: int) -> Privacy:
        """This table in a study whose clients have so many records: what its release needs in numbers is written so."""
        if self.release is None or self.release.kind not in SUMS:
            return self
        settings = settled_sum(self.release.kind, self.release.settings, records)
        return replace(self, release=self.release.with_settings(settings))

    @property
    def private_sum(self) -> PrivateSum | None:
        """The study's private sum of each step's gradients, all settings given; None if none is there, or kept."""
        if self.release is None or self.release.kind in KEPT:
            return None
        try:
            return SUMS.of(self.release)
        except FedprivError as error:
            raise FedprivError(f"release: {error}") from None

    @property
    def kept(self) -> Kept | None:
        """The study's release that clients make once and keep for all rounds; None where there is none."""
        if self.release is None or self.release.kind not in KEPT:
            return None
        try:
            return KEPT.of(self.release)
        except FedprivError as error:
            raise FedprivError(f"release: {error}") from None

    def check_whole(self) -> None:
        """Refuse a study whose mechanism lacks a setting, where none is calibrated."""
        CARRIERS.of(self.mechanism)

    @cached_property
    def drawn_by(self) -> Mechanism:
        """The mechanism that draws a study's messages; an error where it lacks a setting."""
        return CARRIERS.of(self.mechanism)

    @cached_property
    def channel(self) -> Channel:
        """What a client's update goes through into a message of this study: its bound and its mechanism."""
        return Channel.of(self.norm, self.drawn_by)


@dataclass(frozen=True, kw_only=True)
class Server:
    """What becomes of the messages: how a direction is read from them, and the step along it."""

    decoder: Annotated[Decoder | None, 'how a direction is read: "vote" of a majority vote, else "mean"'] = None
    step: Annotated[float, positive, "how far the model moves along the direction"] = 1.0
    optimiser: Annotated[Kind, OPTIMISERS, "how a step is made of a direction"] = field(
        default_factory=lambda: Kind("Sgd")
    )
    momentum: Annotated[float, at_least_zero, real, limited(below=1), "of Sgd: how much of the last step goes on"] = 0.0
    fewest: Annotated[int | None, whole, "answers without which a round does not count"] = None
    timeout: Annotated[float, positive, "seconds a round waits for answers; of a masked sum, each phase"] = 600.0
    retries: Annotated[int, natural, "how often a round with too few is asked again, before it is skipped"] = 1
    tolerance: Annotated[bool, "whether evaluated rounds say how many coordinates' votes survive the attackers"] = False

    def __post_init__(self) -> None:
        settle_table(self)
        optimiser_of(self.optimiser, self.momentum)  # its settings are checked

    @property
    def stepping(self) -> Optimiser:
        """The optimiser by which a study's server makes a step of each round's direction."""
        return optimiser_of(self.optimiser, self.momentum)


@dataclass(frozen=True, kw_only=True)
class Masking:
    """How the sum is hidden under secure aggregation; without this table a deployment takes these defaults.

    A simulation adds messages up directly, unless it is to rehearse what a deployment does.
    """

    threshold: Annotated[
        Annotated[int, whole] | Annotated[float, probability, positive] | None,
        "clients without whom there is no sum, or their share of those asked; all less dropouts if not given",
    ] = None
    neighbours: Annotated[
        int | None, natural, "nodes each is masked with: 0 for all; if not given, as few as are safe"
    ] = None
    rehearse: Annotated[bool, "whether Flower's simulation runs the protocol too"] = False

    def __post_init__(self) -> None:
        settle_table(self)


@dataclass(frozen=True, kw_only=True)
class Stop:
    """When a run ends before its last round, by the accuracy on the server's held-out records.

    Where only clients' answers are to be looked at ([evaluation], public = false), by the accuracy they prove at least.
    Its ε stays that of all rounds planned: when it stopped tells of what was sent (docs/proofs/composition.md, 13).
    """

    accuracy: Annotated[
        float | None, probability, positive, "the accuracy, or R² where labels are numbers, that is enough"
    ] = None
    patience: Annotated[int | None, whole, "evaluated rounds without a better one that are enough"] = None

    def __post_init__(self) -> None:
        """Refuse a study's run.stop that says nothing, or what no accuracy can be."""
        settle_table(self)
        if self.accuracy is None and self.patience is None:
            raise FedprivError("stop needs accuracy or patience")


@dataclass(frozen=True, kw_only=True)
class Run:
    """How long, from which seed, and how often the run looks and saves."""

    rounds: Annotated[int, whole, "how many"]
    seed: Annotated[int, natural, limited("must be below 2**63", below=2**63), "what everything is drawn from"] = 1
    evaluate_every: Annotated[int, whole, "rounds between two looks at the accuracy"] = 1
    checkpoint_every: Annotated[int, whole, "rounds between two checkpoints"] = 1
    measure_votes: Annotated[bool, "whether evaluated rounds of a simulation measure which votes came out wrong"] = (
        False
    )
    shown: Annotated[
        tuple[str, ...], words_among(("epsilon", "mu", "beta")), "what is told of privacy while it runs"
    ] = ("epsilon",)
    stop: Annotated[Stop | None, "what ends it before its last round"] = None

    def __post_init__(self) -> None:
        settle_table(self)
        object.__setattr__(self, "shown", tuple(self.shown))
