"""The same run from Flower's own command: `flwr run`, on a SuperLink of ours that ends with it, or on somebody else's.

`flwr run` returns 0 when the run has failed: the SuperLink is asked for its status, and the run's directory for its
outcome.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from threading import Thread
from typing import Any

from fedpriv.errors import FedprivError
from fedpriv.studies import file as study_file
from fedpriv.studies.study import Study
from server.directory.outcome import ERROR, STOP, Job, expect, met, outcome, over
from simulations.flower._own_superlink import own_superlink
from simulations.flower.deploy_state import NAME, home_of
from simulations.flower.surroundings import cores, end_all, environment, scratch_directory, wait_until

APP = """\
# Written by fedpriv: a Flower App whose code is the installed package's.
[project]
name = "fedpriv"
version = "{version}"
description = "Private and Byzantine-robust federated learning"
license = "Apache-2.0"

[tool.flwr.app]
publisher = "fedpriv"

[tool.flwr.app.components]
serverapp = "server.app:app"
clientapp = "clients.app:app"

[tool.flwr.app.config]
study = "digits"
overrides = ""
directory = ""
resume = false
quiet = false
"""
ENDS = 60.0  # seconds Flower may take to end after the run has


def app_directory(run: Path) -> Path:
    """The directory of the Flower App: the repository, or where there is none, one written into the run's directory."""
    repository = Path(__file__).parents[2]
    project = repository / "pyproject.toml"
    if project.exists() and "[tool.flwr.app]" in project.read_text(encoding="utf-8"):
        return repository
    own = run / "app"
    own.mkdir(parents=True, exist_ok=True)
    (own / "pyproject.toml").write_text(APP.format(version=version("fedpriv")), encoding="utf-8")
    return own


def flower_run(app: Path, study: Study, directory: Path, *, nodes: int | None = None) -> dict[str, Any]:
    """Run a study by `flwr run` on a SuperLink of its own; what its result.json says."""
    with scratch_directory() as scratch, own_superlink(scratch) as env:
        federation = (
            f"num-supernodes={nodes or cores()} client-resources-num-cpus=1 init-args-num-cpus={cores()} "
            'init-args-logging-level="ERROR" init-args-log-to-driver=false'
        )
        job = Job(study=study_file.text(study), directory=str(directory.absolute()))
        return _submitted(app, job, "here", env, ["--federation-config", federation])


def superlink_run(
    study: Study, directory: Path, name: str, *, resume: bool = False, quiet: bool = False
) -> dict[str, Any]:
    """Run a study through a connection of the user's Flower configuration; the run's directory is on that machine."""
    with scratch_directory() as scratch:
        env = environment(scratch)
        del env["FLWR_HOME"]  # the user's own, or a local deployment's, or Flower's default
        home = os.environ.get("FLWR_HOME") or home_of(name)
        if home is None and name == NAME:  # which Flower takes for a simulation that it starts itself
            raise FedprivError(
                f"--superlink {name}: nothing is deployed here: fedpriv deploy up, or FLWR_HOME=DIR/flwr"
            )
        env |= {} if home is None else {"FLWR_HOME": home}
        place = directory.absolute()
        return _submitted(
            app_directory(place),
            Job(study=study_file.text(study), directory=str(place), resume=resume, quiet=quiet),
            name,
            env,
            [],
        )


def _submitted(app: Path, job: Job, connection: str, env: dict[str, str], options: list[str]) -> dict[str, Any]:
    """Run `flwr run`, see it through, and find out how it ended."""
    place = Path(job.directory)
    expect(place)
    with tempfile.NamedTemporaryFile("w", suffix=".toml", encoding="utf-8") as config:
        config.writelines(
            f"{name} = {_toml(getattr(job, name))}\n" for name in ("study", "directory", "resume", "quiet")
        )
        config.flush()
        command = ["flwr", "run", str(app), connection, "--stream", "--run-config", config.name, *options]
        shown = Shown(job.quiet)
        _seen_through(command, connection, env, place, shown)
    status = _status(shown.run_id, connection, env)
    if status != "finished:completed" and not (over(place) and (place / ERROR).exists()):
        raise FedprivError(
            f"Flower says that its run {shown.run_id} is {status}: flwr log {shown.run_id} {connection} says more, "
            f"--resume {place} goes on"
        )
    if status == "finished:completed" and not over(place):
        return {"directory": str(place), "why": "finished", "elsewhere": connection}
    return outcome(place)


