"""A whole run, whoever carries its messages: charge, ask, check, aggregate, step, record, save; again."""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from clients.models.gradients import torch_on_one_thread
from clients.training.cohort import forget_all
from clients.training.measured import Measuring
from clients.training.prepared import Prepared
from clients.training.root import root_update
from fedpriv import records
from fedpriv._base.arrays import Numbers, Vector
from fedpriv.errors import FedprivError
from fedpriv.studies.evaluating import Question, asked_about
from fedpriv.studies.plan import Plan
from fedpriv.studies.spending import charged_clients, given_in_round, given_row, most_given
from fedpriv.studies.study import Study
from server.directory import STUDY, check_format, checkpoint, made_on, prepare_directory
from server.directory.checkpoint import State
from server.directory.journal import Journal
from server.directory.results import NOTHING, STOPPED, Totals, covered_line, written_result
from server.progress import Progress
from server.progress.accuracy_words import public_words
from server.progress.listening import OnRound, tell_round
from server.rounds._answers import evaluated_line
from server.rounds._ending import end_of
from server.rounds._header import check_header, header_of, released, released_beside
from server.rounds._held_out import HeldOut
from server.rounds._planning import planned, size_of
from server.rounds.driver import Driver, Task
from server.rounds.inbox import Inbox

__all__ = ["RECORDS", "TIMINGS", "Rounds", "planned", "run_rounds", "size_of"]

RECORDS = "records.jsonl"  # the same for any division into cohorts, any driver, and after a kill
TIMINGS = "timings.jsonl"  # what each round took
LARGEST = float(np.finfo(np.float32).max)  # a weight that a message to clients can hold


def run_rounds(
    study: Study,
    directory: Path,
    driver: Driver,
    *,
    resume: bool = False,
    quiet: bool = False,
    masked: bool = False,  # whether the driver masks sums
    on_round: OnRound | None = None,
) -> dict[str, Any]:
    """Run a study, or go on with one, and return what `fedpriv run --json` prints; each round's line to `on_round`."""
    torch_on_one_thread()  # the same bits on any machine with the same libraries, and no fight over cores
    forget_all()
    if resume and (directory / STUDY).exists():
        check_format(directory)
        made_on.check_made_on(directory, study)
    prepared = planned(study)
    prepared.remember()
    with ExitStack() as open_files:
        place = made_on.where_data_lie(study)
        name = open_files.enter_context(prepare_directory(directory, prepared.study, resume, place))
        rounds = Rounds(prepared, directory, open_files, masked, name)
        own = prepared.study
        progress = Progress(own.run.rounds, own.clients.count, quiet, shown=own.run.shown)
        open_files.enter_context(progress)
        why = "interrupted"
        try:
            why = rounds.go(driver, progress, on_round)
        finally:
            rounds.end(why)
            said = {"accuracy_is": public_words(len(prepared.pool.y_test), rounds.header().get("evaluation"))}
            result = written_result(directory, rounds.header() | said, rounds.ending(why), rounds.totals)
    return result


