"""What a study may choose where that is more than one family: mechanisms and none, both kinds of release, all rules."""

from __future__ import annotations

from fedpriv.aggregation import RULES as RULES_FOR_ALL
from fedpriv.aggregation import BesideRule, Rule
from fedpriv.estimation.curators import Curator
from fedpriv.estimation.dp_fedavg import DpFedAvg
from fedpriv.estimation.dp_ftrl import DpFtrl
from fedpriv.estimation.private_mean import PrivateMean
from fedpriv.mechanisms import MECHANISMS, Binomial, Cldp, Mechanism, RandomisedResponse, StochasticSign, Ternary
from fedpriv.mechanisms.plain import Plain
from fedpriv.registry import UNPROVED, Registry
from fedpriv.releases import SUMS, PrivateSum
from fedpriv.releases.hidden import HIDDEN, HiddenState
from fedpriv.releases.kept import KEPT, Kept

CARRIERS = Registry("mechanism", Mechanism, (*MECHANISMS.values(), Plain))
# Of these the error of an answer's mean is known exactly: unbiased, of few symbols, drawn on no grid of their own.
ANSWERS: Registry[Mechanism] = Registry(
    "mechanism", Mechanism, (RandomisedResponse, StochasticSign, Cldp, Binomial, Ternary),
    proof="how far off the mean of answers through it may be is not known here",
)  # fmt: skip
RELEASES: Registry[PrivateSum | Kept | HiddenState] = Registry(
    "release", PrivateSum, (*SUMS.values(), *KEPT.values(), *HIDDEN.values()), proof=UNPROVED
)
# Trusted servers, who add the noise: rules of trust 'central', and of no other.
CURATORS: Registry[Curator] = Registry("curator", Curator, (PrivateMean, DpFedAvg, DpFtrl), proof=UNPROVED)
RULES = Registry("rule", Rule, (*RULES_FOR_ALL.values(), *CURATORS.values()), beside=BesideRule)
