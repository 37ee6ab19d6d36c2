"""`fedpriv export`: the trained model of a run as a file that other programs read."""

from __future__ import annotations

import argparse

from simulations.cli._command import JSON, Commands, add_command, option
from simulations.cli._words import show_found
from simulations.report.run.runs import read_run

HELP = """\
examples:
  fedpriv export runs/digits model.safetensors
  fedpriv export runs/digits model.pt             a state_dict: torch.load("model.pt", weights_only=True)
  fedpriv export runs/digits model.npz            an array for each name
"""


OPTIONS = (
    option("directory", "RUN", "of a run"),
    option("file", "FILE", "a new file: model.pt, model.safetensors or model.npz"),
    JSON,
)


def add_to(commands: Commands) -> None:
    """Add `fedpriv export` to the command's parser."""
    about = "The weights that a run saved last, by the names that its model's torch module has for them."
    add_command(commands, "export", run_export, OPTIONS, description=about, epilog=HELP)


def run_export(options: argparse.Namespace) -> None:
    """Run `fedpriv export`: write a run's weights to a new file, and say how many there are and what they reach."""
    run = read_run(options.directory)
    place = run.export(options.file)
    found = {"file": str(place), "directory": str(run.directory), "weights": run.header["dimension"]}
    found |= {"accuracy": run.accuracy}
    show_found(found, f"{place}: {run.header['dimension']:,} weights of {run.directory}", options.json)
