"""What Flower's own strategies with Gaussian noise give away, on fedpriv's ledger: Flower's `PrivacyAccountant`.

An event of Flower's is one released average of n clipped updates, with noise of z·C/n on it. Whoever is asked is seen
to be, so nothing is amplified by sampling, and n stands fixed: absent is who returns the model as it was. A client's
update or none in its place then moves the average by C/n (`add-remove`), another update in its place by 2C/n
(`replace`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from decimal import ROUND_CEILING, Decimal
from hashlib import sha256
from logging import getLogger
from typing import Any

from flwr.serverapp import GaussianPrivacyEvent, NeighboringRelation, PrivacyConfig, PrivacySpent, SamplingMethod

from fedpriv.accounting.event import Event, by_hand, event_as_data, event_of
from fedpriv.accounting.ledger import Budget, Ledger
from fedpriv.errors import FedprivError, probability, whole
from fedpriv.flower._ledger import full_path
from fedpriv.masking.once import locked_directory
from fedpriv.mechanisms import Gaussian
from fedpriv.trust import MOST, Adjacency

VERSION = 1  # of a state
METHOD = "fedpriv: at most, by the exact curve, of ideal Gaussian noise; a client's update, or {other} in its place"
UNCOVERED = (
    "ε is of ideal Gaussian noise on the average of updates alone: what Flower's floats add to it, and metrics, are "
    "not covered (docs/flower-dp.md)"
)


class Accountant:
    """Flower's `PrivacyAccountant` with certified bounds: `…FixedClipping(…, accountant=Accountant(epsilon=10, …))`.

    Every number it gives is an upper bound; `ledger.epsilon(delta)` has the lower one beside it. A budget is counted as
    every ledger's is: it holds whatever is released next, so a round can be refused a little before ε is reached.

    >>> accountant = Accountant(epsilon=10, delta=1e-5)
    >>> accountant.compose(GaussianPrivacyEvent(noise_multiplier=1.5, sample_size=20, population_size=10**18), count=8)
    >>> accountant.get_epsilon(1e-5)
    9.299893
    """

    def __init__(
        self,
        *,
        epsilon: float | None = None,  # the most that may be given away; None: whatever it comes to
        delta: float,  # at which ε is told
        adjacency: Adjacency = "add-remove",  # "replace": another update in a client's place, not none
        population_size: int = MOST,  # clients that could be asked: nothing rests on it, but Flower compares it
        file: str | os.PathLike[str] | None = None,  # where the ledger is kept: read at once, written with each release
    ) -> None:
        probability(delta=delta)
        if not 0 < delta < 1:
            raise FedprivError(f"delta must be above 0 and below 1, got {delta:g}")
        whole(population_size=population_size)
        if epsilon is not None:
            Budget(epsilon, delta)
        _event_of_noise(1.0, adjacency, 1)  # or the adjacency is refused
        self._config = PrivacyConfig(
            delta, population_size, NeighboringRelation.ADD_OR_REMOVE_ONE, SamplingMethod.NO_AMPLIFICATION, epsilon
        )
        self._adjacency: Adjacency = adjacency
        self._file = None if file is None else full_path("file", file)
        self._said = False  # what is not covered
        if self._file is not None and not self._file.parent.is_dir():
            raise FedprivError(f"file = {str(self._file)!r}: there is no directory {str(self._file.parent)!r}")
        self._ledger = self._kept()

    @property
    def config(self) -> PrivacyConfig:
        """What Flower's strategies ask: δ, the budget, and that no sampling is claimed to amplify anything."""
        return self._config

    @property
    def ledger(self) -> Ledger:
        """All that was released, as a ledger of this project: `ledger.epsilon(delta)` is ε from both sides."""
        return self._ledger

    @property
    def num_releases(self) -> int:
        """How many noisy averages Flower's strategy has released."""
        return sum(event.rounds for event in self._ledger.events)

    def compose(self, event: GaussianPrivacyEvent, count: int = 1) -> None:
        """Charge so many releases of Flower's, in the ledger's file too where it has one, before a model leaves."""
        self._save(self._ledger.add(self._event(event, count)))
        if not self._said:
            getLogger("fedpriv").warning(UNCOVERED)
        self._said = True

    def get_epsilon(self, delta: float) -> float:
        """The certified ε at δ of all releases: at most so much, rounded up at the sixth digit, as Flower prints it."""
        upper = self._ledger.epsilon(delta).upper
        if not upper < 1e15:  # past it a float has no sixth digit behind the point
            return upper
        return max(upper, float(Decimal(upper).quantize(Decimal("1e-6"), ROUND_CEILING)))

    def get_delta(self, epsilon: float) -> float:
        """The certified δ at ε of all releases: at most so much."""
        return self._ledger.delta(epsilon).upper

    def get_privacy_spent(self, delta: float | None = None) -> PrivacySpent:
        """What all releases have given away, as Flower's strategies log it: ε at most, and what it is of."""
        delta = self._config.target_delta if delta is None else delta
        method = METHOD.format(other="none" if self._adjacency == "add-remove" else "another")
        return PrivacySpent(self.get_epsilon(delta), delta, self.num_releases, method)

    def would_exceed(self, event: GaussianPrivacyEvent, max_epsilon: float | None = None, count: int = 1) -> bool:
        """Whether so many releases more would pass the budget, its own or another: Flower asks before every round."""
        epsilon = self._config.max_epsilon if max_epsilon is None else max_epsilon
        if epsilon is None:
            raise FedprivError("no budget to exceed: give Accountant an epsilon, or would_exceed a max_epsilon")
        budget = Budget(epsilon, self._config.target_delta)
        return not replace(self._ledger, budget=budget).affords(self._event(event, count))

    def state_dict(self) -> dict[str, object]:
        """All that the accountant knows, for `json.dumps`, with a digest by which damage is found."""
        state: dict[str, object] = {
            "schema_version": VERSION, "backend": "fedpriv", "config": _plain(self._config),
            "events": [event_as_data(event) for event in self._ledger.events],
        }  # fmt: skip
        return state | {"digest": _digest_of(state)}

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Go on from a state that `state_dict` gave; refused where it is another's, damaged, or forgets a release."""
        if (
            not isinstance(state, Mapping)
            or state.get("backend") != "fedpriv"
            or state.get("schema_version") != VERSION
        ):
            raise FedprivError(f"an accountant's state of backend 'fedpriv', version {VERSION} was expected")
        told = {name: value for name, value in state.items() if name != "digest"}
        if state.get("digest") != _digest_of(told) or set(told) != {"schema_version", "backend", "config", "events"}:
            raise FedprivError("the accountant's state is damaged: its digest is of something else")
        if told["config"] != _plain(self._config):
            raise FedprivError("the accountant's state is of another configuration: give this one the same settings")
        entries: Any = told["events"]
        try:
            found = Ledger(tuple(event_of(entry) for entry in entries))
        except (AttributeError, KeyError, TypeError, FedprivError) as error:
            raise FedprivError(f"the accountant's state is damaged: {error}") from None
        self._check(found, "the accountant's state")
        kept = {replace(event, rounds=1): event.rounds for event in found.events}
        if any(kept.get(replace(event, rounds=1), 0) < event.rounds for event in self._ledger.events):
            raise FedprivError("the accountant's state forgets releases that this accountant has been charged for")
        self._save(found)

    def _kept(self) -> Ledger:
        """The ledger in this accountant's file; an empty one where there is none."""
        if self._file is None or not self._file.exists():
            return Ledger()
        found = replace(Ledger.load(self._file), budget=None)
        self._check(found, str(self._file))
        return found

    def _save(self, grown: Ledger) -> None:
        """Go on with a ledger, in the file first; refused where the file is no longer what this accountant knows."""
        if self._file is not None:
            with locked_directory(self._file.parent, "ledger"):
                if self._kept() != self._ledger:
                    raise FedprivError(
                        f"{self._file}: was written by another accountant since: one at a time; make this one anew"
                    )
                grown.save(self._file)
        self._ledger = grown

    def _event(self, event: GaussianPrivacyEvent, count: int) -> Event:
        """Flower's event, so many times, as one of the ledger's; refused where it is of another population."""
        if not isinstance(event, GaussianPrivacyEvent):
            raise FedprivError(f"event must be Flower's GaussianPrivacyEvent, got {event!r}")
        if event.population_size != self._config.population_size:
            raise FedprivError(
                f"population_size of the event must be the accountant's {self._config.population_size}, got "
                f"{event.population_size}"
            )
        whole(count=count)
        return _event_of_noise(event.noise_multiplier, self._adjacency, count)

    def _check(self, ledger: Ledger, where: str) -> None:
        """Refuse a ledger that holds anything but noisy averages between this accountant's neighbours."""
        for event in ledger.events:
            if event != _event_of_noise(getattr(event.mechanism, "noise", 1.0), self._adjacency, event.rounds):
                raise FedprivError(f"{where}: holds other releases than Gaussian averages under {self._adjacency}")


def _event_of_noise(multiplier: float, adjacency: Adjacency, rounds: int) -> Event:
    """An average's release under noise of z times what a client's update or none moves it by, so often."""
    mechanism = Gaussian(clip=1.0, noise=multiplier)
    return by_hand(mechanism, rounds=rounds, trust="central", unit="client", adjacency=adjacency)


def _plain(config: PrivacyConfig) -> dict[str, object]:
    """Flower's configuration as words and numbers, for a state."""
    return {name: getattr(value, "value", value) for name, value in asdict(config).items()}


def _digest_of(state: Mapping[str, object]) -> str:
    """SHA-256 of a state, by which damage is found; who means to deceive can work it out anew."""
    try:
        return sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()
    except (TypeError, ValueError):
        raise FedprivError("the accountant's state must be words and numbers") from None
