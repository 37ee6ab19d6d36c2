"""Private evaluation: a round of its own, of one coordinate, in which clients say how much the model gets right.

It is asked, answered, checked, summed and charged as a round of a study is: of the same clients, under the same trust,
through the mechanism of `[evaluation]`. What a client answers is 2s − 1 for the share s of its records that are right.
Once in a run it may be asked for a label too: the class of one of its records, through randomised response.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from math import log, sqrt
from typing import Any, Literal

import numpy as np
from scipy.special import rel_entr

from fedpriv._base.arrays import Numbers, Rows, Vector
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import Mechanism, RandomisedResponse
from fedpriv.mechanisms.variance import message_spread
from fedpriv.randomness.streams import stream
from fedpriv.registry import Kind
from fedpriv.studies.study import Study
from fedpriv.trust import curated, sums_only

MISSES = 0.05  # the chance that an interval may miss, or any of all classes'

Question = Literal["right", "labels"]  # which share of a client's records is right; which class one of them is of
LABELS: Question = "labels"


def asking_study(study: Study, question: Question = "right") -> Study | None:
    """The study that a study's evaluation is a round of: updates are answers; None without one, or one line why not."""
    own, privacy = study.evaluation, study.privacy
    if own is None:
        return None
    mechanism, rule = own.mechanism, Kind("Mean")
    if question == LABELS:
        if own.labels is None:
            return None
        if sums_only(privacy.trust):
            raise FedprivError("evaluation.labels: classes are counted one by one, which sums hide: trust 'local'")
        mechanism, rule = own.labels.mechanism, Kind("Median")  # which is never taken: it has every label come alone
    if privacy.release is not None or privacy.protected == "record":
        raise FedprivError("evaluation: an answer is charged to its client, and here records are promised something")
    if curated(privacy.trust):
        raise FedprivError(
            "evaluation: clients answer through a mechanism of their own: privacy.trust 'central' has none"
        )
    if privacy.is_plain:
        raise FedprivError("evaluation: Plain messages show what the answers would hide: a mechanism, or no evaluation")
    if study.masking is not None and study.masking.rehearse:
        raise FedprivError("evaluation: masked sums carry messages alone: masking.rehearse must be false")
    if own.held_out and not (study.clients.split == "iid" or study.clients.split == "in-order"):
        raise FedprivError("evaluation.held_out needs clients.split 'iid' or 'in-order', which deal as many to each")
    return replace(
        study,
        privacy=replace(privacy, mechanism=mechanism, norm="coordinates", epsilon=None, budget=None),
        aggregation=rule, server=replace(study.server, decoder="mean", tolerance=False),
        evaluation=None, run=replace(study.run, measure_votes=False),
    )  # fmt: skip


def model_digest(weights: Rows) -> str:
    """What tells apart the models that one round's evaluations are asked about: who is asked twice of one answers once.

    >>> model_digest(np.zeros(2, np.float32))
    'ca08ea5bca49cc18'
    """
    return blake2b(np.ascontiguousarray(weights, "<f4").tobytes(), digest_size=8).hexdigest()


def asked_about(question: Question, weights: Rows) -> str:
    """What tells apart the questions of one round, for a ledger and for noise: the model's digest; of labels no model.

    >>> asked_about("labels", np.zeros(2, np.float32)), asked_about("right", np.zeros(2, np.float32))
    ('labels', 'ca08ea5bca49cc18')
    """
    return model_digest(weights) if question == "right" else question


def answers_seed(seed: int, about: str) -> int:
    """The seed of simulated answers' noise: another for another model or labels, as no two are under one noise."""
    return int(stream(seed, f"evaluation {about}").integers(2**63))


