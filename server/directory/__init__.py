"""A run's directory: it belongs to one process at a time, and holds the study before anything else happens in it.

Whoever is at work in it keeps a lock of the operating system's: whatever ends that process, kill −9 too, ends the lock.
"""

from __future__ import annotations

import difflib
import fcntl
import json
import os
import platform
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fedpriv import records
from fedpriv._base.files import replace_file
from fedpriv._base.own_modules import MODULES
from fedpriv.errors import FedprivError
from fedpriv.studies import file as study_file
from fedpriv.studies import identity
from fedpriv.studies.study import Study
from server.directory.code import checkout_commit

STUDY = "study.toml"
ENVIRONMENT = "environment.json"  # what ran it, where its data lay, and its name
WRITTEN = {STUDY, ENVIRONMENT, "checkpoint.npz", "records.jsonl", "result.json", "error.json"}  # by `files.replaced`
PACKAGES = ("fedpriv", "numpy", "scipy", "torch", "flwr", "ray", "randomgen")  # whose versions are written down
KEPT = "FEDPRIV_KEPT"  # the environment's name for a descriptor that keeps this process's directory


@contextmanager
def kept_alone(directory: Path) -> Iterator[int]:
    """Keep every other process out of a run's directory, by a descriptor that one started from here may inherit.

    That process keeps the directory too, also where this one is killed. A file system without locks keeps nobody out.
    """
    handed = os.environ.pop(KEPT, None)
    file = os.open(directory, os.O_RDONLY) if handed is None else int(handed)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FedprivError(f"{directory}: is at work in another process: wait until that has ended") from None
        except OSError:
            pass
        yield file
    finally:
        os.close(file)


@contextmanager
def prepare_directory(directory: Path, study: Study, resume: bool, where: str | None = None) -> Iterator[str]:
    """A context that gives the run's name: its directory for it alone, with its study; no run is written over.

    `where` its data lie is written down too, for people. What it gives is a name that no other run has.
    """
    file = directory / STUDY
    if resume and not file.exists():
        raise FedprivError(
            f"{directory}: holds no run to go on with ({STUDY} is missing): --out {directory} begins one"
        )
    directory.mkdir(parents=True, exist_ok=True)
    with kept_alone(directory):
        for path in directory.glob(".*.*.*"):  # left by a kill before they were in their place: they may be large
            if path.name[1:].rpartition(".")[0] in WRITTEN:
                path.unlink(missing_ok=True)
        if resume:
            check_format(directory)
            _check_unchanged(file, study)
        elif file.exists():
            raise FedprivError(
                f"{directory}: holds a run already: --resume {directory} goes on with it, --out names another"
            )
        else:
            about: dict[str, Any] = {"python": platform.python_version()} | dict.fromkeys(PACKAGES)
            for package in PACKAGES:
                with suppress(PackageNotFoundError):  # its code came by another way, as Flower's own does
                    about[package] = version(package)
            about |= {"commit": checkout_commit(), "modules": os.environ.get(MODULES), "data": where}
            about |= {"run": secrets.token_hex(8), "study_format": identity.FORMAT}
            replace_file(directory / ENVIRONMENT, (json.dumps(about, indent=1) + "\n").encode(), mode=0o644)
            replace_file(file, study_file.study_text(study).encode(), mode=0o644)
        yield run_name(directory)


def run_name(directory: Path) -> str:
    """The name of the run in a directory, which no other run has: for messages and trackers; "" of one of old."""
    return str(_about(directory / ENVIRONMENT).get("run", ""))


def data_place(directory: Path) -> str | None:
    """Where a run's data lay when it began, as its environment.json says, for results and reports; None if unknown."""
    try:
        found = json.loads((directory / ENVIRONMENT).read_text(encoding="utf-8")).get("data")
    except (OSError, ValueError, AttributeError):
        return None
    return found if isinstance(found, str) else None


def modules_of(directory: Path) -> Path:
    """The directory in which a begun run looked for its study's own modules, to go on with it."""
    try:
        return Path(json.loads((directory / ENVIRONMENT).read_text(encoding="utf-8"))["modules"])
    except (OSError, ValueError, KeyError, TypeError):
        return Path()


def check_format(directory: Path) -> None:
    """Refuse to resume a run whose ids are of another format than those made here."""
    if (found := format_of(directory)) != identity.FORMAT:
        raise FedprivError(
            f"{directory}: a run of format {found}, where this version goes on with format {identity.FORMAT}: fedpriv "
            "report, certify and audit read it; --out begins another run"
        )


def format_of(directory: Path) -> int:
    """The format of the ids in a run's files: 0 where an earlier version began it, which did not say."""
    return int(_about(directory / ENVIRONMENT).get("study_format", 0))


def id_of(directory: Path, study: Study) -> bytes:
    """The id a run's files know its study by, for `certify` and `audit`; of another format, as its records have it."""
    if format_of(directory) == identity.FORMAT:
        return study.id
    told = records.read_records(directory / "records.jsonl").header["study"]
    try:
        return bytes.fromhex(told)
    except ValueError:
        raise FedprivError(f"{directory / 'records.jsonl'}:1: study must be an id, got {told!r}") from None


def _about(file: Path) -> dict[str, Any]:
    """What a run's environment.json says of it since it began: versions, the run's name; refused where damaged."""
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        int(found.get("study_format", 0))
        return found
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise FedprivError(f"{file}: damaged ({error!r}): it says which run of the study this is") from None


def _check_unchanged(file: Path, study: Study) -> None:
    """Refuse to resume a run with another study than the one that its study.toml holds, naming what differs."""
    was = study_file.read_study(str(file.absolute()))
    if identity.identity_text(was) != identity.identity_text(study):
        lines = difflib.ndiff(study_file.study_text(was).splitlines(), study_file.study_text(study).splitlines())
        changes = [line for line in lines if line[:1] in "+-" and line[2:]]
        raise FedprivError(f"{file.parent}: holds another study than is asked for: {'; '.join(changes)[:300]}")
