"""A study is one TOML file: what is trained on what, by whom, how privately, and against whom.

Tables: `[data] [clients] [clients.split] [clients.participation] [training] [training.model] [privacy]
[privacy.mechanism] [privacy.release] [masking] [corruption] [attack] [aggregation] [server] [evaluation] [run]`. A
table with a `kind` chooses a class by its name; the rest of it are that class's settings. Unknown keys are errors; what
is left out has the defaults below, and the resolved study says what they were.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any

from fedpriv.aggregation import (
    Chain,
    GivesSigns,
    HasMost,
    MajorityVote,
    OwnStep,
    Rule,
    rule_alone,
    rule_of,
    with_assumed_attackers,
)
from fedpriv.attacks import ATTACKS, Attack, Knowledge, attack_of, corruption, settled_attack
from fedpriv.attacks.corruption import CORRUPTIONS, Corruption
from fedpriv.errors import FedprivError
from fedpriv.estimation.curators import Around, Curator
from fedpriv.registry import Kind
from fedpriv.releases import SUMS, check_hidden, first_settings
from fedpriv.settings import Family
from fedpriv.studies._settling import table_of
from fedpriv.studies.asked import Evaluation
from fedpriv.studies.clients import Clients, Training
from fedpriv.studies.curating import settled_rule
from fedpriv.studies.identity import id_of
from fedpriv.studies.kinds import CURATORS, RULES
from fedpriv.studies.tables import Decoder, Masking, Privacy, Run, Server
from fedpriv.tolerance.ballots import is_polled, polled_names
from fedpriv.trust import curated, sums_only

__all__ = ["Kind", "Study"]


@dataclass(frozen=True, kw_only=True)
class Study:
    """All of it. `fedpriv.studies.file` reads and writes it."""

    name: Annotated[str, "what the study is called; the file's name if not given"]
    about: Annotated[str, "what it is for, in a line"] = ""
    data: Annotated[Kind, Family("data set"), "what is learned from"]
    clients: Annotated[Clients, "who takes part"]
    training: Annotated[Training, "what a client computes"] = field(default_factory=Training)
    privacy: Annotated[Privacy, "what is promised to each client, or to each of its records"] = field(
        default_factory=Privacy
    )
    masking: Annotated[Masking | None, "how a sum is hidden under secure aggregation"] = None
    corruption: Annotated[Kind | None, CORRUPTIONS, "records that are wrong, at every client alike"] = None
    attack: Annotated[Kind | None, ATTACKS, "what Byzantine clients do"] = None
    aggregation: Annotated[Kind, RULES, "how messages become one direction"] = field(
        default_factory=lambda: Kind("Mean")
    )
    server: Annotated[Server, "how the model moves along the direction, and how long the server waits"] = field(
        default_factory=Server
    )
    evaluation: Annotated[Evaluation | None, "what clients answer about the model, through a mechanism"] = None
    run: Annotated[Run, "how long, from which seed, and how often the run looks and saves"]

    def __post_init__(self) -> None:
        """Refuse a study whose tables do not go together, and write out what its attack, rule and corruption assume."""
        if not (self.name and self.name.isprintable() and not set(self.name) & set("/\\")):
            raise FedprivError(f"name must be a word without slashes, got {self.name!r}")
        if self.clients.attackers and self.attack is None:
            raise FedprivError(
                f"clients.byzantine = {self.clients.byzantine} but there is no [attack]: say what they do"
            )
        self._settle_release()
        self._check_masking()
        self._settle_corruption()
        self._settle_attack()
        self._check_rule()
        self._check_tolerance()

    def _settle_release(self) -> None:
        """Refuse training settings that do not go with the study's release, and write out what it takes in records."""
        object.__setattr__(self, "privacy", self.privacy.in_records(self.clients.records))
        check_hidden(self.privacy.release, vars(self.training))
        kept, why = self.privacy.kept, "a release draws its own batch: privacy.release.sampling"
        if self.privacy.release is not None and self.training.batch:
            why = why if kept is None else f"{type(kept).__name__} has fixed batches: privacy.release.batch"
            raise FedprivError(f"training.batch = {self.training.batch}, but {why}")
        self._check_sampling()
        divides = self.privacy.release is not None or self.training.divisor == "expected"
        if self.clients.by_user and self.clients.records == 1 and divides:
            raise FedprivError(
                "clients.records is missing: releases and the divisor 'expected' divide by this number, which is "
                "public and so must not come of data that say whose they are: clients.records = 20 or so"
            )
        if self.privacy.release is not None and not self.training.is_plain:
            why = f"the local steps of a {self.privacy.release.kind} add up what it releases, as it is: leave it out"
            raise FedprivError(f"training.{'proximal' if self.training.proximal else 'optimiser'}: {why}")
        for name, usual in (("local_steps", 1), ("loss", "CrossEntropy"), ("device", "cpu")):
            if kept is not None and (own := getattr(self.training, name)) not in (usual, Kind(str(usual))):
                raise FedprivError(f"training.{name} must be {usual} with {type(kept).__name__}, got {own}")

    def _check_sampling(self) -> None:
        """Refuse a record's promise without a batch that hides who is in it, and two draws of one batch."""
        q, privacy = self.training.sampling, self.privacy
        if q is not None and privacy.release is not None:
            raise FedprivError(f"training.sampling = {q:g}, but a release draws its own batch: privacy.release has it")
        if q is None and privacy.release is None and privacy.protected == "record":
            batch = f": training.batch = {self.training.batch} is drawn from the seed, which is public"
            raise FedprivError(
                "privacy.unit = 'record' needs training.sampling, the chance of each record to be in a step's batch"
                f"{batch if self.training.batch else ''}"
            )

    def _check_masking(self) -> None:
        """Refuse a [masking] table without secure aggregation, or a threshold beside other counts of answers."""
        if self.masking is None:
            return
        if not sums_only(self.privacy.trust):
            raise FedprivError(f"masking is of sums: privacy.trust 'secure-aggregation', not {self.privacy.trust}")
        if self.masking.threshold is not None and (self.server.fewest is not None or self.privacy.dropouts):
            raise FedprivError(
                "masking.threshold says how many answers a round needs, and so do server.fewest and privacy.dropouts: "
                "give one of them"
            )

    def _settle_corruption(self) -> None:
        """Write out every setting of the study's corruption; refuse one of gradients where none are released."""
        if self.corruption is None:
            return
        kind = self.corruption.kind
        try:
            settings = corruption.settled_corruption(kind, self.corruption.settings)
        except FedprivError as error:
            raise FedprivError(f"corruption: {error}") from None
        object.__setattr__(self, "corruption", self.corruption.with_settings(settings))
        if self.corrupted is not None and self.corrupted.of_gradients and self._sum is None:
            raise FedprivError(
                f"corruption: {kind} acts on a record's own gradient, which only a privacy.release of gradients has"
            )

    def _settle_attack(self) -> None:
        """Refuse a study's attack that cannot be; write out what attackers know and all its settings."""
        if self.attack is None:
            return
        kind, settings, privacy = self.attack.kind, self.attack.settings, self.privacy
        seeded = privacy.noise == "seeded"
        try:
            attack = _made_attack(self.attack)
            settings = settled_attack(attack, settings, trust=privacy.trust, seeded=seeded, plain=privacy.is_plain)
        except FedprivError as error:
            raise FedprivError(f"attack: {error}") from None
        name = self._sum
        if settings["knowledge"] != "own" and name is not None and SUMS[name].adapts:
            raise FedprivError(
                f"attack: {kind} with knowledge = '{settings['knowledge']}' cannot foresee others whose {name} "
                "adapts, each from its own last step: knowledge = 'own'"
            )
        table = self.attack.with_settings(settings)
        table.once(ATTACKS, lambda _: attack)
        object.__setattr__(self, "attack", table)

    def _check_rule(self) -> None:
        """Refuse a study's rule that could not work in any round; write out how many attackers it assumes."""
        kind = self.aggregation.kind
        given = with_assumed_attackers(kind, self.aggregation.settings, self.clients.attackers, RULES)
        around = Around(
            self.privacy.mechanism.settings.get("clip"), self.clients.count, self.clients.schedule, self.run.rounds,
            self.privacy.adjacency,
        )  # fmt: skip
        settings = settled_rule(kind, given, around, self.privacy, self.server)
        object.__setattr__(self, "aggregation", self.aggregation.with_settings(settings))
        rule = self.rule
        if rule.needs_rows and sums_only(self.privacy.trust):
            who = f"{kind} with a before" if isinstance(rule, Chain) else kind
            raise FedprivError(
                f"aggregation: {who} needs each client's message, which secure aggregation hides: "
                "Mean or MajorityVote, or privacy.trust = 'local'"
            )
        self._check_symbols(rule)
        if self._votes and self.decoder != "vote":
            raise FedprivError(f"server.decoder must be 'vote' for a {kind}, which has no mean")
        asked = self.clients.most_asked
        if rule.least > asked:
            raise FedprivError(f"aggregation: {rule} needs {rule.least} clients, but a round asks {asked} at most")
        alone, rows = rule_alone(rule), rule.left(asked) if isinstance(rule, Chain) else asked
        if isinstance(alone, HasMost) and rows > alone.most:
            raise FedprivError(f"aggregation: {alone} works with {alone.most} rows at most, but a round has {rows}")

    def _check_symbols(self, rule: Rule) -> None:
        """Refuse a study's majority vote of reals: a sum of trials and a vote a client are two rules, not one."""
        if not isinstance(rule_alone(rule), MajorityVote):
            return
        step = rule.mixing if isinstance(rule, Chain) else None
        if step is not None:
            name = step.kind if isinstance(step, OwnStep) else type(step).__name__
            raise FedprivError(
                f"aggregation: MajorityVote adds up symbols, and behind {name} rows are none: "
                "ClientVote gives each row one sign"
            )
        if self.privacy.sends_reals:
            raise FedprivError(
                f"aggregation: MajorityVote adds up symbols, and {self.privacy.mechanism.kind} sends reals: ClientVote "
                "gives each row one sign"
            )

    def _check_tolerance(self) -> None:
        """Refuse a study that asks for the tolerance of votes, or to measure them, where no votes are summed."""
        if self.server.tolerance and (self.rule.needs_rows or not is_polled(self.privacy.mechanism.kind)):
            raise FedprivError(
                "server.tolerance is of votes that are summed: aggregation must be Mean or MajorityVote, and the "
                f"mechanism {polled_names()}; got {self.aggregation.kind} of {self.privacy.mechanism.kind}"
            )
        if self.run.measure_votes and self.decoder != "vote":
            raise FedprivError(
                "run.measure_votes is of directions that are votes: aggregation MajorityVote or server.decoder = "
                f"'vote', got {self.aggregation.kind} with decoder '{self.decoder}'"
            )
        if self.run.measure_votes and (release := self.privacy.release) is not None:
            raise FedprivError(f"run.measure_votes is of clients' own gradients: {release.kind} releases noised ones")

    @property
    def _sum(self) -> str | None:
        """The kind of the study's release of gradients, which may lack a setting still; None where there is none."""
        release = self.privacy.release
        return release.kind if release is not None and release.kind in SUMS else None

    @property
    def _votes(self) -> bool:
        """Whether the study's rule is a majority vote, whose direction has signs alone."""
        rule = rule_alone(self.rule)
        return isinstance(rule, GivesSigns) and rule.votes

    @property
    def decoder(self) -> Decoder:
        """How the server reads a direction from the study's messages: their mean, or a majority vote's sign."""
        return self.server.decoder or ("vote" if self._votes else "mean")

    @property
    def rule(self) -> Rule:
        """The aggregation rule that the server of this study makes a direction of messages by."""
        return self.aggregation.once(RULES, lambda own: rule_of(own.kind, own.settings, RULES))

    @property
    def curator(self) -> Curator | None:
        """The rule by which a trusted server adds the noise; None under other trusts, where clients draw it."""
        return CURATORS.of(self.aggregation) if curated(self.privacy.trust) else None

    @property
    def attacker(self) -> Attack | None:
        """The attack that the study's Byzantine clients carry out, or None."""
        return None if self.attack is None else _made_attack(self.attack)

    @property
    def first_settings(self) -> tuple[float, ...]:
        """The settings that adapt, of each client's release or the curator's, as the first round has them."""
        private, curator = self.privacy.private_sum, self.curator
        if curator is not None:
            return curator.first_settings
        return () if private is None else first_settings(private, private.sampling * self.clients.records)

    @property
    def corrupted(self) -> Corruption | None:
        """What is wrong with the records of the study's clients, and with which share; None if nothing."""
        own = self.corruption
        return None if own is None else own.once(corruption, lambda it: corruption.corruption_of(it.kind, it.settings))

    @property
    def knowledge(self) -> Knowledge:
        """What the study's attackers see of the others' updates and messages; "own" alone if there are none."""
        found: Knowledge = self.attack.settings["knowledge"] if self.attack else "own"
        return found

    @property
    def masked(self) -> int | None:
        """How many clients' messages a sum of this study holds under secure aggregation; None if each is seen."""
        return self.clients.most_asked if sums_only(self.privacy.trust) else None

    def table(self) -> dict[str, Any]:
        """The whole study as nested tables for its TOML, defaults filled in; None, which TOML lacks, is left out."""
        return {name: value for name, value in table_of(self).items() if value != {}}

    @cached_property
    def id(self) -> bytes:
        """Eight bytes that frames and ledgers name the study by: `fedpriv.studies.identity` says of what."""
        return id_of(self)


def _made_attack(table: Kind) -> Attack:
    """The attack that a study's [attack] table names, made once and kept with the table."""
    return table.once(ATTACKS, lambda own: attack_of(own.kind, own.settings))
