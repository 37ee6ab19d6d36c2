"""The tables of a study, each with the settings it takes and what they may be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Literal, assert_never, get_args

from fedpriv.channel import Channel, How
from fedpriv.dealing import KINDS as DEALINGS
from fedpriv.dealing import Dealing, make_dealing
from fedpriv.errors import FedprivError, at_least_zero, one_of, positive, probability, real, whole
from fedpriv.kept import KINDS as KEPT
from fedpriv.kept import Kept, make_kept
from fedpriv.kinds import fitted
from fedpriv.mechanisms import KINDS, Mechanism, make
from fedpriv.mechanisms.plain import Plain
from fedpriv.optimisers import KINDS as OPTIMISERS
from fedpriv.optimisers import Optimiser, make_optimiser
from fedpriv.packing import sends_reals
from fedpriv.participation import KINDS as PARTICIPATIONS
from fedpriv.participation import Participation, make_participation
from fedpriv.private_sums import KINDS as SUMS
from fedpriv.private_sums import PrivateSum, make_sum
from fedpriv.tables import native
from fedpriv.trust import Adjacency, Word, curated

Split = Literal["iid", "by-label", "in-order", "pool"]
Noise = Literal["seeded", "cryptographic"]
Decoder = Literal["mean", "vote"]


@dataclass(frozen=True)
class Kind:
    """A table that names a class: `kind`, and the settings that go to it."""

    kind: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", native(self.settings))

    def __eq__(self, other: object) -> bool:
        """Where they are written alike: 1 is not 1.0 to a class of which nothing else is known."""
        return isinstance(other, Kind) and repr(self.table()) == repr(other.table())

    def table(self) -> dict[str, Any]:
        """As it is written."""
        return {"kind": self.kind, **self.settings}


def _settle(table: Any, **kinds: Mapping[str, type[Any]]) -> None:
    """Its numbers Python's own, floats where floats are wanted, in the tables of known classes too."""
    for name, value in fitted(type(table), {each.name: getattr(table, each.name) for each in fields(table)}).items():
        if isinstance(value, Kind) and name in kinds:
            value = Kind(value.kind, fitted(kinds[name].get(value.kind), value.settings))
        object.__setattr__(table, name, value)


@dataclass(frozen=True, kw_only=True)
class Clients:
    """Who takes part: how many, what each holds, how many of them are Byzantine, and who is asked in a round."""

    count: int
    records: int = 1  # each client's own; the mean, where the split makes them uneven
    split: Split | Kind = "iid"
    byzantine: int | float = 0  # a whole number of clients, or a share of them
    participation: Kind = Kind("All")

    def __post_init__(self) -> None:
        _settle(self, split=DEALINGS, participation=PARTICIPATIONS)
        whole(count=self.count, records=self.records)
        if not isinstance(division := self.division, str):
            division.check(self.records)
        if isinstance(self.byzantine, int):
            whole(at_least=0, byzantine=self.byzantine)
        else:
            probability(byzantine=self.byzantine)
        if self.attackers >= self.count:
            raise FedprivError(f"byzantine leaves no honest client: {self.attackers} of {self.count}")
        self.chosen.check(self.count)

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
            return make_dealing(self.split.kind, self.split.settings)
        one_of(get_args(Split), split=self.split)
        return self.split

    @property
    def chosen(self) -> Participation:
        """Who is asked in a round."""
        return make_participation(self.participation.kind, self.participation.settings)


@dataclass(frozen=True, kw_only=True)
class Training:
    """What a client computes: the gradient of its batch, or the sum of its gradients along several local steps."""

    model: Kind = Kind("Logistic")
    batch: int = 0  # records a step; 0 for all the client has
    local_steps: int = 1
    learning_rate: float = 0.1  # of local steps; one gradient needs none

    def __post_init__(self) -> None:
        _settle(self)
        whole(at_least=0, batch=self.batch)
        whole(local_steps=self.local_steps)
        positive(learning_rate=self.learning_rate)


