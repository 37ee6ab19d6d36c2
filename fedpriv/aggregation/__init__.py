"""Many messages in, one vector out: every rule by its kind, the class's name, and what can be done before it.

A rule is called with a matrix of one row a client, and with what may aid it, and gives a vector. A row with anything
that is not a finite number is left out, too few rows are an error, and the matrix is never changed. `needs_rows` says
whether the rule must see each message, or can work on their sum. Whole numbers are taken as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fedpriv.aggregation._before import Arc, Bucketing, Nnm, NormClipping
from fedpriv.aggregation._centres import CenteredClipping, GeometricMedian
from fedpriv.aggregation._chain import Before, Chain, GivesSigns, GivesSum, HasMost, NeedsReference, Rule
from fedpriv.aggregation._clusters import ClippedClustering, Flame
from fedpriv.aggregation._distances import Bulyan, Krum, MultiKrum
from fedpriv.aggregation._filters import Caf, Dnc
from fedpriv.aggregation._order_statistics import Meamed, Median, TrimmedMean
from fedpriv.aggregation._own import OwnRule, OwnStep
from fedpriv.aggregation._subsets import Mda, Smea
from fedpriv.aggregation._sums import Mean, NormTrimmedSum
from fedpriv.aggregation._trust import FlTrust, MoNna, SignGuard
from fedpriv.aggregation._votes import ClientVote, MajorityVote, WeightedVote
from fedpriv.aggregation.rows import Aid, finite_rows
from fedpriv.errors import FedprivError
from fedpriv.registry import Kind, Registry, fitted_settings

__all__ = [
    "RULES",
    "STEPS",
    "Aid",
    "Arc",
    "Before",
    "Bucketing",
    "Bulyan",
    "Caf",
    "CenteredClipping",
    "Chain",
    "ClientVote",
    "ClippedClustering",
    "Dnc",
    "FlTrust",
    "Flame",
    "GeometricMedian",
    "GivesSigns",
    "GivesSum",
    "HasMost",
    "Krum",
    "MajorityVote",
    "Mda",
    "Meamed",
    "Mean",
    "Median",
    "MoNna",
    "MultiKrum",
    "NeedsReference",
    "Nnm",
    "NormClipping",
    "NormTrimmedSum",
    "OwnStep",
    "Rule",
    "SignGuard",
    "Smea",
    "TrimmedMean",
    "WeightedVote",
    "finite_rows",
    "rule_alone",
    "rule_of",
    "with_assumed_attackers",
]

Table = Mapping[str, Any]

STEPS = Registry("pre-aggregator", Before, (Nnm, Bucketing, Arc, NormClipping), optional=["left"])


@dataclass(frozen=True, kw_only=True)
class BesideRule:
    """What a rule's table says besides its own settings."""

    before: Annotated[Sequence[Kind], STEPS, "what is done to the rows before, in order"] = ()


RULES = Registry(
    "rule",
    Rule,
    (
        Mean, MajorityVote, ClientVote, WeightedVote, Median, TrimmedMean, Meamed, NormTrimmedSum, Krum, MultiKrum,
        Bulyan, GeometricMedian, CenteredClipping, Dnc, Caf, FlTrust, SignGuard,
        Mda, Smea, MoNna, ClippedClustering, Flame,
    ),
    beside=BesideRule,
)  # fmt: skip


def rule_of(kind: str, settings: Table, rules: Registry[Rule] = RULES) -> Rule:
    """The server's rule that a study's table names, with the steps in its `before`; an error says what is wrong.

    >>> rule_of("Median", {"before": [{"kind": "Bucketing", "size": 2}]})
    Chain(before=(Bucketing(size=2),), rule=Median())
    >>> rule_of("TrimedMean", {"dropped": 10})
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: unknown rule 'TrimedMean' (did you mean 'TrimmedMean'?); rules: Mean, MajorityVote, ...
    """
    tables = _steps_before(settings)
    found = rules.made(kind, _without(settings, "before"))
    rule = OwnRule.of(kind, found) if ":" in kind else found
    before: list[Before] = []
    for own in tables:
        step = STEPS.made(own["kind"], _without(own, "kind"))
        before.append(OwnStep.of(own["kind"], step) if ":" in own["kind"] else step)
    return Chain(tuple(before), rule) if before else rule


def with_assumed_attackers(kind: str, settings: Table, attackers: int, rules: Registry[Rule] = RULES) -> dict[str, Any]:
    """A rule's settings with the study's number of attackers filled in where it, or a step before it, assumes one.

    >>> with_assumed_attackers("Krum", {"before": [{"kind": "Nnm"}]}, 3)
    {'before': [{'kind': 'Nnm', 'byzantine': 3}], 'byzantine': 3}
    """
    found = _filled(rules, kind, settings, attackers)
    if "before" in settings:
        found["before"] = [_filled(STEPS, own["kind"], own, attackers) for own in _steps_before(settings)]
    return found


def rule_alone(rule: Rule) -> Any:
    """A study's rule without the steps before it: who looks for a vote or a reference asks this one."""
    return rule.rule if isinstance(rule, Chain) else rule


def _filled(registry: Registry[Any], kind: str, settings: Table, attackers: int) -> dict[str, Any]:
    """Settings of a rule or a step before it, with the study's attackers where its class assumes some and has none."""
    cls = registry.named(kind) if kind in registry or ":" in kind else None
    name = getattr(cls, "assumes", None)
    given = fitted_settings(cls, settings)
    return {**given, name: attackers} if name and name not in given else given


def _steps_before(settings: Table) -> Sequence[Table]:
    """The tables of the steps before a rule, its setting `before`; refused where one is no table with a kind."""
    tables = settings.get("before", [])
    if not isinstance(tables, list | tuple):
        raise FedprivError(f'before must be a list of tables such as [{{kind = "Nnm"}}], got {tables!r}')
    for own in tables:
        if not (isinstance(own, Mapping) and isinstance(own.get("kind"), str)):
            raise FedprivError(f'before: each must be a table with kind = "…", got {own!r}')
    return tables


def _without(table: Table, name: str) -> dict[str, Any]:
    """A table of settings less one of its names, such as `before` or `kind`."""
    return {each: value for each, value in table.items() if each != name}
