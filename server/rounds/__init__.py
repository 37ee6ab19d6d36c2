"""A whole run, whoever carries its messages: charge, ask, check, aggregate, step, record, save; again."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clients.byzantine import check_records
from clients.cohort import division_of, forget, net_of, pool_of
from clients.corrupting import check_corruption
from clients.data_identity import identity
from clients.gradients import Net, one_thread
from clients.pool import Pool
from clients.releasing import check_release
from clients.root import check_root, root_update
from clients.stobatch_checks import settled, unused
from fedpriv import guarantee, records, study_file, wire
from fedpriv.directions import rehearsed
from fedpriv.errors import FedprivError
from fedpriv.event import described
from fedpriv.participation import attackers
from fedpriv.study import Study
from fedpriv.tolerance import Vote
from server import checkpoint, made_on
from server.checkpoint import State
from server.directory import STUDY, prepare
from server.driver import Driver, Task
from server.inbox import Inbox
from server.journal import Journal
from server.progress import Progress
from server.results import NOTHING, written_result

RECORDS, TIMINGS = "records.jsonl", "timings.jsonl"
LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class Plan:
    """A study that can be run: its free setting calibrated, its data and model at hand."""

    study: Study
    pool: Pool
    net: Net

    @staticmethod
    def of(study: Study) -> Plan:
        """Everything that can be refused is refused here, before the first round."""
        pool = pool_of(study)
        net, division = net_of(study, pool), division_of(study, pool)
        study = settled(study, pool, net, division)
        check_release(study, net, division)
        check_records(study, pool)
        check_corruption(study, pool)
        check_root(study, pool)
        resolved = guarantee.resolved(study, net.dimension)
        rehearsed(resolved, net.dimension)
        if resolved.server.tolerance:
            _check_tolerance(resolved)
        return Plan(resolved, pool, net)

    @property
    def size(self) -> wire.Size:
        """What one client, alone, would send in a round, as far as that is known before."""
        own = self.study.privacy
        settings = 0 if own.private_sum is None else len(own.private_sum.adapts)
        boxed = own.norm == "coordinates"
        return wire.client_bytes(own.chosen, self.net.dimension, self.study.masked, settings, boxed=boxed)


def _check_tolerance(study: Study) -> None:
    """Refuse votes too many to be counted."""
    mechanism = study.privacy.chosen
    try:
        Vote(mechanism=mechanism, honest=study.clients.count, mean=mechanism.peak)
    except FedprivError as error:
        raise FedprivError(f"server.tolerance: {error}") from None


def run(
    study: Study, directory: Path, driver: Driver, *, resume: bool = False, quiet: bool = False, masked: bool = False
) -> dict[str, Any]:
    """Run a study, or go on with one, and return what `fedpriv run --json` prints; `masked`: its driver masks sums."""
    one_thread()  # the same bits on any machine with the same libraries, and no fight over cores
    forget()
    if resume:
        made_on.check(directory, study)
    plan = Plan.of(study)
    with ExitStack() as open_files:
        name = open_files.enter_context(prepare(directory, plan.study, resume, made_on.where(study)))
        rounds = Rounds(plan, directory, open_files, masked, name)
        progress = Progress(plan.study.run.rounds, plan.study.clients.count, quiet)
        open_files.enter_context(progress)
        why = "interrupted"
        try:
            why = rounds.go(driver, progress)
        finally:
            rounds.end(why)
            result = written_result(directory, rounds.header(), rounds.ending(why))
        progress.finish(result)
    return result


class Rounds:
    """The rounds of one run and the files they are kept in."""

    def __init__(self, plan: Plan, directory: Path, files: ExitStack, masked: bool = False, name: str = "") -> None:
        self.plan, self.study, self.directory, self._files, self._masked = plan, plan.study, directory, files, masked
        self._name = name
        self._text = study_file.text(plan.study)
        dimension, path = plan.net.dimension, directory / RECORDS
        if path.exists():
            records.Writer(path).close()  # half a line that a kill left there goes, the first one too
        self._check_header()
        self._start = State.begun(self.study, plan.net.initial())
        self.state = checkpoint.load(directory, self.study.id, self._start) or self._start
        self._journal = Journal(directory, self.study, self._release())
        files.callback(self._journal.close)
        self._journal.check(self.state.round)
        self._affordable = guarantee.affordable(self.study, dimension)
        if self.state.round and not (path.exists() and path.stat().st_size):
            raise FedprivError(f"{path}: is missing, where the checkpoint stands at round {self.state.round}")
        if (directory / TIMINGS).exists():
            records.read_timings(directory / TIMINGS)  # whatever is damaged is found before anybody is asked
        if path.exists() and path.stat().st_size:
            records.truncate_after(path, self.state.round)
        self._records = files.enter_context(records.Writer(path))
        self._timings = files.enter_context(records.Writer(directory / TIMINGS))
        if not path.stat().st_size:
            self._records.append(self.header(), durable=True)

    def go(self, driver: Driver, progress: Progress) -> str:
        """All rounds that are left; why they ended."""
        while self.state.round < self.study.run.rounds:
            clients = self._asked(self.state.round + 1)
            if not self._affords(self.state.round + 1, clients):
                return "budget"
            progress.update(*self._round(driver, clients))
        done = records.read(self.directory / RECORDS).rounds
        return "finished" if any(line["skipped"] is None for line in done) else NOTHING

    def _asked(self, round: int) -> Any:
        own = self.study.clients
        return own.chosen.asked(own.count, self.study.run.seed, round)

    def _affords(self, round: int, clients: Any) -> bool:
        """Whether each of them may be asked, once more where it was asked in this round and that is charged."""
        if self.study.privacy.budget is None or self._journal.paid(round):
            return True
        return int(self._journal.counts()[clients].max(initial=0)) < self._affordable

    def _round(self, driver: Driver, clients: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        begun = time.perf_counter()
        inbox = self._gathered(driver, clients)
        asked = time.perf_counter()
        state, skipped = self._stepped(inbox)
        state = state.adapted(inbox.settings)
        stepped = time.perf_counter()
        line = self._line(state, inbox, len(clients), skipped)
        judged = time.perf_counter()
        self._keep(state, line)
        done = time.perf_counter()
        parts = {"clients": asked - begun, "aggregate": stepped - asked, "evaluate": judged - stepped,
                 "save": done - judged}  # fmt: skip
        timing = {"round": state.round, "seconds": done - begun, "parts": parts, "bytes_transport": inbox.transport}
        self._timings.append(timing)
        return line, timing

    def _gathered(self, driver: Driver, clients: Any) -> Inbox:
        """Ask; ask those who are missing again where too few have answered, and their budget pays for it."""
        round = self.state.round + 1
        inbox = Inbox(self.study, self.plan.net.dimension, round, clients)
        weights = self.state.weights.astype(np.float32)
        for attempt in range(1 + self.study.server.retries):
            missing = inbox.missing
            if not missing.size or not self._affords(round, missing):
                break
            self._journal.charge(round, missing, again=attempt > 0)
            settings = self.state.settings[missing] if self.study.first_settings else None
            task = Task(round, weights, missing, self._text, self.study.server.timeout, settings, self._name)
            for answer in driver.ask(task):
                inbox.take(answer)
            if inbox.answered >= guarantee.fewest(self.study):
                break
        return inbox

    def _stepped(self, inbox: Inbox) -> tuple[State, str | None]:
        """The state after the round, and why it was skipped if it was."""
        needed = guarantee.fewest(self.study)
        if inbox.answered < needed:
            return self.state.skipped(), f"{inbox.answered} answers, {needed} needed"
        try:
            weights = self.state.weights.astype(np.float32)
            direction = inbox.direction(root_update(self.study, self.plan.pool, self.plan.net, weights))
        except FedprivError as error:
            return self.state.skipped(), str(error)
        state = self.state.stepped(direction, self.study.server.step, self.study.server.stepping)
        if not np.abs(state.weights).max() <= LARGEST:
            return self.state.skipped(), "the step leads to weights that float32 cannot hold: server.step is too large"
        return state, None

    def _line(self, state: State, inbox: Inbox, asked: int, skipped: str | None) -> dict[str, Any]:
        loss = accuracy = epsilon = tolerance = None
        if state.round % self.study.run.evaluate_every == 0 or state.round == self.study.run.rounds:
            accuracy, loss = self._evaluated(state)
            epsilon = self._epsilon(state.round)
            tolerance = inbox.tolerance() if self.study.server.tolerance and skipped is None else None
        return {
            "kind": "round", "round": state.round, "asked": asked, "answered": inbox.answered,
            "rejected": dict(sorted(inbox.rejected.items())), "failed": dict(sorted(inbox.failed.items())),
            "skipped": skipped, "loss": loss, "accuracy": accuracy, "epsilon": epsilon,
            "bytes_up": inbox.sent(self.plan.size.whole), "note": inbox.note,
        } | ({"tolerance": tolerance} if self.study.server.tolerance else {}) | self._adapted(state) | (
            {} if inbox.broken is None else {"attack_failed": inbox.broken}
        )  # fmt: skip

    def _adapted(self, state: State) -> dict[str, Any]:
        """The mean over all clients of each setting that adapts."""
        private = self.study.privacy.private_sum
        if private is None or not private.adapts:
            return {}
        return {"adapted": dict(zip(private.adapts, state.settings.mean(axis=0).tolist(), strict=True))}

    def _evaluated(self, state: State) -> tuple[float | None, float | None]:
        if not len(self.plan.pool.y_test):
            return None, None
        return self.plan.net.evaluate(state.weights.astype(np.float32), self.plan.pool.x_test, self.plan.pool.y_test)

    def _epsilon(self, last: int | None = None) -> dict[str, Any]:
        """ε of the client that has released most, up to a round or in all."""
        counts = self._journal.counts(last)
        return guarantee.epsilon(self.study, self.plan.net.dimension, int(counts.max(initial=0)))._asdict()

    def _keep(self, state: State, line: Mapping[str, Any]) -> None:
        """The record first, so that no checkpoint is ahead of it.

        Who did not answer may answer when the round is asked again, and what comes after it would be other messages
        under the same noise: a round that luck had a part in is never run again.
        """
        due = state.round % self.study.run.checkpoint_every == 0 or state.round == self.study.run.rounds
        due = due or line["answered"] < line["asked"]
        self._records.append(line, durable=due)
        if due:
            checkpoint.save(self.directory, state, self.study.id)
        self.state = state

    def end(self, why: str) -> None:
        """Close the run's records: what is there is whole, and says how it ended."""
        if why == "interrupted":  # perhaps between a record and the state it belongs to
            self._records.close()
            records.truncate_after(self.directory / RECORDS, self.state.round)
            self._records = self._files.enter_context(records.Writer(self.directory / RECORDS))
        if self.state.round:
            checkpoint.save(self.directory, self.state, self.study.id)
        self._records.append(self.ending(why), durable=True)

    def ending(self, why: str) -> dict[str, Any]:
        """The last line of the records."""
        counts = self._journal.counts()
        worst = int(counts.argmax()) if counts.any() else None
        if self.study.privacy.kept is not None:
            counts = counts.clip(max=1)  # of what is kept, all rounds are one release
        return {"kind": "end", "why": why, "rounds": self.state.round, "worst_client": worst,
                "releases_of_worst": int(counts.max(initial=0)), "epsilon": self._epsilon(),
                **self._not_tried()}  # fmt: skip

    def _not_tried(self) -> dict[str, str]:
        """Why no Byzantine client attacked in any round, where that is for an exception of the attack."""
        lines = records.read(self.directory / RECORDS).rounds
        whys = [line["attack_failed"]["why"] for line in lines if "attack_failed" in line]
        if not whys or any(line["attack_failed"]["acted"] for line in lines if "attack_failed" in line):
            return {}
        own = self.study.clients
        byzantine = attackers(own.count, own.attackers, self.study.run.seed)
        others = (line["round"] for line in lines if "attack_failed" not in line)
        if any(np.isin(self._asked(number), byzantine).any() for number in others):
            return {}
        return {"not_tried": whys[0]}

    def _check_header(self) -> None:
        """Refuse the records of another study: this run's own file was edited since it began."""
        path, own = self.directory / RECORDS, self.header()
        was = records.read(path).header if path.exists() and path.stat().st_size else own
        if was["study"] != own["study"]:
            names = [
                name for name in own if name != "study" and records.plain(own[name]) != records.plain(was.get(name))
            ]
            where = f"what differs: {', '.join(names)}" if names else "in what the records do not show"
            raise FedprivError(
                f"{self.directory / STUDY} was edited since the run began ({where}): undo that, or begin another run"
            )

    def _packed(self) -> float:
        """Bits a coordinate of a message that is sent as it is."""
        mechanism = self.study.privacy.chosen
        if self.study.masked is not None:
            return float(mechanism.bits)
        boxed = self.study.privacy.norm == "coordinates"
        return wire.packed_bits(mechanism, self.plan.net.dimension, boxed=boxed)[0]

    def _kept(self) -> dict[str, Any]:
        """Both ε's of what clients keep, and which records they leave out."""
        kept = self.study.privacy.kept
        if kept is None:
            return {}
        return {
            "epsilons": guarantee.both_epsilons(self.study), "left_out": unused(self.study, self.plan.pool, kept),
            "releases": [described(each) for each in guarantee.events(self.study, self.plan.net.dimension)],
        }  # fmt: skip

    def _release(self) -> dict[str, Any] | None:
        if not self.study.privacy.promises:
            return None
        return described(guarantee.event(self.study, self.plan.net.dimension))

    def header(self) -> dict[str, Any]:
        """The first line of the records: what this run is."""
        study, mechanism = self.study, self.study.privacy.chosen
        masked = None if study.masked is None else wire.masked_bits(mechanism, study.masked)
        return {
            "format": records.FORMAT, "kind": "run", "study": study.id.hex(), "name": study.name, "about": study.about,
            "clients": study.clients.count, "byzantine": study.clients.attackers,
            "dimension": self.plan.net.dimension, "mechanism": {
                "kind": study.privacy.mechanism.kind, "settings": dict(study.privacy.mechanism.settings)
            },
            "private_sum": study.privacy.release.table() if study.privacy.release else None,
            "aggregation": study.aggregation.table(), "attack": study.attack.table() if study.attack else None,
            "corruption": study.corruption.table() if study.corruption else None,
            **self._kept(),
            "release": self._release(), "trust": study.privacy.trust, "masked": self._masked,
            "delta": study.privacy.delta,
            "rounds": study.run.rounds, "seed": study.run.seed, "client_bytes": self.plan.size.whole,
            **({} if self.plan.size.word == "exact" else {"client_bytes_are": self.plan.size.word}),
            "bits": {"packed": self._packed(), "entropy": float(mechanism.entropy), "masked": masked},
            "model": study.training.model.kind, "test_examples": len(self.plan.pool.y_test),
            "data": identity(study.data.kind, self.plan.pool),
        }  # fmt: skip