@dataclass(frozen=True, kw_only=True)
class Privacy:
    """What is promised to each client, or to each of its records, and what its message goes through.

    `epsilon` is a target: the one setting that the mechanism, or the release, lacks is calibrated to it. `budget` stops
    a run. With a release the promise is to records, and the mechanism only carries what is private already.
    """

    mechanism: Kind = Kind("Plain")
    release: Kind | None = None
    norm: How = "clip"
    trust: Word = "local"
    adjacency: Adjacency | None = None
    colluding: int = 0  # clients whose noise the server may know
    dropouts: int = 0  # clients asked that may not answer, under secure aggregation
    delta: float = 1e-5
    epsilon: float | None = None
    budget: float | None = None
    noise: Noise = "seeded"

    def __post_init__(self) -> None:
        _settle(self, mechanism=KINDS | {"Plain": Plain}, release=SUMS | KEPT)
        one_of(get_args(How), norm=self.norm)
        one_of(get_args(Word), trust=self.trust)
        one_of(get_args(Noise), noise=self.noise)
        if self.adjacency is not None:
            one_of(get_args(Adjacency), adjacency=self.adjacency)
        whole(at_least=0, colluding=self.colluding, dropouts=self.dropouts)
        one_of([*KINDS, "Plain"], mechanism=self.mechanism.kind)
        if self.release is not None:
            self._check_release(self.release)
        elif self.adjacency == "add-remove":
            raise FedprivError(
                "adjacency 'add-remove' is not that of a client's message, for who sends none is seen to be absent: "
                "'replace', or none given; it is that of records in a [privacy.release], and of noise that a trusted "
                "curator adds (fedpriv account --trust central)"
            )
        probability(delta=self.delta)
        for name, value in (("epsilon", self.epsilon), ("budget", self.budget)):
            if value is not None:
                positive(**{name: value})

    def _check_release(self, release: Kind) -> None:
        one_of([*SUMS, *KEPT], release=release.kind)
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
        return self.is_plain or sends_reals(KINDS[self.mechanism.kind])

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
            return make_sum(self.release.kind, self.release.settings)
        except FedprivError as error:
            raise FedprivError(f"release: {error}") from None

    @property
    def kept(self) -> Kept | None:
        """The release that is made once and kept for all rounds; None where there is none."""
        if self.release is None or self.release.kind not in KEPT:
            return None
        try:
            return make_kept(self.release.kind, self.release.settings)
        except FedprivError as error:
            raise FedprivError(f"release: {error}") from None

    @cached_property
    def chosen(self) -> Mechanism:
        """The mechanism, all its settings given."""
        if self.is_plain:
            return Plain.of(self.mechanism.settings)
        return make(self.mechanism.kind, self.mechanism.settings)

    @cached_property
    def channel(self) -> Channel:
        """What an update goes through on its way into a message."""
        return Channel.of(self.norm, self.chosen)


@dataclass(frozen=True, kw_only=True)
class Server:
    """What becomes of the messages: how a direction is read from them, and the step along it."""

    decoder: Decoder | None = None  # "vote" for a majority vote, else "mean"
    step: float = 1.0
    optimiser: Kind = Kind("Sgd")
    momentum: float = 0.0
    fewest: int | None = None  # answers without which a round does not count
    timeout: float = 600.0  # seconds a round waits for answers
    retries: int = 1  # how often a round with too few is asked again, before it is skipped
    tolerance: bool = False  # whether a round that is evaluated says how many coordinates' votes survive the attackers

    def __post_init__(self) -> None:
        _settle(self, optimiser=OPTIMISERS)
        if self.decoder is not None:
            one_of(get_args(Decoder), decoder=self.decoder)
        positive(step=self.step, timeout=self.timeout)
        at_least_zero(momentum=self.momentum)
        real(momentum=self.momentum)
        if not self.momentum < 1:
            raise FedprivError(f"momentum must be below 1, got {self.momentum}")
        self.stepping  # noqa: B018  – its settings are checked
        if self.fewest is not None:
            whole(fewest=self.fewest)
        whole(at_least=0, retries=self.retries)
        if not isinstance(self.tolerance, bool):
            raise FedprivError(f"tolerance must be true or false, got {self.tolerance!r}")

    @property
    def stepping(self) -> Optimiser:
        """How a step is made of a direction."""
        return make_optimiser(self.optimiser.kind, self.optimiser.settings, self.momentum)


@dataclass(frozen=True, kw_only=True)
class Masking:
    """How the sum is hidden under secure aggregation; without this table a deployment takes these defaults.

    A simulation adds messages up directly, unless it is to rehearse what a deployment does.
    """

    threshold: int | float | None = None  # clients without whom there is no sum, or their share of those asked
    neighbours: int | None = None  # nodes each is masked with: 0 for all, none given for as few as are safe
    rehearse: bool = False

    def __post_init__(self) -> None:
        _settle(self)
        if isinstance(self.threshold, float):
            probability(threshold=self.threshold)
            positive(threshold=self.threshold)
        elif self.threshold is not None:
            whole(threshold=self.threshold)
        if self.neighbours is not None:
            whole(at_least=0, neighbours=self.neighbours)
        if not isinstance(self.rehearse, bool):
            raise FedprivError(f"rehearse must be true or false, got {self.rehearse!r}")


@dataclass(frozen=True, kw_only=True)
class Run:
    """How long, from which seed, and how often the run looks and saves."""

    rounds: int
    seed: int = 1
    evaluate_every: int = 1
    checkpoint_every: int = 1

    def __post_init__(self) -> None:
        _settle(self)
        whole(rounds=self.rounds, evaluate_every=self.evaluate_every, checkpoint_every=self.checkpoint_every)
        whole(at_least=0, seed=self.seed)
        if not self.seed < 2**63:
            raise FedprivError(f"seed must be below 2**63, got {self.seed}")
