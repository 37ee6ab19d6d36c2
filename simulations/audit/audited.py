"""An audit from its first canary to its verdict and files: what `fedpriv audit` and `fp.audit` do."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedpriv import records
from fedpriv._base.files import replace_file
from fedpriv._base.spelling import short_number
from fedpriv.accounting.account import Account
from fedpriv.auditing.verdict import audit_verdict, more_than_held
from fedpriv.errors import FedprivError, one_of, real
from fedpriv.studies.study import Study
from server.directory import STUDY, id_of
from server.progress.live_line import LiveLine
from server.progress.words import duration_words
from simulations.audit._places import BLOCKS, FILES, alone
from simulations.report.run.runs import Run
from simulations.runs.running import begun_study, study_of

if TYPE_CHECKING:
    from simulations.audit.sources import Asked, Audit
    from simulations.audit.trials import Audited

USUAL = {
    "messages": 20_000,
    "answers": 20_000,
    "labels": 20_000,
    "sums": 100_000,
    "records": 5_000,
    "means": 5_000,
}  # canaries, by kind
ASKED = 8_000  # rounds of a node in all its trials, which are 100 at least and 1,000 at most
File = str | os.PathLike[str]


def audit(
    given: Study | Run | File,
    directory: File | None = None,
    *,
    of: Asked = "messages",
    overrides: Iterable[str] = (),
    canaries: int | None = None,
    confidence: float = 0.99,
    quiet: bool = False,
) -> dict[str, Any]:
    """Audit a study or a run: what an attacker really learns, by canaries' trials, beside what is certified (fp.audit).

    `given` is a study (a file, the name of one that ships, TOML text, or a `Study`) with its `overrides`, or a run (its
    directory, or what `run` gave). `of` says whether messages are audited, or an evaluation's answers or labels, which
    go to a directory of their own. `canaries` are its trials, thousands unless said; every bound holds with
    `confidence`. audit.json and audit.png go to `directory`, else to audits/NAME, or to `audit` in the run's own. What
    is given is what audit.json holds: `found["stands"]` says whether the certificate does.

    >>> import fedpriv as fp, tempfile
    >>> few = ["clients.count=60", "privacy.trust=local", "privacy.epsilon=8.0"]
    >>> with tempfile.TemporaryDirectory() as place:
    ...     fp.audit("digits", place, overrides=few, canaries=500, quiet=True)["stands"]
    True
    """
    check_confidence(confidence)
    one_of(("messages", "answers", "labels"), of=of)
    from simulations.audit.sources import source_of

    study, place, named = _audited_study(given, list(overrides))
    apart = place if of == "messages" else place.with_name(f"{place.name}-{of}")
    source, where = source_of(study, of), Path(directory) if directory is not None else apart
    with alone(where):
        return concluded_audit(
            source, study.name, study.privacy.delta, where, {"study": named.hex()},
            canaries=canaries, confidence=confidence, quiet=quiet,
        )  # fmt: skip


def _audited_study(given: Study | Run | File, overrides: list[str]) -> tuple[Study, Path, bytes]:
    """What `audit` was given, as a resolved study; where its audit goes unless somebody says; the study's id."""
    from server.rounds import planned

    own = given.directory if isinstance(given, Run) else given
    run = None if isinstance(own, Study) or "\n" in os.fspath(own) else Path(own)
    if run is None or not (run / STUDY).is_file():
        study = planned(_promising(study_of(own, overrides))).study
        return study, Path("audits") / study.name, study.id
    if overrides:
        raise FedprivError(f"{run}: a run is audited as it was: no --set")
    study = planned(_promising(_done_study(run))).study
    return study, run / "audit", id_of(run, study)  # by the run's own files


