"""Flower's command `flwr`, watched: what it prints, when its run has ended, and what the SuperLink says of that."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Thread

from fedpriv.errors import FedprivError
from server.directory.outcome import STOP, is_over, job_ended
from simulations.flower.surroundings import end_all, wait_until

ENDS = 60.0  # seconds Flower may take to end after the run has


class Shown:
    """What Flower's command prints, passed on; the run's id is only to be found there."""

    def __init__(self, quiet: bool) -> None:
        """Begin to watch what `flwr run` prints: its run's id and its last line of words are known once read."""
        self.run_id, self._quiet = "", quiet
        self._said = list[str]()  # in words, of which the last are the reason where it did not start

    def read(self, lines: Iterable[str]) -> None:
        """Pass on all lines that `flwr run` prints, unless quiet, and note the run's id and the last words."""
        for line in lines:
            if not self._quiet:
                print(line, end="", file=sys.stderr, flush=True)
            if re.search(r"\w", line):
                self._said.append(line.strip(" │╭╮╰╯─\n"))
            if match := re.search(r"Successfully started run (\d+)", line):
                self.run_id = match[1]

    def reason(self) -> str:
        """The last that `flwr run` said, as one line: a whole box of Flower's, where it has drawn one."""
        box = next((at for at in range(len(self._said) - 1, -1, -1) if self._said[at] == "Error"), None)
        return " ".join(self._said[-1:] if box is None else self._said[box + 1 :])[-400:]


def followed(
    command: list[str],  # `flwr run` with all its words
    connection: str,  # the SuperLink, by its name in Flower's configuration
    env: Mapping[str, str],
    place: Path,  # the run's directory
    *,
    quiet: bool,
) -> str:
    """Run `flwr run`, show what it prints until the run has ended, end it where it hangs; Flower's id of the run."""
    shown = Shown(quiet)
    process = subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    reader = Thread(target=shown.read, args=(process.stdout,), daemon=True)
    reader.start()
    try:
        wait_until(lambda: process.poll() is not None or is_over(place), None)
        wait_until(lambda: process.poll() is not None, ENDS)  # for ever, behind a hung client
    except KeyboardInterrupt:
        (place / STOP).touch()
        if not wait_until(lambda: is_over(place), 20) and shown.run_id:
            _flwr(["stop", shown.run_id, connection], env)
        job_ended(place)
        raise
    finally:
        end_all(process)
        reader.join(5)
    if not shown.run_id:
        raise FedprivError(
            f"Flower did not start the run: {shown.reason()} (fedpriv deploy status says what runs here)"
        )
    return shown.run_id


def status_of(run_id: str, connection: str, env: Mapping[str, str]) -> str:
    """What the SuperLink says became of a run, by `flwr ls`, such as finished:completed, once it has ended."""
    status = ["unknown"]

    def ended() -> bool:
        """Ask the SuperLink by `flwr ls` for the run's status, and whether that says it has finished."""
        told = json.loads(_flwr(["ls", connection, "--run-id", run_id, "--format", "json"], env))
        if "runs" not in told:  # which Flower's command calls a success
            why = str(told.get("error-message")).strip().rpartition("\n")[2][:200]
            raise FedprivError(f"Flower does not say what became of its run {run_id}: {why}; --resume goes on")
        status[0] = str(told["runs"][0]["status"])
        return status[0].startswith("finished")

    wait_until(ended, ENDS)
    return status[0]


def _flwr(words: list[str], env: Mapping[str, str]) -> str:
    """Run one of Flower's commands, such as `flwr ls`, and give what it prints; an error in a line where it fails."""
    done = subprocess.run(["flwr", *words], env=env, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise FedprivError(f"flwr {words[0]}: {' '.join((done.stderr or done.stdout).split())[-300:]}")
    return done.stdout
