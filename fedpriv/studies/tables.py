"""The tables of a study, each with the settings it takes and what they may be."""

from __future__ import annotations

from dataclasses import dataclass, field
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
from fedpriv.population.dealing import SPLITS, Dealing
from fedpriv.population.participation import PARTICIPATIONS, Participation
from fedpriv.registry import Kind, Registry, fitted_settings
from fedpriv.releases import SUMS, PrivateSum
from fedpriv.releases.kept import KEPT, Kept
from fedpriv.settings import Family, check_fields, settings_of
from fedpriv.studies.kinds import CARRIERS, RELEASES
from fedpriv.trust import Adjacency, Word, curated

Split = Literal["iid", "by-label", "in-order", "pool"]
Noise = Literal["seeded", "cryptographic"]
Decoder = Literal["mean", "vote"]


def _settle(table: object) -> None:
    """Its numbers Python's own, floats where floats are wanted, in the tables of known classes too; then checked."""
    families = {own.name: own.family for own in settings_of(type(table))}
    for name, value in fitted_settings(type(table), {each: getattr(table, each) for each in families}).items():
        known = isinstance(value, Kind) and isinstance(families[name], Registry)
        object.__setattr__(table, name, families[name].settled(value) if known else value)
    check_fields(table)


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
        _settle(self)
        if not isinstance(division := self.division, str):
            division.check(self.records)
        if self.attackers >= self.count:
            raise FedprivError(f"byzantine leaves no honest client: {self.attackers} of {self.count}")
        self.schedule.check(self.count)

    @property
    def attackers(self) -> int:
        """How many are Byzantine: a share is rounded down."""
        if isinstance(self.byzantine, int):
            return self.byzantine
        return int(self.byzantine * self.count * (1 + 1e-12))

    @property
    def division(self) -> Split | Dealing:
        """How records are divided: by a word, or by the kind of a table with settings."""
        if isinstance(self.split, Kind):
            return SPLITS.of(self.split)
        return self.split

    @property
    def schedule(self) -> Participation:
        """Who is asked in a round."""
        return PARTICIPATIONS.of(self.participation)

    @property
    def most_asked(self) -> int:
        """How many a round asks at most: all there are, where their number is drawn."""
        return self.schedule.surely(self.count) or self.count


@dataclass(frozen=True, kw_only=True)
class Training:
    """What a client computes: the gradient of its batch, or the sum of its gradients along several local steps."""

    model: Annotated[Kind, Family("model"), "what is trained"] = field(default_factory=lambda: Kind("Logistic"))
    batch: Annotated[int, natural, "records a step; 0 for all the client has"] = 0
    local_steps: Annotated[int, whole, "steps a client makes by itself in a round"] = 1
    learning_rate: Annotated[float, positive, "of local steps; one gradient needs none"] = 0.1

    def __post_init__(self) -> None:
        _settle(self)


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
    adjacency: Annotated[Adjacency | None, "what neighbours differ by; what is released says it if not given"] = None
    colluding: Annotated[int, natural, "clients whose noise the server may know"] = 0
    dropouts: Annotated[int, natural, "clients asked that may not answer, under secure aggregation"] = 0
    delta: Annotated[float, probability, "the δ that ε holds at"] = 1e-5
    epsilon: Annotated[float | None, positive, "a target that the setting left out is calibrated to"] = None
    budget: Annotated[float | None, positive, "the ε at which a run stops"] = None
    noise: Annotated[Noise, "drawn from the seed, so that runs repeat, or from the operating system"] = "seeded"

    def __post_init__(self) -> None:
        _settle(self)
        CARRIERS.named(self.mechanism.kind)
        if self.release is not None:
            self._check_release(self.release)
        elif self.adjacency == "add-remove":
            raise FedprivError(
                "adjacency 'add-remove' is not that of a client's message, for who sends none is seen to be absent: "
                "'replace', or none given; it is that of records in a [privacy.release], and of noise that a trusted "
                "curator adds (fedpriv account --trust central)"
            )

    def _check_release(self, release: Kind) -> None:
        RELEASES.named(release.kind)
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
    def is_plain(self) -> bool:
        """Whether messages travel as they are."""
        return self.mechanism.kind == "Plain"

    @property
    def sends_reals(self) -> bool:
        """Whether a message is of reals, not of symbols."""
        return self.is_plain or sends_reals(CARRIERS[self.mechanism.kind])

    @property
    def promises(self) -> bool:
        """Whether anything is promised."""
        return self.release is not None or not self.is_plain or curated(self.trust)

    @property
    def private_sum(self) -> PrivateSum | None:
        """The release of each step, all its settings given; None where there is none, or it is kept."""
        if self.release is None or self.release.kind in KEPT:
            return None
        try:
            return SUMS.of(self.release)
        except FedprivError as error:
            raise FedprivError(f"release: {error}") from None

    @property
    def kept(self) -> Kept | None:
        """The release that is made once and kept for all rounds; None where there is none."""
        if self.release is None or self.release.kind not in KEPT:
            return None
        try:
            return KEPT.of(self.release)
        except FedprivError as error:
            raise FedprivError(f"release: {error}") from None

    def check_whole(self) -> None:
        """Refuse a mechanism that lacks a setting."""
        CARRIERS.of(self.mechanism)

    @cached_property
    def drawn_by(self) -> Mechanism:
        """The mechanism that draws messages, all its settings given."""
        return CARRIERS.of(self.mechanism)

    @cached_property
    def channel(self) -> Channel:
        """What an update goes through on its way into a message."""
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
        _settle(self)
        optimiser_of(self.optimiser, self.momentum)  # its settings are checked

    @property
    def stepping(self) -> Optimiser:
        """How a step is made of a direction."""
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
        _settle(self)


@dataclass(frozen=True, kw_only=True)
class Run:
    """How long, from which seed, and how often the run looks and saves."""

    rounds: Annotated[int, whole, "how many"]
    seed: Annotated[int, natural, limited("must be below 2**63", below=2**63), "what everything is drawn from"] = 1
    evaluate_every: Annotated[int, whole, "rounds between two looks at the accuracy"] = 1
    checkpoint_every: Annotated[int, whole, "rounds between two checkpoints"] = 1
    shown: Annotated[
        tuple[str, ...], words_among(("epsilon", "mu", "beta")), "what is told of privacy while it runs"
    ] = ("epsilon",)

    def __post_init__(self) -> None:
        _settle(self)
        object.__setattr__(self, "shown", tuple(self.shown))
