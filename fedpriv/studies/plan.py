"""A study as the objects it names, made once in a process: what is exchanged, and what that gives away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fedpriv.accounting.event import Event
from fedpriv.aggregation import Rule
from fedpriv.aggregation.optimisers import Optimiser
from fedpriv.attacks import Attack
from fedpriv.attacks.corruption import Corruption
from fedpriv.channel import Channel
from fedpriv.mechanisms import Mechanism
from fedpriv.population.participation import All, Participation
from fedpriv.releases import PrivateSum
from fedpriv.releases.kept import Kept
from fedpriv.studies import evaluating, promise
from fedpriv.studies import file as study_file
from fedpriv.studies.observers import fewest_answers
from fedpriv.studies.spending import Epsilon, Given, Tracked, worst_epsilon, worst_tracked
from fedpriv.studies.study import Study

AT_ONCE = 8  # rounds whose ε are worked out together


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan:
    """A study with every setting given, and its objects.

    >>> from fedpriv.studies.calibrating import calibrated_study
    >>> study = study_file.read_study("digits", ["privacy.trust=local"])
    >>> plan = Plan.of(calibrated_study(study, dimension=650), dimension=650)
    >>> plan.epsilon(rounds=40).upper <= study.privacy.epsilon
    True
    """

    study: Study
    dimension: int  # coordinates of an update
    channel: Channel  # what an update goes through on its way into a message
    private_sum: PrivateSum | None  # what a client releases of its records in every step
    kept: Kept | None  # what it releases of them once
    rule: Rule  # how messages become a direction
    optimiser: Optimiser  # how a step is made along it
    participation: Participation  # who is asked in a round
    attack: Attack | None  # what Byzantine clients do
    corruption: Corruption | None  # what is wrong with the records of all clients

    @staticmethod
    def of(study: Study, dimension: int) -> Plan:
        """The plan of a study that lacks no setting: all objects it names; `calibrated_study` finds a missing one."""
        return Plan(
            study=study, dimension=dimension, channel=study.privacy.channel, private_sum=study.privacy.private_sum,
            kept=study.privacy.kept, rule=study.rule, optimiser=study.server.stepping,
            participation=study.clients.schedule, attack=study.attacker, corruption=study.corrupted,
        )  # fmt: skip

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism that draws clients' messages in a run of this study."""
        return self.channel.mechanism

    @cached_property
    def text(self) -> str:
        """The study as TOML, every default written out: what nodes and workers are handed with a round."""
        return study_file.study_text(self.study)

    @cached_property
    def fewest(self) -> int:
        """How many answers a round of the run needs to count; with fewer it is asked again, then skipped."""
        return fewest_answers(self.study)

    @cached_property
    def releases_of_worst(self) -> int:
        """In how many of a run's rounds the client that is asked most often takes part: the schedule is public."""
        return promise.releases_of_worst(self.study)

    @cached_property
    def affordable(self) -> int:
        """How many rounds of one client its budget pays for, of those the study plans: there the run stops."""
        return promise.affordable_rounds(self.study, self.dimension)

    @cached_property
    def asking(self) -> Plan | None:
        """The plan of the rounds in which a run's clients are asked about the model; None without an [evaluation]."""
        study = evaluating.asking_study(self.study)
        return None if study is None else Plan.of(study, 1)

    @cached_property
    def asking_labels(self) -> Plan | None:
        """The plan of the round in which a run's clients are asked for a label; None where its study asks for none."""
        study = evaluating.asking_study(self.study, "labels")
        return None if study is None else Plan.of(study, 1)

    def event(self, rounds: int = 1) -> Event:
        """The ledger's event for so many rounds of one client; of kept noise, that of its coordinates alone."""
        return promise.promised_event(self.study, self.dimension, rounds)

    def events(self, rounds: int = 1) -> tuple[Event, ...]:
        """All events that so many rounds of one client give away, as a run's header and costs name them."""
        return promise.promised_events(self.study, self.dimension, rounds)

    def affords(self, given: Given) -> bool:
        """Whether a run's budget, where it has one, pays for these messages, answers and labels of one client."""
        budget = self.study.privacy.budget
        if any(given[1:]) and budget is not None:
            return self.epsilon(*given).upper <= budget
        return given.messages <= self.affordable

    def epsilon(self, rounds: int, answers: int = 0, labels: int = 0) -> Epsilon:
        """The certified ε at the study's δ after one client's rounds, answers and labels, for a run's records."""
        return self._spent(Given(rounds, answers, labels))[0]

    def tracked(self, rounds: int, answers: int = 0, labels: int = 0) -> Tracked:
        """The certified μ and β after one client's rounds, answers and labels, for a run's records."""
        return self._spent(Given(rounds, answers, labels))[1]

    def spent(self, given: Sequence[Given]) -> dict[str, Any]:
        """ε, μ and β of whichever of these clients is worst off, by what they have given, as a record line has them."""
        epsilon = worst_epsilon([self.epsilon(*each) for each in given])
        return {"epsilon": epsilon._asdict(), **worst_tracked([self.tracked(*each) for each in given]).lines()}

    def worst(self, given: Sequence[Given]) -> Given:
        """What the client has given that has the largest certified ε, of these."""
        return given[0] if len(given) == 1 else max(given, key=lambda each: self.epsilon(*each).upper)

    def _spent(self, given: Given) -> tuple[Epsilon, Tracked]:
        """What one client's rounds, answers and labels cost: ε, and μ and β beside it.

        Where everybody takes part in every round, the schedule says what will be asked for next: some of it is worked
        out along with this, for right after training no code and no table is in the processor's caches.
        """
        epsilon, tracked = self._spending
        rounds = given.messages
        if any(given[1:]):
            if given not in self._known:
                self._known[given] = epsilon(*given), tracked(*given)
            return self._known[given]
        if given not in self._known:
            every = self.study.run.evaluate_every if isinstance(self.participation, All) else self.study.run.rounds
            last = min(rounds + (AT_ONCE - 1) * every, self.study.run.rounds)
            wanted = (rounds, *range(rounds + every, last + 1, every))
            self._known.update((Given(each), (epsilon(each), tracked(each))) for each in wanted)
        return self._known[given]

    @cached_property
    def _known(self) -> dict[Given, tuple[Epsilon, Tracked]]:
        """What is already worked out, by what one client has given."""
        return {}

    def epsilons(self, rounds: int) -> dict[str, dict[str, Any]]:
        """ε after so many rounds of one client for every unit that is known, where there are several; else none."""
        units = promise.units_of(self.study)
        if len(units) == 1:
            return {}
        found: dict[str, dict[str, Any]] = {}
        for unit in units:
            [event] = promise.promised_events(self.study, self.dimension, unit=unit)
            after = promise.epsilon_by_rounds(self.study, self.dimension, unit)
            found[unit] = {"adjacency": event.adjacency, "epsilon": after(rounds)._asdict()}
        return found

    @cached_property
    def _spending(self) -> tuple[Callable[..., Epsilon], Callable[..., Tracked]]:
        """What `_spent` asks: ε, and μ and β, as functions of one client's rounds, prepared once."""
        own = self.study, self.dimension
        return promise.epsilon_by_rounds(*own), promise.tracked_by_rounds(*own)

    @property
    def both_epsilons(self) -> dict[str, Any] | None:
        """Of kept noise the published ε and the example-level one, never one alone, for a run's header; else None."""
        return promise.both_epsilons(self.study)
