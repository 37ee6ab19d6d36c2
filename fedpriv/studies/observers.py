"""Who sees what of a study's messages, and how many answers a round rests on: for its ε, and for its masks."""

from __future__ import annotations

from math import ceil
from typing import assert_never

from fedpriv.errors import FedprivError
from fedpriv.studies.study import Study
from fedpriv.trust import Central, Local, Sums, Trust


def fewest_answers(study: Study) -> int:
    """How many answers a round of a study needs to count: of masked sums those that the certificate is made for.

    Masks (`fedpriv.masking`) give no sum of fewer, so they are counted before anything leaves, whoever answers then.
    """
    if study.server.fewest is not None:
        return study.server.fewest
    match study.privacy.trust:
        case "central":
            return 0  # who does not answer counts as one that sends 0, lest it show
        case "local":
            return 1
        case "secure-aggregation":
            surely = study.clients.schedule.surely(study.clients.count)
            threshold = study.masking.threshold if study.masking else None
            if isinstance(threshold, int):
                return threshold
            if not surely:
                raise FedprivError(
                    "server.fewest must be given under secure aggregation: Poisson participation asks any number"
                )
            return surely - study.privacy.dropouts if threshold is None else ceil(threshold * surely * (1 - 1e-12))
        case _ as never:
            assert_never(never)


def trust_in(study: Study) -> Trust:
    """Who sees what of a study's messages; of sums, how many of a round's surely hold honest noise: for its ε."""
    match study.privacy.trust:
        case "local":
            return Local()
        case "central":
            return Central()
        case "secure-aggregation":
            if study.privacy.kept is not None:
                return Local()  # kept noise is a client's own
            least, byzantine, colluding = fewest_answers(study), study.clients.attackers, study.privacy.colluding
            if (certain := least - byzantine - colluding) < 1:
                raise FedprivError(
                    f"no guarantee under secure aggregation: of {least} answers a round may rest on, {byzantine} may "
                    f"be Byzantine and {colluding} colluding, which leaves none certain to have drawn noise"
                )
            return Sums(certain)
        case _ as never:
            assert_never(never)
