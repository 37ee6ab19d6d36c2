"""What of a study is audited, and who its canaries are."""

from __future__ import annotations

from typing import Literal, NamedTuple, assert_never

from clients.training.prepared import net_of, pool_of
from fedpriv.errors import FedprivError
from fedpriv.studies import promise as guarantee
from fedpriv.studies.evaluating import Question, answers_seed, asking_study
from fedpriv.studies.spending import given_in_all
from fedpriv.studies.study import Study
from fedpriv.trust import Central, Local, Sums
from simulations.audit._central import Means
from simulations.audit._hidden import Walks
from simulations.audit._records import Records
from simulations.audit._settings import check_rounds_alike
from simulations.audit.messages import Messages
from simulations.audit.trials import Source

Of = Literal["messages", "sums", "records", "means", "node", "answers", "labels"]
Asked = Literal["messages", "answers", "labels"]  # what of a study somebody wants audited


class Audit(NamedTuple):
    """A trial source, and what its trials need."""

    source: Source
    kind: Of  # what is audited
    seed: int  # of noise and of coins
    first: int  # the number of the first canary: the first that is no client's


def source_of(study: Study, of: Asked = "messages") -> Audit:
    """The audit of a resolved study: trials of its records' releases, or else of messages, sums or means; of answers.

    These are audited by themselves, as many as the client that gives most gives, and so are labels.
    """
    if of != "messages":
        return _of_answers(study, of)
    rounds, privacy = guarantee.releases_of_worst(study), study.privacy
    if privacy.kept is not None:
        raise FedprivError(
            f"{type(privacy.kept).__name__} keeps its noise on records: what leaves are gradients of noised records, "
            "whose likelihood cannot be written down, so no audit of them would come near"
        )
    if privacy.hidden is not None:
        return Audit(Walks(study, rounds), "records", study.run.seed, study.clients.count)
    if privacy.private_sum is not None:
        check_rounds_alike(study)
        return Audit(Records(study, rounds), "records", study.run.seed, study.clients.count)
    return _by_trust(study, rounds)


def _of_answers(study: Study, of: Literal["answers", "labels"]) -> Audit:
    """The audit of a study's answers, or of the label told: of messages of one coordinate; refused without any."""
    question: Question = "labels" if of == "labels" else "right"
    asking, times = asking_study(study, question), max(getattr(each, of) for each in given_in_all(study))
    if asking is None:
        raise FedprivError(f"{study.name}: no {of} to audit: its [evaluation] asks for none")
    event, seed = guarantee.promised_event(asking, 1, times), answers_seed(study.run.seed, f"audit of {of}")
    return Audit(Messages(event, asking.privacy.channel, study.privacy.noise, seed), of, seed, study.clients.count)


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
