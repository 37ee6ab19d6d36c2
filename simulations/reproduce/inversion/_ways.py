"""The ways to send one client's update that are set side by side, and what a server reads of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from json import dumps
from math import inf

import numpy as np

from clients.data import Idx
from fedpriv._base.arrays import Rows, Vector
from fedpriv._base.spelling import rounded_up
from fedpriv.accounting.account import Account
from fedpriv.aggregation import Mean
from fedpriv.channel import Channel
from fedpriv.channel.encoding import Seeded
from fedpriv.mechanisms.plain import Plain
from fedpriv.mechanisms.response import Sign
from fedpriv.packed.symbols import packing_of
from fedpriv.studies import file as study_file
from fedpriv.studies.calibrating import calibrated_study
from fedpriv.studies.directions import Reading
from fedpriv.studies.study import Study
from fedpriv.trust import Local

SUMS = ("StochasticSign", "Binomial")  # noise for ε ≤ 4 in the sum of all clients, over all rounds
LOCAL = ("StochasticSign", "Ternary", "Binomial")  # and for ε ≤ 4 in the one message
WORDS = {"StochasticSign": "one bit", "Ternary": "three symbols", "Binomial": "five symbols"}
MORE = {"Binomial": ", trials=4", "Ternary": ", scale=5.0"}  # what is not calibrated
PICTURED = "StochasticSign"
ALONE = {"privacy.trust": '"local"', "run.rounds": "1"}


@dataclass(frozen=True)
class Way:
    """How a client's update is sent, and the ε of that one message for whoever sees it alone."""

    title: str
    short: str  # above a column of pictures; "" where it is in the table alone
    channel: Channel
    epsilon: float  # certified from above; ∞ of what is sent without noise

    @property
    def exact(self) -> bool:
        """Whether the server reads the update itself, of floats without noise."""
        return isinstance(self.channel.mechanism, Plain)

    def read(self, updates: Rows, seed: int) -> Vector:
        """What the server reads of clients' messages, a row each: drawn by the channel, and decoded where it can be."""
        mechanism, noise = self.channel.mechanism, Seeded(seed=seed, round=1, clients=np.arange(len(updates)))
        symbols = packing_of(mechanism).unpack(self.channel.messages(updates, noise), updates.shape[1])
        return Reading(mechanism=mechanism, rule=Mean(), decoder="mean", seed=seed).rows_seen(symbols)


def base_study(data: str | None, model: str, more: Mapping[str, str] | None = None) -> Study:
    """The study whose noise is looked at: of clients with one record each, `digits` or pixels as `fashion-votes` has.

    `data` is a directory of idx files; None, or the word digits, for digits. `model`, `more` are as `--set` has them.
    """
    name, words = "digits", {}
    if data not in (None, "digits"):
        path = dumps(str(Idx(path=data).resolved().path))
        name, words = "fashion-votes", {"data": f"{{kind='Idx', path={path}, divide=255.0}}", "clients.records": "1"}
    settings = {**words, "clients.byzantine": "0", "training.model": model, **(more or {})}
    return study_file.read_study(name, [f"{key}={value}" for key, value in settings.items()])


def sent_ways(data: str | None, model: str, dimension: int) -> Iterator[Way]:
    """The ways to send an update of so many coordinates, the most telling first: floats, signs, messages with noise."""
    yield Way("floats, no noise", "floats", Channel.of("normalise", Plain(clip=1.0)), inf)
    yield Way("one bit, no noise", "one bit,\nno noise", Channel.of("normalise", Sign(clip=1.0)), inf)
    peak = base_study(data, model).privacy.mechanism.settings["peak"]
    for kinds, where, trust in ((SUMS, "the sum", {}), (LOCAL, "itself", ALONE)):
        for kind in kinds:
            mechanism = f"{{kind='{kind}', clip=1.0, peak={peak}{MORE.get(kind, '')}}}"
            own = base_study(data, model, {**trust, "privacy.mechanism": mechanism})
            privacy = calibrated_study(own, dimension).privacy
            cost = Account((privacy.channel.event(dimension, Local(), rounds=1),)).epsilon(privacy.delta)
            title = f"{WORDS[kind]}, ε ≤ {privacy.epsilon:g} of {where}"
            short = title.replace(", ", ",\n").replace(" of ", "\nof ") if kind == PICTURED else ""
            yield Way(title, short, privacy.channel, cost.bounds.upper)


def epsilon_words(epsilon: float) -> str:
    """The ε of a message as the page has it, never rounded down; ∞ of what is sent without noise."""
    return "∞" if epsilon == inf else rounded_up(epsilon)
