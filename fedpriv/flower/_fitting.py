"""What may stand inside the private strategy: a strategy that averages, a rule that reads its channel's messages."""

from __future__ import annotations

from secrets import randbits
from typing import Any

import numpy as np
from flwr.serverapp import strategy as flower
from flwr.serverapp.strategy import Strategy

from fedpriv.aggregation import GivesSigns, NeedsReference, Rule, rule_alone
from fedpriv.errors import FedprivError
from fedpriv.studies.directions import Reading

CHOOSE = (  # among results, or weigh them: of these there is one
    flower.Bulyan, flower.FedMedian, flower.FedTrimmedAvg, flower.Krum, flower.MultiKrum, flower.QFedAvg,
)  # fmt: skip
OTHER = (  # other models, or another privacy
    flower.DifferentialPrivacyClientSideAdaptiveClipping, flower.DifferentialPrivacyClientSideFixedClipping,
    flower.DifferentialPrivacyServerSideAdaptiveClipping, flower.DifferentialPrivacyServerSideFixedClipping,
    flower.FedXgbBagging, flower.FedXgbCyclic,
)  # fmt: skip


def check_strategy(strategy: Strategy, also: type[Strategy]) -> None:
    """Refuse to wrap a strategy that one result is nothing to, or one of type `also`, and name what fits."""
    name = type(strategy).__name__
    if isinstance(strategy, CHOOSE):
        raise FedprivError(
            f"{name} chooses among clients' results, and there is one: Private(FedAvg(…), …, rule=…) has such rules "
            "(rule='Krum byzantine=2', 'Median', 'TrimmedMean dropped=2': fedpriv list)"
        )
    if isinstance(strategy, (*OTHER, also)) or not isinstance(strategy, Strategy):
        raise FedprivError(f"{name} is no strategy that averages clients' models: Private(FedAvg(…), …), FedAdam, …")


def reading_by(mechanism: Any, rule: Rule) -> Reading:
    """How messages of a mechanism are read by a rule; refused where the rule needs more, or has no mean to give."""
    alone = rule_alone(rule)
    if isinstance(alone, NeedsReference) and alone.needs_reference:
        raise FedprivError(f"{type(alone).__name__} needs an update of the server's own, which a strategy has none of")
    votes = isinstance(alone, GivesSigns) and alone.votes
    found = Reading(mechanism=mechanism, rule=rule, decoder="vote" if votes else "mean", seed=randbits(62))
    if not votes and not found.needs_rows:
        try:
            mechanism.decode(np.zeros(1, np.int64), 1)
        except FedprivError as error:
            raise FedprivError(f"no mean of these messages: {error}; rule='MajorityVote' reads them as votes") from None
    return found
