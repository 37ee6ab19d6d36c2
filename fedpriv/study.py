"""A study is one TOML file: what is trained on what, by whom, how privately, and against whom.

Tables: `[data] [clients] [clients.split] [clients.participation] [training] [training.model] [privacy]
[privacy.mechanism] [attack] [aggregation] [server] [run]`. A table with a `kind` chooses a class by its name; the rest
of it are that class's settings. Unknown keys are errors; what is left out has the defaults below, and the resolved
study says what they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from hashlib import blake2b
from typing import Any, Literal, get_args

from fedpriv.aggregation import Chain, Rule, assumed, make_rule, rule_alone
from fedpriv.attacks import Attack, Knowledge, make_attack, settled
from fedpriv.dealing import Dealing, make_dealing
from fedpriv.errors import FedprivError, at_least_zero, one_of, positive, probability, real, whole
from fedpriv.mechanisms import KINDS, Mechanism, make
from fedpriv.mechanisms.plain import Plain
from fedpriv.participation import Participation, make_participation
from fedpriv.release import Trust
from fedpriv.tolerance_ballots import KINDS as POLLED
from fedpriv.tradeoff import Adjacency

Norm = Literal["clip", "normalise", "coordinates"]
Split = Literal["iid", "by-label", "in-order", "pool"]
Noise = Literal["seeded", "cryptographic"]
Decoder = Literal["mean", "vote"]


@dataclass(frozen=True)
class Kind:
    """A table that names a class: `kind`, and the settings that go to it."""

    kind: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def table(self) -> dict[str, Any]:
        """As it is written."""
        return {"kind": self.kind, **self.settings}


@dataclass(frozen=True, kw_only=True)
class Clients:
    """Who takes part: how many, what each holds, how many of them are Byzantine, and who is asked in a round."""

    count: int
    records: int = 1  # each client's own; the mean, where the split makes them uneven
    split: Split | Kind = "iid"
    byzantine: int | float = 0  # a whole number of clients, or a share of them
    participation: Kind = Kind("All")

    def __post_init__(self) -> None:
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
        whole(at_least=0, batch=self.batch)
        whole(local_steps=self.local_steps)
        positive(learning_rate=self.learning_rate)


@dataclass(frozen=True, kw_only=True)
class Privacy:
    """What is promised to each client, and what its message goes through.

    `epsilon` is a target: the one setting the mechanism lacks is calibrated to it. `budget` stops a run.
    """

    mechanism: Kind = Kind("Plain")
    norm: Norm = "clip"
    trust: Trust = "local"
    adjacency: Adjacency | None = None
    colluding: int = 0  # clients whose noise the server may know
    dropouts: int = 0  # clients asked that may not answer, under secure aggregation
    delta: float = 1e-5
    epsilon: float | None = None
    budget: float | None = None
    noise: Noise = "seeded"

    def __post_init__(self) -> None:
        one_of(get_args(Norm), norm=self.norm)
        one_of(get_args(Trust), trust=self.trust)
        one_of(get_args(Noise), noise=self.noise)
        if self.trust == "central":
            raise FedprivError("trust 'central' has no mechanism here yet: local or secure-aggregation")
        if self.adjacency is not None:
            one_of(get_args(Adjacency), adjacency=self.adjacency)
        whole(at_least=0, colluding=self.colluding, dropouts=self.dropouts)
        one_of([*KINDS, "Plain"], mechanism=self.mechanism.kind)
        probability(delta=self.delta)
        for name, value in (("epsilon", self.epsilon), ("budget", self.budget)):
            if value is not None:
                positive(**{name: value})

    @property
    def is_plain(self) -> bool:
        """Whether nothing is promised: updates travel as they are."""
        return self.mechanism.kind == "Plain"

    @property
    def chosen(self) -> Mechanism:
        """The mechanism, all its settings given."""
        if self.is_plain:
            return Plain.of(self.mechanism.settings)
        return make(self.mechanism.kind, self.mechanism.settings)


@dataclass(frozen=True, kw_only=True)
class Server:
    """What becomes of the messages: how a direction is read from them, and the step along it."""

    decoder: Decoder | None = None  # "vote" for a majority vote, else "mean"
    step: float = 1.0
    momentum: float = 0.0
    fewest: int | None = None  # answers without which a round does not count
    timeout: float = 600.0  # seconds a round waits for answers
    retries: int = 1  # how often a round with too few is asked again, before it is skipped
    tolerance: bool = False  # whether a round that is evaluated says how many coordinates' votes survive the attackers

    def __post_init__(self) -> None:
        if self.decoder is not None:
            one_of(get_args(Decoder), decoder=self.decoder)
        positive(step=self.step, timeout=self.timeout)
        at_least_zero(momentum=self.momentum)
        real(momentum=self.momentum)
        if not self.momentum < 1:
            raise FedprivError(f"momentum must be below 1, got {self.momentum}")
        if self.fewest is not None:
            whole(fewest=self.fewest)
        whole(at_least=0, retries=self.retries)
        if not isinstance(self.tolerance, bool):
            raise FedprivError(f"tolerance must be true or false, got {self.tolerance!r}")


@dataclass(frozen=True, kw_only=True)
class Run:
    """How long, from which seed, and how often the run looks and saves."""

    rounds: int
    seed: int = 1
    evaluate_every: int = 1
    checkpoint_every: int = 1

    def __post_init__(self) -> None:
        whole(rounds=self.rounds, evaluate_every=self.evaluate_every, checkpoint_every=self.checkpoint_every)
        whole(at_least=0, seed=self.seed)
        if not self.seed < 2**63:
            raise FedprivError(f"seed must be below 2**63, got {self.seed}")


@dataclass(frozen=True, kw_only=True)
class Study:
    """All of it. `fedpriv.study_file` reads and writes it."""

    name: str
    about: str = ""
    data: Kind
    clients: Clients
    training: Training = Training()
    privacy: Privacy = Privacy()
    attack: Kind | None = None
    aggregation: Kind = Kind("Mean")
    server: Server = Server()
    run: Run

    def __post_init__(self) -> None:
        if not (self.name and self.name.isprintable() and not set(self.name) & set("/\\")):
            raise FedprivError(f"name must be a word without slashes, got {self.name!r}")
        if self.clients.attackers and self.attack is None:
            raise FedprivError(
                f"clients.byzantine = {self.clients.byzantine} but there is no [attack]: say what they do"
            )
        self._settle_attack()
        self._check_rule()
        self._check_tolerance()

    def _settle_attack(self) -> None:
        """Refuse what cannot be, and write out what the attackers know and every setting of what they do."""
        if self.attack is None:
            return
        kind, settings, privacy = self.attack.kind, self.attack.settings, self.privacy
        local, seeded = privacy.trust == "local", privacy.noise == "seeded"
        try:
            settings = settled(kind, settings, sums_only=not local, seeded=seeded, plain=privacy.is_plain)
        except FedprivError as error:
            raise FedprivError(f"attack: {error}") from None
        object.__setattr__(self, "attack", Kind(kind, settings))

    def _check_rule(self) -> None:
        """Refuse a rule that could not work in any round, and write out how many attackers it assumes."""
        kind, local = self.aggregation.kind, self.privacy.trust == "local"
        settings = assumed(kind, self.aggregation.settings, self.clients.attackers)
        object.__setattr__(self, "aggregation", Kind(kind, settings))
        rule = self.rule
        if rule.needs_rows and not local:
            who = f"{kind} with a before" if isinstance(rule, Chain) else kind
            raise FedprivError(
                f"aggregation: {who} needs each client's message, which secure aggregation hides: "
                "Mean or MajorityVote, or privacy.trust = 'local'"
            )
        if self._votes and self.decoder != "vote":
            raise FedprivError(f"server.decoder must be 'vote' for a {kind}, which has no mean")
        asked = self.clients.chosen.surely(self.clients.count) or self.clients.count
        if (least := getattr(rule, "least", 1)) > asked:
            raise FedprivError(f"aggregation: {rule} needs {least} clients, but a round asks {asked} at most")

    def _check_tolerance(self) -> None:
        if self.server.tolerance and (self.rule.needs_rows or self.privacy.mechanism.kind not in POLLED):
            raise FedprivError(
                "server.tolerance is of votes that are summed: aggregation must be Mean or MajorityVote, and the "
                f"mechanism {', '.join(POLLED)}; got {self.aggregation.kind} of {self.privacy.mechanism.kind}"
            )

    @property
    def _votes(self) -> bool:
        return getattr(rule_alone(self.rule), "votes", False)

    @property
    def decoder(self) -> Decoder:
        """How a direction is read from the messages: a majority vote's is its sign."""
        return self.server.decoder or ("vote" if self._votes else "mean")

    @property
    def rule(self) -> Rule:
        """The aggregation rule."""
        return make_rule(self.aggregation.kind, self.aggregation.settings)

    @property
    def attacker(self) -> Attack | None:
        """What Byzantine clients do."""
        return None if self.attack is None else make_attack(self.attack.kind, self.attack.settings)

    @property
    def knowledge(self) -> Knowledge:
        """What they know."""
        found: Knowledge = self.attack.settings["knowledge"] if self.attack else "own"
        return found

    @property
    def masked(self) -> int | None:
        """How many clients' messages a sum holds under secure aggregation; None where each message is seen."""
        own = self.clients
        return (own.chosen.surely(own.count) or own.count) if self.privacy.trust == "secure-aggregation" else None

    def table(self) -> dict[str, Any]:
        """The whole study as nested tables, defaults filled in; None, for which TOML has no word, is left out."""
        return {name: value for name, value in _table(self).items() if value != {}}

    @property
    def id(self) -> bytes:
        """Eight bytes that no two different studies share: a hash of every setting."""
        return blake2b(repr(self.table()).encode(), digest_size=8).digest()


def _table(value: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in fields(value):
        own = getattr(value, each.name)
        if isinstance(own, Kind):
            found[each.name] = own.table()
        elif hasattr(own, "__dataclass_fields__"):
            found[each.name] = _table(own)
        elif own is not None:
            found[each.name] = own
    return found