class Rounds:
    """The rounds of one run and the files they are kept in."""

    def __init__(
        self, prepared: Prepared, directory: Path, files: ExitStack, masked: bool = False, name: str = ""
    ) -> None:
        """Open a run's files, begun or resumed: state, ledger and records brought to the last saved round."""
        self._prepared = prepared
        self.plan = prepared.plan
        self.study = prepared.study
        self.pool = prepared.pool
        self.net = prepared.net
        self.directory = directory
        self._files = files
        self._masked = masked  # whether the driver masks sums
        self._name = name  # of this run of the study
        self._size = size_of(self.plan)
        self._held_out = HeldOut(prepared)
        self._measuring = Measuring(prepared) if self.study.run.measure_votes else None
        path = directory / RECORDS
        if path.exists():
            records.Writer(path).close()  # half a line that a kill left there goes, the first one too
        if self._has_records:  # of another study, perhaps, where its file or this version's defaults have changed
            check_header(directory / STUDY, self.header(), records.read_records(path).header)
        start = State.begun(self.study, self.net.initial())
        self.state = checkpoint.load_checkpoint(directory, self.study.id, start) or start
        self._journal = Journal(directory, self.study, released(self.plan), released_beside(self.plan))
        files.callback(self._journal.close)
        self._journal.check(self.state.round)
        if self.state.round and not self._has_records:
            raise FedprivError(f"{path}: is missing, where the checkpoint stands at round {self.state.round}")
        if self._has_records:
            records.truncate_after(path, self.state.round)
        self.totals = self._on_disk()  # whatever is damaged is found before anybody is asked
        self._records = files.enter_context(records.Writer(path))
        self._timings = files.enter_context(records.Writer(directory / TIMINGS))
        if not path.stat().st_size:
            self._records.append(self.header(), durable=True)

    def go(self, driver: Driver, progress: Progress, on_round: OnRound | None = None) -> str:
        """Run all rounds that are left, asking by the driver; why they ended, such as "budget" or "finished"."""
        asked = partial(self.plan.participation.asked, self.study.clients.count, self.study.run.seed)
        release = self.header()["release"]
        while self.state.round < (planned := self.study.run.rounds):
            if enough := self.totals.enough(self.study.run.stop):
                return enough
            clients = asked(self.state.round + 1)
            if not self._affords(self.state.round + 1, clients):
                return "budget"
            line, timing = self._round(driver, clients)
            progress.update(covered_line(line, release), timing)
            if on_round is not None and tell_round(on_round, line, self.directory) and self.state.round < planned:
                return STOPPED
        return "finished" if self.totals.counted else NOTHING

    def _on_disk(self) -> Totals:
        """What the files of this run add up to, for a run that goes on: its totals so far."""
        timings = self.directory / TIMINGS
        times = records.read_timings(timings) if timings.exists() else {}
        return Totals.of(records.read_records(self.directory / RECORDS).rounds if self._has_records else [], times)

    @property
    def _has_records(self) -> bool:
        """Whether any line of the run's records is on disk, so that it goes on and does not begin."""
        path = self.directory / RECORDS
        return path.exists() and path.stat().st_size > 0

    def _affords(self, round: int, clients: Numbers, about: str = "") -> bool:
        """Whether the run's budget lets a round ask each of them, once more where that round has been charged.

        Who is asked for a message will be asked about the model that comes of it, where the round has an evaluation.
        """
        if self.study.privacy.budget is None or self._journal.paid(round, about):
            return True
        more = np.array([given_in_round(self.study, round)]).T
        more[: given_row(about)] = 0  # what the round has asked for already
        if self._charges_all:
            clients = charged_clients(self.study, round)
        return all(map(self.plan.affords, most_given(*(self._journal.given()[:, clients] + more))))

    def _round(self, driver: Driver, clients: Numbers) -> tuple[dict[str, Any], dict[str, Any]]:
        """One round, from the charge to the checkpoint: its line of the records, and its line of the timings."""
        begun = time.perf_counter()
        inbox = self._gathered(driver, clients, self.plan, self.state)
        asked = time.perf_counter()
        if self.study.curator is not None:
            self._journal.release(self.state.round + 1, inbox.who, self.state.settings[0])
        state, direction, skipped = self._stepped(inbox)
        state = state.adapted(inbox.settings)
        stepped = time.perf_counter()
        _, due, told = given_in_round(self.study, state.round)
        asking, labelling = self.plan.asking if due else None, self.plan.asking_labels if told else None
        answers = None if asking is None else self._gathered(driver, clients, asking, state, "right")
        labels = None if labelling is None else self._gathered(driver, clients, labelling, state, "labels")
        line = self._line(state, inbox, len(clients), skipped)
        if direction is not None and not direction.any():
            line["still"] = True
        if self.plan.asking is not None:
            line |= evaluated_line(self.plan, answers, labels, line["bytes_up"])
        if self._measuring is not None:
            own = self.state.weights, state.round, inbox.who, direction
            line["votes"] = self._measuring.votes(*own) if self._looked_at(state.round) else None
        judged = time.perf_counter()
        due = state.round % self.study.run.checkpoint_every == 0 or state.round == self.study.run.rounds
        # Who did not answer may answer when the round is asked again, and what comes after it would be other messages
        # under the same noise: a round that luck had a part in is never run again.
        due = due or line["answered"] < line["asked"] or self.study.curator is not None
        self._records.append(line, durable=due)  # first, so that no checkpoint is ahead of the records
        if due:
            checkpoint.save_checkpoint(self.directory, state, self.study.id)
        self.state = state
        done = time.perf_counter()
        parts = {"clients": asked - begun, "aggregate": stepped - asked, "evaluate": judged - stepped,
                 "save": done - judged}  # fmt: skip
        moved = sum(each.transport for each in (inbox, answers, labels) if each)
        timing = {"round": state.round, "seconds": done - begun, "parts": parts, "bytes_transport": moved}
        self._timings.append(timing)
        self.totals.add(line, timing)
        return line, timing

    def _gathered(
        self, driver: Driver, clients: Numbers, plan: Plan, state: State, asks: Question | None = None
    ) -> Inbox:
        """A round's messages, or answers by the plan of these: charge and ask, once more where too few have come."""
        round = self.state.round + 1
        inbox = Inbox(plan.study, plan.dimension, round, clients)
        weights = state.weights.astype(np.float32)
        about = asked_about(asks or "right", weights)
        for attempt in range(1 + self.study.server.retries):
            missing = inbox.missing
            nobody = not missing.size and (attempt > 0 or not self._charges_all)  # whom a round is charged to
            if nobody or not self._affords(round, missing, about if asks else ""):
                break
            self._journal.charge(round, missing, attempt > 0, about, asks is not None)
            if not missing.size:
                break
            settings = state.settings[missing] if plan.study.first_settings else None
            own = self.plan.text, self.study.server.timeout, settings, self._name, asks
            for answer in driver.ask(Task(round, weights, missing, *own)):
                inbox.take(answer)
            if inbox.answered >= plan.fewest:
                break
        return inbox

    def _stepped(self, inbox: Inbox) -> tuple[State, Vector | None, str | None]:
        """The state after the round, along which direction, and why it was skipped if it was."""
        needed = self.plan.fewest
        if inbox.answered < needed:
            return self.state.skipped(), None, f"{inbox.answered} answers, {needed} needed"
        try:
            weights = self.state.weights.astype(np.float32)
            direction = inbox.direction(root_update(self._prepared, weights), self.state.settings[0])
        except FedprivError as error:
            return self.state.skipped(), None, str(error)
        step = self.study.server.step_in(self.state.round + 1, self.study.run.rounds)
        state = self.state.stepped(direction, step, self.plan.optimiser)
        if not np.abs(state.weights).max() <= LARGEST:
            why = "the step leads to weights that float32 cannot hold: server.step is too large"
            return self.state.skipped(), None, why
        return state, direction, None

    def _line(self, state: State, inbox: Inbox, asked: int, skipped: str | None) -> dict[str, Any]:
        """The round's line of the records: who answered, accuracy, what was spent, bytes and what went wrong."""
        weights = tolerance = None
        spent: dict[str, Any] = dict.fromkeys(("epsilon", "mu", "beta"))
        if self._looked_at(state.round):
            weights = state.weights.astype(np.float32)
            spent = self.plan.spent(most_given(*self._journal.given(state.round)))
            tolerance = inbox.tolerance() if self.study.server.tolerance and skipped is None else None
        held_out = self._held_out.line(weights)
        line = {
            "kind": "round", "round": state.round, "asked": asked, "answered": inbox.answered,
            "rejected": dict(sorted(inbox.rejected.items())), "failed": dict(sorted(inbox.failed.items())),
            "skipped": skipped, "loss": held_out.pop("loss"), "accuracy": held_out.pop("accuracy"), **spent,
            "bytes_up": inbox.sent(self._size.whole), "note": inbox.note, **held_out,
        }  # fmt: skip
        if self.study.server.tolerance:
            line["tolerance"] = tolerance
        private = self.plan.private_sum  # or a curator, whose clip norm is what may adapt
        names = private.adapts if private is not None else ("clip",) * bool(self.study.first_settings)
        if names:  # the mean over all clients of each setting
            line["adapted"] = dict(zip(names, state.settings.mean(axis=0).tolist(), strict=True))
        if inbox.broken is not None:
            line["attack_failed"] = inbox.broken
        return line

    @property
    def _charges_all(self) -> bool:
        """Whether the run's rounds are charged to all clients, asked or not, as its curator says."""
        return self.study.curator is not None and self.study.curator.charges_all

    def _looked_at(self, round: int) -> bool:
        """Whether the round is evaluated: every so many are, and the last."""
        return round % self.study.run.evaluate_every == 0 or round == self.study.run.rounds

    def end(self, why: str) -> None:
        """Close the run's records and save its state: what is there is whole, and says how it ended."""
        if why == "interrupted":  # perhaps between a record and the state it belongs to
            self._records.close()
            records.truncate_after(self.directory / RECORDS, self.state.round)
            self.totals = self._on_disk()
            self._records = self._files.enter_context(records.Writer(self.directory / RECORDS))
        if self.state.round:
            checkpoint.save_checkpoint(self.directory, self.state, self.study.id)
        self._records.append(self.ending(why), durable=True)

    def ending(self, why: str) -> dict[str, Any]:
        """The last line of the run's records: why it ended, after how many rounds, and the worst client's ε."""
        return end_of(self.plan, self._journal, self.totals, self.state.round, why)

    def header(self) -> dict[str, Any]:
        """The first line of the records: what this run is."""
        measured = {} if self._measuring is None else {"votes": self._measuring.facts}
        return header_of(self._prepared, self._masked) | measured