def _seen_through(command: list[str], connection: str, env: dict[str, str], place: Path, shown: Shown) -> None:
    """Show what Flower's command shows until the run has ended."""
    process = subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    reader = Thread(target=shown.read, args=(process.stdout,), daemon=True)
    reader.start()
    try:
        wait_until(lambda: process.poll() is not None or over(place), None)
        wait_until(lambda: process.poll() is not None, ENDS)  # for ever, behind a hung client
    except KeyboardInterrupt:
        (place / STOP).touch()
        if not wait_until(lambda: over(place), 20) and shown.run_id:
            _flwr(["stop", shown.run_id, connection], env)
        met(place)
        raise
    finally:
        end_all(process)
        reader.join(5)
    if not shown.run_id:
        raise FedprivError(f"Flower did not start the run: {shown.last} (fedpriv deploy status says what runs here)")


class Shown:
    """What Flower's command prints, passed on; the run's id is only to be found there."""

    def __init__(self, quiet: bool) -> None:
        self.run_id, self.last, self._quiet = "", "", quiet

    def read(self, lines: Iterable[str]) -> None:
        """Read to the end."""
        for line in lines:
            if not self._quiet:
                print(line, end="", file=sys.stderr, flush=True)
            self.last = line.strip(" │\n") if re.search(r"\w", line) else self.last
            if match := re.search(r"Successfully started run (\d+)", line):
                self.run_id = match[1]


def _status(run_id: str, connection: str, env: dict[str, str]) -> str:
    """What the SuperLink says became of the run."""
    status = ["unknown"]

    def ended() -> bool:
        told = json.loads(_flwr(["ls", connection, "--run-id", run_id, "--format", "json"], env))
        if "runs" not in told:  # which Flower's command calls a success
            why = str(told.get("error-message")).strip().rpartition("\n")[2][:200]
            raise FedprivError(f"Flower does not say what became of its run {run_id}: {why}; --resume goes on")
        status[0] = str(told["runs"][0]["status"])
        return status[0].startswith("finished")

    wait_until(ended, ENDS)
    return status[0]


def _flwr(words: list[str], env: dict[str, str]) -> str:
    """What one of Flower's commands prints."""
    done = subprocess.run(["flwr", *words], env=env, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise FedprivError(f"flwr {words[0]}: {' '.join((done.stderr or done.stdout).split())[-300:]}")
    return done.stdout


def _toml(value: str | bool) -> str:
    """A value as TOML has it."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def main() -> int:
    """`python -m simulations.flower.command [STUDY] [--set table.key=value]… [--out DIR]`, for `make flwr-run`."""
    parser = argparse.ArgumentParser(description="Run a study by Flower's own command, on a SuperLink of its own.")
    parser.add_argument("study", nargs="?", default="digits")
    parser.add_argument("--set", metavar="table.key=value", action="append", default=[], dest="overrides")
    parser.add_argument("--out", metavar="DIR", type=Path)
    parser.add_argument("--nodes", metavar="N", type=int)
    chosen = parser.parse_args()
    try:
        study = study_file.read(chosen.study, chosen.overrides)
        place = chosen.out or _next_free(study.name)
        result = flower_run(app_directory(place), study, place, nodes=chosen.nodes)
    except FedprivError as error:
        print(f"fedpriv: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0 if result["why"] == "finished" else 1


def _next_free(name: str) -> Path:
    """runs/NAME-flwr, or that with a number."""
    names = (f"{name}-flwr{number}" for number in ("", *(f"-{each}" for each in range(2, 1_000_000))))
    return next(place for place in map(Path("runs").joinpath, names) if not place.exists())


if __name__ == "__main__":
    raise SystemExit(main())
