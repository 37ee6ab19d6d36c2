"""What a client allows, whatever a server asks: a TOML file beside its data, which the node's configuration names.

The noise is bounded by what it is for: the ε of one message, and of everything this client has ever released, both
worked out here from the mechanism that is asked for. Who lowers the noise, raises the clip norm, adds rounds or changes
the mechanism changes that number, so one rule stands for all.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, assert_never

from clients.data import DATA_SETS
from clients.data.aside import beside_of
from clients.data.featured import Featured, data_set_of, told_features
from clients.data.pool import MOST_CLASSES
from clients.node import _untrusted as untrusted
from clients.node.costs import counted_epsilon, total_epsilon
from fedpriv._base.spelling import rounded_up, short_number
from fedpriv.accounting.event import Event
from fedpriv.accounting.ledger import Budget
from fedpriv.errors import FedprivError, limited, natural, one_of, positive, whole, whole_from
from fedpriv.masking.roster import Owner
from fedpriv.mechanisms import MECHANISMS
from fedpriv.registry import built_kind
from fedpriv.settings import check_fields
from fedpriv.studies import file as study_file
from fedpriv.studies import promise as guarantee
from fedpriv.studies.asked import Evaluation
from fedpriv.studies.identity import FORMAT
from fedpriv.studies.kinds import RELEASES
from fedpriv.studies.study import Kind, Study
from fedpriv.studies.tables import Noise
from fedpriv.trust import Central, Local, Sums, Unit, curated

Believed = Literal["local", "secure-aggregation", "simulated"]
MOST = 10_000_000  # clients of a study


class Refused(FedprivError):
    """What a server asks for, and this client does not give."""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """The client's own terms. What is not said here is refused, or is the stricter of two."""

    budget: Annotated[Budget, "of everything in the ledger, whatever the study or the server"]
    studies: Annotated[tuple[str, ...] | None, 'by name or id; all of them where it is "any"']
    round: Annotated[Budget | None, "of one message"] = None
    unit: Annotated[Unit, "whose budget it is; a record's counts what is released of clients too"] = "client"
    mechanisms: Annotated[tuple[str, ...] | None, "kinds of mechanisms or of releases; any if not given"] = None
    clip: Annotated[float | None, positive, "the largest norm of an update, or of a record's gradient"] = None
    trust: Annotated[
        Believed, 'whether others\' noise counts: only "simulated", for trying, believes sums without masks'
    ] = "local"
    contributors: Annotated[int, whole, "of how many, this one included, the noise counts at most"] = 1
    colluding: Annotated[int, natural, "clients that a study has to suppose to work with the server, at least"] = 0
    neighbours: Annotated[
        int | None, natural, "nodes each is masked with, at least; 0 for all; if not given, as many as are safe"
    ] = None
    noise: Annotated[Noise, '"seeded", for trying: who knows the study\'s seed can subtract it'] = "cryptographic"
    attacks: Annotated[bool, "for trying: whether the clients here play the attackers that a study asks for"] = False
    reruns: Annotated[bool, "whether another run of a study is answered anew, and charged anew"] = False
    imports: Annotated[tuple[str, ...], "module:Class of a study that may be imported"] = ()
    data: Annotated[
        Kind | None, DATA_SETS, "what this node's clients hold; if not given, for trying: what the study names"
    ] = None
    classes: Annotated[
        int | None,
        whole_from(2),
        limited("must be at most 2^16 = 65536", most=MOST_CLASSES),
        "of that data, whichever of them occur in it: its largest label tells of a record",
    ] = None
    clients: Annotated[
        int, whole, "among how many of a study's clients that data may be divided, where the budget is of clients"
    ] = 1
    largest_model: Annotated[int, whole, "coordinates"] = 10_000_000
    longest_round: Annotated[float, positive, "seconds"] = 3600.0
    ledger: Annotated[str, "a directory, beside the policy"] = "ledger"

    def __post_init__(self) -> None:
        """Refuse a node's policy whose settings do not fit their kinds, or one another."""
        check_fields(self)
        shipped = [kind for kind in self.mechanisms or () if ":" not in kind]  # others are among its imports
        one_of([*MECHANISMS, *RELEASES], **{f"mechanisms: {kind}": kind for kind in shipped})
        for name in ("budget", "round"):
            if (own := getattr(self, name)) is not None and not own.delta < 1:
                raise FedprivError(f"{name}.delta must be below 1, got {own.delta}: 1 allows everything")
        if not isinstance(self.ledger, str) or not self.ledger or "\0" in self.ledger:
            raise FedprivError(f"ledger must name a directory, got {self.ledger!r}")
        if self.trust == "local" and self.contributors != 1:
            raise FedprivError("contributors counts only where trust is secure-aggregation (or simulated)")
        if self.data is not None:
            own = data_set_of(self.data)
            if self.data.kind == "Leaf":  # what is wrong with some of its records is wrong with all: others would tell
                raise FedprivError(
                    "data: Leaf is of studies of many users: a node's own records are Arrays, Hub or Idx"
                )
            if beside_of(self.data).aside:
                raise FedprivError("data.aside is of studies: a node's own records are set aside for no server")
            if isinstance(own, Featured) and own.features.beside.public:
                raise FedprivError("data.features: public = true is of data that are public: a node's own are not")
            numbers = getattr(own, "labels", "classes") == "numbers"
            if numbers and self.classes is not None:
                raise FedprivError(f'classes = {self.classes}, where data has labels = "numbers": leave classes out')
            if self.classes is None and not numbers:
                raise FedprivError(
                    "data needs classes, how many there are, whichever of them occur here: add a line such as "
                    "classes = 10"
                )

    def read_study(self, text: str, asked_by: str = "study") -> Study:
        """The study that a server sends a node, refused before anything it names is imported or made."""
        if (fault := untrusted.fault(text)) is not None:
            raise Refused(fault)
        tables = study_file.study_tables(text, name=asked_by)
        privacy = tables.get("privacy")
        mechanism = privacy.get("mechanism") if isinstance(privacy, dict) else None
        if isinstance(mechanism, dict) and "file" in mechanism:
            raise Refused("the study names a file for its mechanism: a server sends the numbers")
        for path in _imported(tables):
            if path not in self.imports:
                raise Refused(f"the study imports {path!r}, which this client's policy does not list in imports")
        return study_file.parsed_study(text, name=asked_by)

    @property
    def masking(self) -> Owner:
        """What this node's owner asks of a masked sum: how many neighbours and colluding clients, at least."""
        return Owner(neighbours=self.neighbours, colluding=self.colluding)

    def _check_evaluation(self, asking: Evaluation) -> None:
        """Refuse a study's evaluation that this node's owner does not allow, or that its data cannot answer."""
        labels = asking.labels
        told = {"evaluation": asking.mechanism, **({"evaluation.labels": labels.mechanism} if labels else {})}
        for name, mechanism in told.items():
            if self.mechanisms is not None and mechanism.kind not in self.mechanisms:
                raise Refused(f"{name}: {mechanism.kind} is not among this client's mechanisms")
        if self.data is not None and asking.held_out:
            raise Refused("evaluation.held_out: this client's data are all dealt to train on: held_out = 0")
        if self.data is not None and getattr(data_set_of(self.data), "labels", "classes") == "numbers":
            raise Refused("evaluation: an answer is the share of labels that are right, and labels here are numbers")
        if labels is not None and self.classes is not None and labels.classes != self.classes:
            raise Refused(f"evaluation.labels.classes = {labels.classes}, and this client's data have {self.classes}")

    def check(self, study: Study) -> None:
        """Refuse a study outside this node's policy, whatever it costs: by name, mechanism, trust, clip, attack."""
        if not study.clients.count <= MOST:
            raise Refused(f"a study of {study.clients.count:,} clients, at most {MOST:,}")
        own = study.id.hex()
        if self.studies is not None and not (own in self.studies or study.name in set(self.studies) - _ids(self)):
            raise Refused(
                f"study {study.name!r} ({own}) is not among the studies that this client accepts"
                f"{f', some by id, of which this version knows format {FORMAT}' * bool(_ids(self))}"
            )
        kind = (study.privacy.release or study.privacy.mechanism).kind
        if self.mechanisms is not None and kind not in self.mechanisms:
            raise Refused(f"{kind} is not among this client's mechanisms: {', '.join(self.mechanisms)}")
        if study.evaluation is not None:
            self._check_evaluation(study.evaluation)
        if not study.privacy.promises:
            raise Refused("Plain messages promise nothing to anybody")
        if curated(study.privacy.trust):
            raise Refused("trust 'central' shows the server each update as it is: local or secure-aggregation")
        clip, private = 0.0, study.privacy.private_sum  # records that are kept are noised in their own cube
        if not study.privacy.in_places:
            clip = float(study.privacy.drawn_by.clip if private is None else private.clip)
        elif study.privacy.hidden is not None:
            clip = study.privacy.hidden.gradient
        if self.clip is not None and not clip <= self.clip:
            raise Refused(f"clip = {clip:g}, at most {self.clip:g}")
        if study.corruption is not None and not self.attacks:
            raise Refused("the study corrupts records: attacks = true allows that")
        if study.attack is not None and study.clients.attackers and not self.attacks:
            raise Refused(
                "the study asks clients to play attackers, who need not keep to the mechanism: attacks = true"
            )
        if self.data is not None:
            self._check_own_data(study, self.data)

    @staticmethod
    def _check_own_data(study: Study, data: Kind) -> None:
        """Refuse a study by whose rounds no ε of a node's own data would hold, or that is of other features of them."""
        if study.privacy.hidden is not None and study.privacy.adjacency == "add-remove":
            raise Refused("HiddenState of this client's own data: adjacency 'replace', as a record less moves others")
        if (asked := told_features(study.data)) != (own := told_features(data)):
            raise Refused(
                f"the study's data.features: {asked}; this client's, by its policy: {own}: they must be alike"
            )
        if study.corruption is not None or study.clients.attackers:
            raise Refused(
                "the study corrupts records by their numbers, which one record more moves, or asks clients to play "
                "attackers: no ε of this client's own data would hold"
            )

    def events(self, study: Study, dimension: int, round: int, *, masked: bool) -> tuple[Event, ...]:
        """What a round's message gives away, as this node's ledger has it; of what is kept, all that ever will be."""
        units = guarantee.units_of(study)
        if self.unit == "client" and self.unit not in units:
            raise Refused("the study protects records, and this client's budget is of clients")
        found = guarantee.events_of_message(study, dimension, round, self.unit if self.unit in units else units[0])
        sums = self.trust == "simulated" or (self.trust == "secure-aggregation" and masked)
        return tuple(self._believed(event, sums) for event in found)

    def _believed(self, event: Event, sums: bool) -> Event:
        """A message's event with no more noise of other clients than this node's policy believes in."""
        match event.trust:
            case Sums(certain):
                return replace(event, trust=Sums(min(certain, self.contributors)) if sums else Local())
            case Local():
                return event
            case Central():
                raise Refused("a client's own message is never a curator's")
            case _ as never:
                assert_never(never)

    def afford(self, after: tuple[Event, ...], new: tuple[Event, ...], *, alike: bool) -> None:
        """Refuse a message too dear by itself, or with all before it; `alike`: none was ever of other events.

        Whoever sees an answer may choose what to ask for next by it, so a budget counts what adds up under any choice.
        """
        if self.round is not None and not (cost := total_epsilon(new, self.round.delta)) <= self.round.epsilon:
            raise Refused(f"one message would cost ε = {rounded_up(cost, 6)}, at most {self.round.epsilon:g} a round")
        if not (cost := counted_epsilon(after, self.budget.delta, alike)) <= self.budget.epsilon:
            raise Refused(
                f"it would take ε to {rounded_up(cost, 6)} at δ = {short_number(self.budget.delta)}, "
                f"past the budget of {self.budget.epsilon:g} in this client's policy"
            )


