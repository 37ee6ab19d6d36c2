"""Many messages in, one vector out: every rule by its kind, the class's name, and what can be done before it.

A rule is called with a matrix of one row a client, and with what may aid it, and gives a vector. A row with anything
that is not a finite number is left out, too few rows are an error, and the matrix is never changed. `needs_rows` says
whether the rule must see each message, or can work on their sum. Whole numbers are taken as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from fedpriv.aggregation.before import Arc, Bucketing, Nnm, NormClipping
from fedpriv.aggregation.centres import CenteredClipping, GeometricMedian
from fedpriv.aggregation.chain import Before, Chain, Rule
from fedpriv.aggregation.distances import Bulyan, Krum, MultiKrum
from fedpriv.aggregation.filters import Caf, Dnc
from fedpriv.aggregation.order_statistics import Meamed, Median, TrimmedMean
from fedpriv.aggregation.own import OwnRule, OwnStep
from fedpriv.aggregation.private import PrivateMean
from fedpriv.aggregation.rows import Aid, finite_rows
from fedpriv.aggregation.sums import Mean, NormTrimmedSum
from fedpriv.aggregation.trust import FlTrust, SignGuard
from fedpriv.aggregation.votes import ClientVote, MajorityVote, WeightedVote
from fedpriv.errors import FedprivError
from fedpriv.kinds import fitted, imported, made

__all__ = [
    "BEFORE",
    "RULES",
    "Aid",
    "Arc",
    "Before",
    "Bucketing",
    "Bulyan",
    "Caf",
    "CenteredClipping",
    "Chain",
    "ClientVote",
    "Dnc",
    "FlTrust",
    "GeometricMedian",
    "Krum",
    "MajorityVote",
    "Meamed",
    "Mean",
    "Median",
    "MultiKrum",
    "Nnm",
    "NormClipping",
    "NormTrimmedSum",
    "PrivateMean",
    "Rule",
    "SignGuard",
    "TrimmedMean",
    "WeightedVote",
    "assumed",
    "finite_rows",
    "make_rule",
    "rule_alone",
]

Table = Mapping[str, Any]

RULES: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        Mean, MajorityVote, ClientVote, WeightedVote, Median, TrimmedMean, Meamed, NormTrimmedSum, Krum, MultiKrum,
        Bulyan, GeometricMedian, CenteredClipping, Dnc, Caf, FlTrust, SignGuard, PrivateMean,
    )
}  # fmt: skip
BEFORE: dict[str, type[Any]] = {kind.__name__: kind for kind in (Nnm, Bucketing, Arc, NormClipping)}


def make_rule(kind: str, settings: Table) -> Rule:
    """The rule of that kind with those settings, or one line that says what is wrong; `before` lists what precedes it.

    >>> make_rule("Median", {"before": [{"kind": "Bucketing", "size": 2}]})
    Chain(before=(Bucketing(size=2),), rule=Median())
    >>> make_rule("TrimedMean", {"dropped": 10})
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: unknown rule 'TrimedMean' (did you mean 'TrimmedMean'?); rules: Mean, MajorityVote, ...
    """
    tables = _before(settings)
    found = made("rule", RULES, kind, {name: value for name, value in settings.items() if name != "before"})
    rule = OwnRule.of(kind, found) if ":" in kind else cast(Rule, found)
    before = tuple(_step(own["kind"], _settings(own)) for own in tables)
    return Chain(before, rule) if before else rule


def _step(kind: str, settings: Table) -> Before:
    found = made("pre-aggregator", BEFORE, kind, settings)
    return OwnStep.of(kind, found) if ":" in kind else cast(Before, found)


def assumed(kind: str, settings: Table, attackers: int) -> dict[str, Any]:
    """The settings, the number of attackers filled in where a rule, or what precedes it, assumes one and is not told.

    >>> assumed("Krum", {"before": [{"kind": "Nnm"}]}, 3)
    {'before': [{'kind': 'Nnm', 'byzantine': 3}], 'byzantine': 3}
    """
    found = _filled(_class("rule", RULES, kind), settings, attackers)
    if "before" in settings:
        found["before"] = [
            _filled(_class("pre-aggregator", BEFORE, own["kind"]), own, attackers) for own in _before(settings)
        ]
    return found


def rule_alone(rule: Rule) -> Any:
    """The rule itself, without what precedes it."""
    return rule.rule if isinstance(rule, Chain) else rule


def _class(noun: str, kinds: Mapping[str, type[Any]], kind: str) -> type[Any] | None:
    return imported(noun, kind) if ":" in kind else kinds.get(kind)


def _filled(cls: type[Any] | None, settings: Table, attackers: int) -> dict[str, Any]:
    name = getattr(cls, "assumes", None)
    given = fitted(cls, settings)
    return {**given, name: attackers} if name and name not in given else given


def _before(settings: Table) -> Sequence[Table]:
    """The tables of the list, or an error that says what is none."""
    tables = settings.get("before", [])
    if not isinstance(tables, list | tuple):
        raise FedprivError(f'before must be a list of tables such as [{{kind = "Nnm"}}], got {tables!r}')
    for own in tables:
        if not (isinstance(own, Mapping) and isinstance(own.get("kind"), str)):
            raise FedprivError(f'before: each must be a table with kind = "…", got {own!r}')
    return tables


def _settings(table: Table) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name != "kind"}
