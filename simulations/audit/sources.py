"""What of a study is audited, and who its canaries are."""

from __future__ import annotations

from typing import Literal, NamedTuple, assert_never

from clients.training.prepared import net_of, pool_of
from fedpriv.errors import FedprivError
from fedpriv.studies import promise as guarantee
from fedpriv.studies.study import Study
from fedpriv.trust import Central, Local, Sums
from simulations.audit._central import Means
from simulations.audit._records import Records
from simulations.audit.messages import Messages
from simulations.audit.trials import Source

Of = Literal["messages", "sums", "records", "means", "node"]


class Audit(NamedTuple):
    """A trial source, and what its trials need."""

    source: Source
    kind: Of  # what is audited
    seed: int  # of noise and of coins
    first: int  # the number of the first canary: the first that is no client's


def source_of(study: Study) -> Audit:
    """The audit of a resolved study: trials of its records' releases, or else of messages, sums or means."""
    rounds, privacy = guarantee.releases_of_worst(study), study.privacy
    if privacy.kept is not None:
        raise FedprivError(
            f"{type(privacy.kept).__name__} keeps its noise on records: what leaves are gradients of noised records, "
            "whose likelihood cannot be written down, so no audit of them would come near"
        )
    if privacy.private_sum is not None:
        return Audit(Records(study, rounds), "records", study.run.seed, study.clients.count)
    return _by_trust(study, rounds)


def _by_trust(study: Study, rounds: int) -> Audit:
    """The audit of a study without releases: of messages, of their sums, or of a curator's means, by its trust."""
    privacy, seed, first = study.privacy, study.run.seed, study.clients.count
    event = guarantee.promised_event(study, net_of(study, pool_of(study)).dimension, rounds)
    of_records = study if event.unit == "record" else None
    match event.trust:
        case Local():
            return Audit(Messages(event, privacy.channel, privacy.noise, seed, of_records), "messages", seed, first)
        case Sums():
            return Audit(Messages(event, privacy.channel, privacy.noise, seed, of_records), "sums", seed, first)
        case Central():
            return Audit(Means(study, rounds).checked, "means", seed, first)
        case _ as never:
            assert_never(never)
