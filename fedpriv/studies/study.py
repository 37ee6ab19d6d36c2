"""A study is one TOML file: what is trained on what, by whom, how privately, and against whom.

Tables: `[data] [clients] [clients.split] [clients.participation] [training] [training.model] [privacy]
[privacy.mechanism] [privacy.release] [masking] [corruption] [attack] [aggregation] [server] [run]`. A table with a
`kind` chooses a class by its name; the rest of it are that class's settings. Unknown keys are errors; what is left out
has the defaults below, and the resolved study says what they were.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Annotated, Any

from fedpriv.aggregation import (
    Chain,
    GivesSigns,
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
from fedpriv.registry import Kind
from fedpriv.releases import SUMS, first_settings
from fedpriv.settings import Family
from fedpriv.studies.identity import id_of
from fedpriv.studies.kinds import RULES
from fedpriv.studies.tables import Clients, Decoder, Masking, Privacy, Run, Server, Training
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
    run: Annotated[Run, "how long, from which seed, and how often the run looks and saves"]

    def __post_init__(self) -> None:
        if not (self.name and self.name.isprintable() and not set(self.name) & set("/\\")):
            raise FedprivError(f"name must be a word without slashes, got {self.name!r}")
        if self.clients.attackers and self.attack is None:
            raise FedprivError(
                f"clients.byzantine = {self.clients.byzantine} but there is no [attack]: say what they do"
            )
        self._check_release()
        self._check_masking()
        self._settle_corruption()
        self._settle_attack()
        self._check_rule()
        self._check_tolerance()

    def _check_release(self) -> None:
        kept = self.privacy.kept
        if self.privacy.release is not None and self.training.batch:
            why = "a release draws its own batch: privacy.release.sampling"
            if kept is not None:
                why = f"{type(kept).__name__} has fixed batches: privacy.release.batch"
            raise FedprivError(f"training.batch = {self.training.batch}, but {why}")
        if kept is not None and self.training.local_steps != 1:
            raise FedprivError(f"training.local_steps must be 1 with {type(kept).__name__}: a message is one gradient")

    def _check_masking(self) -> None:
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
        """Refuse what cannot be, and write out what the attackers know and every setting of what they do."""
        if self.attack is None:
            return
        kind, settings, privacy = self.attack.kind, self.attack.settings, self.privacy
        hidden, seeded = sums_only(privacy.trust), privacy.noise == "seeded"
        try:
            attack = _made_attack(self.attack)
            settings = settled_attack(attack, settings, sums_only=hidden, seeded=seeded, plain=privacy.is_plain)
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
        """Refuse a rule that could not work in any round, and write out how many attackers it assumes."""
        kind = self.aggregation.kind
        settings = self._bounded(
            kind, with_assumed_attackers(kind, self.aggregation.settings, self.clients.attackers, RULES)
        )
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

    def _check_symbols(self, rule: Rule) -> None:
        """Refuse a majority of what is no symbol: a sum of trials and a vote a client are two rules, not one."""
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

    def _bounded(self, kind: str, settings: dict[str, Any]) -> dict[str, Any]:
        """The settings of a rule that adds noise, its bound being the clip; refused where nobody trusts the server."""
        privacy = self.privacy
        if not curated(privacy.trust):
            if kind == "PrivateMean":
                raise FedprivError(
                    "aggregation: PrivateMean adds noise to messages that the server has read: privacy.trust must be "
                    f"'central', got '{privacy.trust}'"
                )
            return settings
        if kind != "PrivateMean" or "before" in settings:
            raise FedprivError("aggregation: under privacy.trust = 'central' it must be a PrivateMean with no before")
        clip = privacy.mechanism.settings.get("clip")
        if not privacy.is_plain or clip is None:
            raise FedprivError(
                "privacy.mechanism must be Plain with a clip under trust 'central': the noise is the server's"
            )
        if self.server.fewest is not None:
            raise FedprivError(
                "server.fewest is none of trust 'central': who does not answer counts as one that sends 0, and no "
                "round is skipped for it, as that would show"
            )
        if privacy.noise != "seeded":
            raise FedprivError("privacy: trust 'central' knows noise = 'seeded' (a simulation's)")
        if settings.get("bound", clip) != clip:
            raise FedprivError(f"aggregation.bound must be the mechanism's clip = {clip}, or left out")
        return {**settings, "bound": clip}

    def _check_tolerance(self) -> None:
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
        if self.run.measure_votes and self.privacy.release is not None:
            raise FedprivError(
                "run.measure_votes is of clients' own gradients, and here "
                f"{self.privacy.release.kind} releases noised ones"
            )

    @property
    def _sum(self) -> str | None:
        """The kind of the release of gradients, of which a setting may still be missing; None where there is none."""
        release = self.privacy.release
        return release.kind if release is not None and release.kind in SUMS else None

    @property
    def _votes(self) -> bool:
        rule = rule_alone(self.rule)
        return isinstance(rule, GivesSigns) and rule.votes

    @property
    def decoder(self) -> Decoder:
        """How a direction is read from the messages: a majority vote's is its sign."""
        return self.server.decoder or ("vote" if self._votes else "mean")

    @property
    def rule(self) -> Rule:
        """The aggregation rule."""
        return self.aggregation.once(RULES, lambda own: rule_of(own.kind, own.settings, RULES))

    @property
    def attacker(self) -> Attack | None:
        """What Byzantine clients do."""
        return None if self.attack is None else _made_attack(self.attack)

    @property
    def first_settings(self) -> tuple[float, ...]:
        """The settings of each client's release that adapt, as they are to begin with."""
        private = self.privacy.private_sum
        return () if private is None else first_settings(private, private.sampling * self.clients.records)

    @property
    def corrupted(self) -> Corruption | None:
        """Which share of the records is corrupted, and how."""
        own = self.corruption
        return None if own is None else own.once(corruption, lambda it: corruption.corruption_of(it.kind, it.settings))

    @property
    def knowledge(self) -> Knowledge:
        """What they know."""
        found: Knowledge = self.attack.settings["knowledge"] if self.attack else "own"
        return found

    @property
    def masked(self) -> int | None:
        """How many clients' messages a sum holds under secure aggregation; None where each message is seen."""
        return self.clients.most_asked if sums_only(self.privacy.trust) else None

    def table(self) -> dict[str, Any]:
        """The whole study as nested tables, defaults filled in; None, for which TOML has no word, is left out."""
        return {name: value for name, value in _table(self).items() if value != {}}

    @cached_property
    def id(self) -> bytes:
        """Eight bytes that no two different studies share: `fedpriv.studies.identity` says of what."""
        return id_of(self)


def _made_attack(table: Kind) -> Attack:
    return table.once(ATTACKS, lambda own: attack_of(own.kind, own.settings))


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