def _ids(policy: Policy) -> set[str]:
    """The words in a node policy's `studies` that look like a study's id: they allow by id, never by a name."""
    return {word for word in policy.studies or () if re.fullmatch("[0-9a-f]{16}", word)}


def read_policy(path: Path) -> Policy:
    """A node's policy from its owner's TOML file, or `Refused` with one line that says what is wrong with it."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        for name in {"budget", "round"} & set(table):
            table[name] = built_kind(name, Budget, _table(name, table[name]))
        if "data" in table:
            settings = dict(_table("data", table["data"]))
            if "kind" not in settings:
                raise FedprivError("policy: data needs a kind, such as data = { kind = 'Arrays', path = '…' }")
            table["data"] = Kind(settings.pop("kind"), settings)
        for name in {"studies", "mechanisms", "imports"} & set(table):
            value, imports = table[name], name == "imports"
            if value == "any" and not imports:
                table[name] = None
            elif isinstance(value, list) and all(isinstance(each, str) for each in value):
                table[name] = tuple(value)
            else:
                hint = "" if imports else ', or "any"'
                raise FedprivError(f"policy: {name} must be a list of words{hint}, got {value!r}")
        found: Policy = built_kind("policy", Policy, table)
        return found
    except OSError as error:
        raise Refused(f"{path}: the policy cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:  # FedprivError, and what is no TOML
        raise Refused(f"{path}: {error}") from None


def _table(name: str, value: Any) -> Mapping[str, Any]:
    """A table of a policy's file, refused where the value is none."""
    if not isinstance(value, dict):
        raise FedprivError(f"policy: {name} must be a table, got {value!r}")
    return value


def _imported(table: Any) -> Iterator[str]:
    """Every module:Class that a server's study names, so that a node's policy can refuse it before it is imported."""
    if isinstance(table, dict):
        for key, value in table.items():
            if isinstance(value, str) and ":" in value and (key == "kind" or table.get("kind") == "Module"):
                yield value
            yield from _imported(value)
    elif isinstance(table, list):
        for each in table:
            yield from _imported(each)
