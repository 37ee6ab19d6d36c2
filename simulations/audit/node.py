"""The audit of a deployed node: its policy, data, dealing, ledger and answers, on a copy that is asked in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from fedpriv.errors import FedprivError
from fedpriv.studies import file as study_file
from fedpriv.studies import promise as guarantee
from fedpriv.studies.study import Study
from simulations.audit._node_asks import in_flower
from simulations.audit._node_charges import Fault
from simulations.audit._node_home import POLICY, Home, copied
from simulations.audit._node_neighbours import digests, moved
from simulations.audit._node_seen import Seen, compared
from simulations.audit._node_trials import Asked, NodeTrials, held_by
from simulations.audit._node_worlds import Subject
from simulations.audit._places import alone
from simulations.audit.sources import Audit

TRIED = "digits"  # what a policy that takes any study is tried with


@dataclass(frozen=True)
class Examined:
    """What is audited, and what was found before the first trial."""

    audit: Audit  # whose trials are still to come
    name: str  # of node and study
    delta: float  # at which ε is told: the policy's
    dealing: dict[str, Any]  # the neighbour, and whose data are others than its
    seen: Seen  # what both were asked, and what told them apart

    @property
    def found(self) -> dict[str, Any]:
        """What the audit of a node found before its trials, as audit.json and `--json` have it."""
        own = self.seen
        seen = {"asks": own.asks, "answers": own.answers}
        return {"dealing": self.dealing, "seen": seen, "faults": [fault._asdict() for fault in own.faults]}


@contextmanager
def examined_node(
    directory: Path, neighbour: Path | None, study: str | None, overrides: list[str], place: Path,
    told: Callable[[str], None],
) -> Iterator[Examined]:  # fmt: skip
    """While it lasts, a copy of a node, asked beside its neighbour: what was found, and trials still to come.

    `place` is where the audit is written, and `told` hears what it is at.
    """
    home = Home.of(directory)
    if place.resolve().is_relative_to(directory.resolve()):
        raise FedprivError(f"{place}: lies in the node's directory, in which nothing is written: --out names another")
    with alone(place), copied(home, place) as copy, in_flower():
        subject = Subject.of(copy, named_study(home, study, overrides))
        if subject.study.training.sampling is not None:
            raise FedprivError(
                f"{subject.study.name}: the node's batches are drawn in private, so what its messages should say of a "
                "record cannot be worked out from beside it: fedpriv audit STUDY tries the same code with canaries"
            )
        told("looking for the neighbour")
        pair = subject.beside(neighbour) if neighbour is not None else subject.changed()
        held = (held_by(copy, pair.worlds[0], subject.study), held_by(copy, pair.worlds[1], subject.study))
        differ = moved(*held, among=subject.honest)
        if pair.swapped and len(differ) > 1:
            raise FedprivError(
                f"{pair.words}: the one is dealt to client {differ[0]} and the other to client {differ[1]}, and this "
                "node's certificate is of one record more or less"
            )
        asked = Asked(subject.study, guarantee.releases_of_worst(subject.study), np.array(differ, np.int64))
        charged = subject.charged(pair.worlds, asked)
        told("asking both")
        seen = compared(copy, pair.worlds, asked, subject.weights)
        if len(differ) > 1:
            some = ", ".join(map(str, differ[:3])) + (", …" if len(differ) > 3 else "")
            many = f"{pair.words}: the data of {len(differ):,} clients are others ({some}), where a ledger counts one"
            seen = seen._replace(faults=(*seen.faults, Fault("dealing", many)))
        # All that trials depend on is in their digest, so that blocks of others are not taken up.
        digest = blake2b(b"".join(each for pool, _ in held for each in digests(pool)), digest_size=16)
        text = study_file.study_text(subject.study)
        digest.update(repr((text, home.table, home.place, pair.words)).encode() + home.key)
        source = NodeTrials(digest.hexdigest(), pair.words, charged, copy, pair.worlds, held, asked, subject.weights)
        name = f"{home.directory.name}, {subject.study.name}"
        dealing = {"neighbour": pair.words, "clients": differ[:100], "differ": len(differ)}
        audit = Audit(source, "node", subject.study.run.seed, 0)
        yield Examined(audit, name, home.policy.budget.delta, dealing, seen)


def named_study(home: Home, study: str | None, overrides: list[str]) -> Study:
    """The study that a node is audited by: the one that --study names, else the only one its policy takes."""
    accepted = home.policy.studies
    if study is None and accepted is not None and len(accepted) != 1:
        raise FedprivError(
            f"{home.directory / POLICY}: takes {len(accepted)} studies ({', '.join(accepted)}): --study says which"
        )
    source = study or (accepted[0] if accepted else TRIED)
    try:
        study_file.read_study(source, [] if study is None else overrides)
    except FedprivError as error:
        raise FedprivError(f"{error}{': --study names its file' if study is None else ''}") from None
    return study_file.read_study(source, overrides)