def accuracy_found(mechanism: Mechanism, mean: float, answered: int, liars: int = 0) -> dict[str, Any]:
    """The accuracy that answers come to, its standard error at most, and an interval that holds 19 times in 20.

    `mean` is the decoded one. The accuracy is the mean, over the clients that answered, of the share of records right,
    and nothing is assumed of it: by Bernstein's inequality for `answered` independent answers, each unbiased. All have
    to draw as the mechanism says; by `lied` so many who do not can move it further. docs/proofs/evaluation.md.

    >>> sign = RandomisedResponse(clip=1, levels=1, epsilon=1.0)
    >>> found = accuracy_found(sign, 0.6, 1000)
    >>> [round(found[name], 3) for name in ("accuracy", "error", "low", "high")]
    [0.8, 0.034, 0.705, 0.895]
    """
    decoded = mechanism.decode(np.array(mechanism.alphabet), 1)
    reach, variance = float(np.abs(decoded).max()) + 1, most_variance(mechanism)
    wide = log(2 / MISSES) / answered
    away = (reach * wide / 3 + sqrt((reach * wide / 3) ** 2 + 2 * variance * wide)) / 2
    accuracy = (1 + mean) / 2
    found = {
        "accuracy": accuracy, "error": sqrt(variance / answered) / 2,
        "low": min(max(accuracy - away, 0.0), 1.0), "high": max(min(accuracy + away, 1.0), 0.0), "answered": answered,
    }  # fmt: skip
    return found | ({"lied": min(liars / answered * float(np.ptp(decoded)) / 2, 1.0)} if liars else {})


def labels_found(mechanism: RandomisedResponse, counts: Numbers, liars: int = 0) -> dict[str, Any]:
    """How labels are shared among classes by how many clients told each: estimates, and intervals of all classes.

    The share of a class is the mean, over the clients that answered, of the share of their records; each estimate is
    unbiased, and 19 times in 20 all intervals hold together, by Hoeffding's inequality in its form of Kullback and
    Leibler. By `lied` so many who do not draw as the mechanism says can move a share. docs/proofs/evaluation.md.

    >>> found = labels_found(RandomisedResponse(clip=1, levels=1, epsilon=2.0), np.array([700, 300]))
    >>> [round(found["classes"][0][name], 3) for name in ("share", "low", "high")]
    [0.763, 0.705, 0.817]
    """
    answered, own, other = int(counts.sum()), *mechanism.table.chances[0][:2]
    told = counts / answered
    low, high = _means_within(told, log(2 * len(counts) / MISSES) / answered)
    share, low, high = ((each - other) / (own - other) for each in (told, low, high))
    parts = zip(share.tolist(), np.clip(low, 0, 1).tolist(), np.clip(high, 0, 1).tolist(), strict=True)
    found = {"answered": answered, "classes": [{"share": at, "low": low, "high": high} for at, low, high in parts]}
    return found | ({"lied": min(liars / answered / (own - other), 1.0)} if liars else {})


def _means_within(told: Vector, most: float) -> tuple[Vector, Vector]:
    """The least and the largest mean whose divergence from what was told is at most `most`, each rounded outwards."""
    ends = []
    for end in (0.0, 1.0):
        inside, outside = told.copy(), np.full_like(told, end)
        for _ in range(60):
            middle = (inside + outside) / 2
            near = rel_entr(told, middle) + rel_entr(1 - told, 1 - middle) <= most
            inside, outside = np.where(near, middle, inside), np.where(near, outside, middle)
        ends.append(outside)
    return ends[0], ends[1]


def most_variance(mechanism: Mechanism) -> float:
    """The largest variance of one decoded answer, whatever it is; of randomised response that of its worst grid point.

    >>> most_variance(RandomisedResponse(clip=1, levels=1, epsilon=1.0)) > 4.6
    True
    """
    if isinstance(mechanism, RandomisedResponse):
        table = mechanism.table
        second = np.array(table.chances) @ np.square(np.array(table.values))  # linear between two grid points
        return float(second.max())
    spread = message_spread(mechanism)
    assert spread is not None  # of all of ANSWERS
    return spread.largest(mechanism.peak)