def _done_study(run: Path) -> Study:
    """The study of a run's directory, to be audited: refused unless the run did all the rounds it promises."""
    study = begun_study(run)
    kept, rounds = run / "records.jsonl", study.run.rounds
    done = len(records.read_records(kept).rounds) if kept.exists() else 0
    if done < rounds:
        goes_on = f"fedpriv run --resume {run} goes on with it"
        raise FedprivError(f"{run}: its study promises {rounds:,} rounds and it did {done:,}: {goes_on}")
    if done > rounds:
        raise FedprivError(
            f"{run}: its records hold {done:,} rounds, where its study promises {rounds:,}: what was done is not "
            "what would be audited"
        )
    return study


def check_confidence(confidence: float) -> None:
    """Refuse a confidence of an audit's bounds that is not between 0 and 1."""
    real(confidence=confidence)
    if not 0 < 1 - confidence < 1:
        raise FedprivError(f"confidence must be between 0 and 1, and further than 1e-16 from both, got {confidence}")


def _tried(own: Audit, canaries: int, state: Path, quiet: bool) -> Audited:
    """Run all trials of an audit, telling on the terminal how many are done and how long the others take."""
    from simulations.audit.trials import conducted_trials

    line, started = LiveLine(quiet), time.monotonic()
    line.begin(f"0/{canaries:,} canaries", 0.0, [])

    def told(done: int) -> None:
        """Show on the terminal's line how many canaries are done, and how long the others take."""
        left = duration_words((time.monotonic() - started) / done * (canaries - done))
        line.show(f"{done:,}/{canaries:,} canaries", done / canaries, [f"{left} left"])

    try:
        return conducted_trials(own.source, canaries, own.seed, own.first, state, told)
    finally:
        line.clear()


def concluded_audit(
    own: Audit, name: str, delta: float, directory: Path, beside: dict[str, Any],
    *, canaries: int | None, confidence: float, quiet: bool,
) -> dict[str, Any]:  # fmt: skip
    """Run an audit's trials, judge them, write audit.json and audit.png to `directory`, and give what was found.

    `name` is what the audit is called and `delta` what ε is told at; `beside` is what else was found, and which faults
    are among it.
    """
    from simulations.audit.picture import audit_curves, audit_picture
    from simulations.audit.trials import forget_trials

    source, state = own.source, directory / BLOCKS
    if not isfinite(Account((source.event,)).upper_epsilon(delta)):  # nothing that an audit finds is above that
        raise FedprivError(
            f"{source.event.mechanism}: no finite ε is certified at δ = {short_number(delta)}, so there is nothing "
            "that an audit could refute: more noise, or another δ"
        )
    canaries = canaries or USUAL.get(own.kind) or min(max(ASKED // source.event.rounds, 100), 1_000)
    started = time.monotonic()
    audited = _tried(own, canaries, state, quiet)
    found = {"name": name, "trial": source.words} | audit_verdict(
        audited.trials, source.event, delta=delta, confidence=confidence,
        in_a_tail=source.in_a_tail, ranked=source.ranked,
    )  # fmt: skip
    seconds = time.monotonic() - started + audited.before
    found |= {"kind": own.kind, "repeated": audited.repeated, "seconds": seconds} | beside
    found["mu"]["pair"] = source.holds
    most = source.most
    unlike = "" if most is None else more_than_held(audited.trials, most)
    found["faults"] = [*found.get("faults", []), *([{"about": "the noise", "words": unlike}] if unlike else [])]
    found["stands"] = found["stands"] and not audited.repeated and not found["faults"]
    found["curves"] = audit_curves(audited.trials, source.event, found["mu"]["audited"])
    text = json.dumps(records.plain_values(found), indent=1, ensure_ascii=False) + "\n"
    replace_file(directory / FILES[0], text.encode(), 0o644)
    replace_file(directory / FILES[1], audit_picture(found), 0o644)
    forget_trials(state)
    state.rmdir()
    return found


def _promising(study: Study) -> Study:
    """The study that is to be audited, as it is; refused where it promises no privacy (Plain)."""
    if not study.privacy.promises:
        raise FedprivError(f"{study.name}: Plain promises nothing, so there is nothing to audit")
    return study
