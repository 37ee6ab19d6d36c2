"""A study run, or gone on with, from its first message to its result: what `fedpriv run` and `fp.run` do."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from fedpriv._base.own_modules import look_for_modules
from fedpriv.errors import FedprivError, one_of
from fedpriv.studies import file as study_file
from fedpriv.studies.study import Study
from server.directory import STUDY
from server.progress.listening import OnRound, logged_rounds
from simulations.report.run.runs import Run, read_run
from simulations.runs.directory import modules_of, next_free, take_back, taken_directory

DRIVERS = ("flower", "direct")
File = str | os.PathLike[str]


@dataclass(frozen=True, kw_only=True)
class Way:
    """Who carries the messages of a run. The bits do not depend on it."""

    driver: str = "flower"  # "flower": Flower's simulation on Ray; "direct": the same round called in this process
    workers: int | None = None  # processes: under flower one a core unless said, under direct none but this one
    cohorts: int | None = None  # nodes that clients are divided over, one a worker unless said
    ray: str | None = None  # under direct: the address of a Ray cluster that is there already
    superlink: str | None = None  # under flower: a SuperLink that is there, by its name in Flower's configuration

    def __post_init__(self) -> None:
        """Refuse options of `fedpriv run` that do not go together: driver, Ray, SuperLink, workers."""
        one_of(DRIVERS, driver=self.driver)
        if self.ray is not None and self.driver != "direct":
            raise FedprivError("--ray is for --driver direct: Flower's simulation starts a Ray of its own")
        if self.superlink and (self.driver != "flower" or self.workers or self.cohorts):
            raise FedprivError("--superlink names nodes that exist: no --driver direct, --workers or --cohorts with it")

    def _direct(self, study: Study, directory: Path, *, resume: bool, quiet: bool, on_round: OnRound) -> dict[str, Any]:
        """Run a study by the direct driver, in this process or on Ray; what its result.json says."""
        from server import rounds  # torch, only where it is needed
        from simulations.runs.direct import Here, OnRay

        many = self.ray or (self.workers or 1) > 1
        driver = OnRay(self.workers, self.cohorts, self.ray) if many else Here(self.cohorts or 1)
        try:
            return rounds.run_rounds(study, directory, driver, resume=resume, quiet=quiet, on_round=on_round)
        finally:
            driver.close()

    def go(
        self, study: Study, directory: Path, *, resume: bool, quiet: bool, on_round: OnRound | None = None
    ) -> dict[str, Any]:
        """Run a study in a directory by the driver chosen here, its rounds logged and told; what result.json says."""
        heard = logged_rounds(on_round, study.run.rounds)
        if self.driver == "direct":
            return self._direct(study, directory, resume=resume, quiet=quiet, on_round=heard)
        from simulations.flower import launch

        if self.superlink:
            if on_round is not None:
                raise FedprivError(
                    "--superlink: its rounds run in another process, which tells nobody here of them: no on_round and "
                    "no --track with it"
                )
            return launch.superlink_run(study, directory, self.superlink, resume=resume, quiet=quiet)
        return launch.simulate_study(
            study, directory, workers=self.workers, cohorts=self.cohorts, resume=resume, quiet=quiet, on_round=heard
        )


def run(
    study: Study | File,
    directory: File | None = None,
    *,
    driver: str = "direct",
    overrides: Iterable[str] = (),
    workers: int | None = None,
    cohorts: int | None = None,
    quiet: bool = False,
    on_round: OnRound | None = None,
) -> Run:
    """Train a study, account for every message, and give what `read_run` gives of its directory (fp.run).

    `study` is a file, the name of one that ships, TOML text, or a `Study`; `overrides` are changes to it, each
    "table.key=value". `directory` must be new: runs/NAME, or the next number free, where none is given. `driver` is
    "direct" (in this process; with `workers`, in as many of Ray's) or "flower"; `cohorts` are the nodes that clients
    are divided over. `quiet` shows no progress. `on_round` is called with each round's line of the records once that is
    on disk: what is true ends the run there ("stopped"), and `resume` goes on; what it raises ends it in one line.

    From here on torch has one thread in this process. Ctrl-C leaves records that `resume` goes on from. A class of
    one's own that the study names is looked for in files: one that is defined in a notebook, or in the script that
    runs, is found as "__main__:Class" by this process alone, so under "direct" without `workers`.

    >>> import fedpriv as fp, tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     done = fp.run("digits", f"{place}/few", overrides=["clients.count=60", "run.rounds=1"], quiet=True)
    >>> done.ended
    'finished'
    """
    way = Way(driver=driver, workers=workers, cohorts=cohorts)
    own = study_of(study, overrides)
    place, made = next_free(own.name) if directory is None else taken_directory(own.name, str(directory), None)
    return read_run(_ended(ran_result(own, place, made, way, quiet=quiet, on_round=on_round)))


def resume(
    directory: File,
    *,
    driver: str = "direct",
    workers: int | None = None,
    cohorts: int | None = None,
    quiet: bool = False,
    on_round: OnRound | None = None,
) -> Run:
    """Go on with the run in a directory, to the same bits as if it had never stopped (fp.resume).

    `driver`, `workers`, `cohorts`, `quiet` and `on_round` are those of `run`, and need not be what they were.

    >>> import fedpriv as fp, tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     few = fp.run("digits", f"{place}/few", overrides=["clients.count=60", "run.rounds=1"], quiet=True)
    ...     len(fp.resume(few.directory, quiet=True).rounds)
    1
    """
    way, place = Way(driver=driver, workers=workers, cohorts=cohorts), Path(directory)
    result = ran_result(begun_study(place), place, [], way, resume=True, quiet=quiet, on_round=on_round)
    return read_run(_ended(result))


def study_of(source: Study | File, overrides: Iterable[str] = ()) -> Study:
    """The study that a command or fp.run names or is given, after --set; its own modules lie beside its file."""
    if isinstance(source, Study):
        overrides = list(overrides)
        return study_file.parsed_study(study_file.study_text(source), overrides=overrides) if overrides else source
    name = os.fspath(source)
    look_for_modules(Path() if "\n" in name else Path(name).parent)
    return study_file.read_study(name, overrides)


def begun_study(directory: Path, overrides: Iterable[str] = ()) -> Study:
    """The study of a run that was begun in a directory, to resume or audit it, with --set's changes."""
    if not (directory / STUDY).is_file():
        raise FedprivError(
            f"{directory}: holds no run to go on with ({STUDY} is missing): fedpriv run … --out {directory} begins one"
        )
    look_for_modules(modules_of(directory))
    return study_file.read_study(str((directory / STUDY).absolute()), overrides)


def ran_result(
    study: Study,
    directory: Path,
    made: list[Path],
    way: Way,
    *,
    resume: bool = False,
    quiet: bool = False,
    on_round: OnRound | None = None,
) -> dict[str, Any]:
    """What result.json says of a run in that directory; what was `made` for it goes where it did not begin."""
    try:
        return way.go(study, directory, resume=resume, quiet=quiet, on_round=on_round)
    except BaseException as error:
        take_back(directory, made)
        if isinstance(error, KeyboardInterrupt):
            raise interrupted_words(directory) from None
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            raise FedprivError(f"{error.filename or directory}: {error.strerror or error}") from error
        raise


def interrupted_words(directory: Path) -> KeyboardInterrupt:
    """The KeyboardInterrupt of an interrupted run, with the command that goes on with it, to be raised."""
    goes_on = [f"fedpriv run --resume {quote(str(directory))} goes on"] if (directory / STUDY).exists() else []
    return KeyboardInterrupt(*goes_on)


def _ended(result: dict[str, Any]) -> Path:
    """The directory of a run that came to its end, by its result; raised as Ctrl-C where it was interrupted."""
    place = Path(result["directory"])
    if result["why"] == "interrupted":
        raise interrupted_words(place)
    return place
