"""A run by Flower's own command: `flwr run`, on a SuperLink of ours that ends with it, or on somebody else's.

`flwr run` returns 0 when the run has failed: the SuperLink is asked for its status, and the run's directory for its
outcome.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fedpriv.errors import FedprivError
from fedpriv.studies import file as study_file
from fedpriv.studies.study import Study
from server.directory.outcome import ERROR, Job, expect_failure, is_over, outcome_of
from server.directory.results import REACHED, WAITED
from server.progress import result_table
from simulations.flower._flwr import followed, status_of
from simulations.flower._own_superlink import own_superlink
from simulations.flower.deploy_state import NAME, home_of
from simulations.flower.surroundings import flower_environment, scratch_directory, usable_cores

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
    """Run a study by `flwr run` on a SuperLink of its own, for `make flwr-run`; what its result.json says.

    `app` is the directory of the Flower App; `nodes` are those that clients are divided over, one a core unless said.
    """
    with scratch_directory() as scratch, own_superlink(scratch) as env:
        federation = (
            f"num-supernodes={nodes or usable_cores()} client-resources-num-cpus=1 init-args-num-cpus={usable_cores()} "
            'init-args-logging-level="ERROR" init-args-log-to-driver=false'
        )
        job = Job(study=study_file.study_text(study), directory=str(directory.absolute()))
        return _submitted(app, job, "here", env, ["--federation-config", federation])


def superlink_run(
    study: Study, directory: Path, name: str, *, resume: bool = False, quiet: bool = False
) -> dict[str, Any]:
    """Run a study for `fedpriv run --superlink NAME`, through the user's own Flower; what result.json says.

    The run's directory is on the machine of that SuperLink.
    """
    with scratch_directory() as scratch:
        env = flower_environment(scratch)
        del env["FLWR_HOME"]  # the user's own, or a local deployment's, or Flower's default
        home = os.environ.get("FLWR_HOME") or home_of(name)
        if home is None and name == NAME:  # which Flower takes for a simulation that it starts itself
            raise FedprivError(
                f"--superlink {name}: nothing is deployed here: fedpriv deploy up, or FLWR_HOME=DIR/flwr"
            )
        env |= {} if home is None else {"FLWR_HOME": home}
        place = directory.absolute()
        job = Job(study=study_file.study_text(study), directory=str(place), resume=resume, quiet=quiet)
        return _submitted(app_directory(place), job, name, env, [])


def _submitted(app: Path, job: Job, connection: str, env: dict[str, str], options: list[str]) -> dict[str, Any]:
    """Give a job to Flower by `flwr run`, see it through, and find out how it ended: what result.json says."""
    place = Path(job.directory)
    expect_failure(place)
    with tempfile.NamedTemporaryFile("w", suffix=".toml", encoding="utf-8") as config:
        for name in ("study", "directory", "resume", "quiet"):  # as TOML has them
            text = json.dumps(getattr(job, name), ensure_ascii=False).replace("\x7f", "\\u007f")
            config.write(f"{name} = {text}\n")
        config.flush()
        command = ["flwr", "run", str(app), connection, "--stream", "--run-config", config.name, *options]
        run_id = followed(command, connection, env, place, quiet=job.quiet)
    return _ended(run_id, place, connection, env)


def _ended(run_id: str, place: Path, connection: str, env: dict[str, str]) -> dict[str, Any]:
    """How a run that Flower has ended came out: what its directory's result.json says, or an error if Flower does."""
    status = status_of(run_id, connection, env)
    if status != "finished:completed" and not (is_over(place) and (place / ERROR).exists()):
        raise FedprivError(
            f"Flower says that its run {run_id} is {status}: flwr log {run_id} {connection} says more, "
            f"--resume {place} goes on"
        )
    if status == "finished:completed" and not is_over(place):
        return {"directory": str(place), "why": "finished", "elsewhere": connection}
    return outcome_of(place)


def _options() -> argparse.Namespace:
    """The command line of `python -m simulations.flower.command`, which `make flwr-run` calls, as parsed."""
    parser = argparse.ArgumentParser(description="Run a study by Flower's own command, on a SuperLink of its own.")
    parser.add_argument("study", nargs="?", default="digits")
    parser.add_argument("--set", metavar="table.key=value", action="append", default=[], dest="overrides")
    parser.add_argument("--out", metavar="DIR", type=Path)
    parser.add_argument("--nodes", metavar="N", type=int)
    return parser.parse_args()


def main() -> int:
    """`python -m simulations.flower.command [STUDY] [--set table.key=value]… [--out DIR]`, for `make flwr-run`."""
    chosen = _options()
    try:
        study = study_file.read_study(chosen.study, chosen.overrides)
        names = (f"{study.name}-flwr{number}" for number in ("", *(f"-{each}" for each in range(2, 1_000_000))))
        place = chosen.out or next(free for free in map(Path("runs").joinpath, names) if not free.exists())
        result = flower_run(app_directory(place), study, place, nodes=chosen.nodes)
        print(result_table(result))
    except FedprivError as error:
        print(f"fedpriv: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0 if result["why"] in ("finished", REACHED, WAITED) else 1


if __name__ == "__main__":
    raise SystemExit(main())
