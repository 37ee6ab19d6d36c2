"""A study run, or gone on with, from its first message to its result: what `fedpriv run` and `fp.run` do."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Any

from clients.data.memory import Columns
from clients.training.given import given_objects
from fedpriv._base.own_modules import look_for_modules
from fedpriv.errors import FedprivError, one_of, whole
from fedpriv.studies import file as study_file
from fedpriv.studies.file import Changes, changes_by_path
from fedpriv.studies.study import Study
from server.directory import STUDY, modules_of
from server.progress.listening import OnRound, logged_rounds
from simulations.report.run.runs import Run, read_run
from simulations.runs.directory import next_free, take_back, taken_directory
from simulations.runs.objects import check_given_again, within_reach

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
        whole(**{name: own for name in ("workers", "cohorts") if (own := getattr(self, name)) is not None})
        if self.ray is not None and self.driver != "direct":
            raise FedprivError("--ray is for --driver direct: Flower's simulation starts a Ray of its own")
        if self.superlink and (self.driver != "flower" or self.workers or self.cohorts):
            raise FedprivError("--superlink names nodes that exist: no --driver direct, --workers or --cohorts with it")

    @property
    def alone(self) -> bool:
        """Whether all of a run happens in this process, so that no other needs to find what it was given in Python."""
        return self.driver == "direct" and self.ray is None and (self.workers or 1) == 1

    def _direct(self, study: Study, directory: Path, *, resume: bool, quiet: bool, on_round: OnRound) -> dict[str, Any]:
        """Run a study by the direct driver, in this process or on Ray; what its result.json says."""
        from server import rounds  # torch, only where it is needed
        from simulations.runs.direct import Here, OnRay

        driver = Here(self.cohorts or 1) if self.alone else OnRay(self.workers, self.cohorts, self.ray)
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
                raise FedprivError("--superlink: its rounds run in another process: no on_round and no --track with it")
            return launch.superlink_run(study, directory, self.superlink, resume=resume, quiet=quiet)
        return launch.simulate_study(
            study, directory, workers=self.workers, cohorts=self.cohorts, resume=resume, quiet=quiet, on_round=heard
        )


def run(
    study: Study | File | Mapping[str, Any],
    directory: File | Mapping[str, Any] | None = None,
    *,
    model: object = None,
    data: object = None,
    rule: object = None,
    attack: object = None,
    clients: Any = None,
    columns: Columns | None = None,
    driver: str = "direct",
    overrides: Changes = (),
    workers: int | None = None,
    cohorts: int | None = None,
    quiet: bool = False,
    on_round: OnRound | None = None,
) -> Run:
    """Train a study, account for every message, and give what `read_run` gives of its directory (fp.run).

    `study` is a file, the name of one that ships, TOML text, a dict or a `Study`; `overrides` are changes to it, a dict
    by path (which may also come second) or words, each "table.key=value". `directory` must be new: runs/NAME, or the
    next number free, where none is given. `driver` is "direct" (in this process; with `workers`, in as many of Ray's)
    or "flower"; `cohorts` are the nodes that clients are divided over. `quiet` shows no progress. `on_round` is called
    with each round's line of the records once that is on disk: what is true ends the run there ("stopped"), and
    `resume` goes on; what it raises ends it in one line.

    Objects take the place of what the study names: `model` a torch module or what makes one; `data` arrays (x, y) or
    (x, y, x_test, y_test), a dict of them, a torch or a Hugging Face data set (`columns` says which are features and
    labels), `clients` the ids of those that the records belong to; `rule` an object, a class or a function; `attack` an
    object or a class.
    The study is then named by their digests too, and `resume` takes them again. docs/python.md has all of it.

    From here on torch has one thread in this process. Ctrl-C leaves records that `resume` goes on from. A class of
    one's own that the study names, as module:Class, is looked for in files.

    >>> import fedpriv as fp, tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     done = fp.run("digits", f"{place}/few", overrides={"clients.count": 60, "run.rounds": 1}, quiet=True)
    >>> done.ended
    'finished'
    """
    if isinstance(directory, Mapping):
        if overrides:
            raise FedprivError("overrides are given twice: the second argument is a dict of them, or the directory")
        overrides, directory = directory, None
    way = Way(driver=driver, workers=workers, cohorts=cohorts)
    given = given_objects(model=model, data=data, rule=rule, attack=attack, clients=clients, columns=columns)
    with within_reach(given, alone=way.alone):
        changes = {**dict(changes_by_path(overrides)), **given.settings} if given.settings else overrides
        own = study_of(study, changes)
        place, made = next_free(own.name) if directory is None else taken_directory(own.name, str(directory), None)
        result = ran_result(own, place, made, way, quiet=quiet, on_round=on_round)
        return replace(read_run(_ended(result)), given=given.models)


def resume(
    directory: File,
    *,
    model: object = None,
    data: object = None,
    rule: object = None,
    attack: object = None,
    clients: Any = None,
    columns: Columns | None = None,
    driver: str = "direct",
    workers: int | None = None,
    cohorts: int | None = None,
    quiet: bool = False,
    on_round: OnRound | None = None,
) -> Run:
    """Go on with the run in a directory, to the same bits as if it had never stopped (fp.resume).

    What `run` was given in Python (`model`, `data`, `rule`, `attack`) is given again, and refused where it is another.
    `driver`, `workers`, `cohorts`, `quiet` and `on_round` are those of `run`, and need not be what they were.

    >>> import fedpriv as fp, tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     few = fp.run("digits", f"{place}/few", overrides=["clients.count=60", "run.rounds=1"], quiet=True)
    ...     len(fp.resume(few.directory, quiet=True).rounds)
    1
    """
    way, place = Way(driver=driver, workers=workers, cohorts=cohorts), Path(directory)
    given = given_objects(model=model, data=data, rule=rule, attack=attack, clients=clients, columns=columns)
    check_given_again(place, given)
    with within_reach(given, alone=way.alone):
        result = ran_result(begun_study(place), place, [], way, resume=True, quiet=quiet, on_round=on_round)
        return replace(read_run(_ended(result)), given=given.models)


def study_of(source: Study | File | Mapping[str, Any], overrides: Changes = ()) -> Study:
    """The study that a command or fp.run names or is given, after --set; its own modules lie beside its file."""
    if isinstance(source, str | os.PathLike):
        name = os.fspath(source)
        look_for_modules(Path() if "\n" in name else Path(name).parent)
    return study_file.open_study(source, overrides)


def begun_study(directory: Path, overrides: Changes = ()) -> Study:
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
