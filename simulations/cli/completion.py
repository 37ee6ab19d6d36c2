"""`fedpriv completion`: what a shell needs to complete commands, options, and the names of studies."""

from __future__ import annotations

import argparse

from fedpriv.studies.file import shipped_studies
from simulations.cli._command import Commands, Option, add_command

HELP = """\
examples:
  source <(fedpriv completion bash)
  fedpriv completion zsh > ~/.zfunc/_fedpriv      where fpath has ~/.zfunc
  fedpriv completion tcsh > ~/.fedpriv.tcsh && source ~/.fedpriv.tcsh
"""

SHELLS = ("bash", "zsh", "tcsh")
OPTIONS = (Option("shell", {"choices": SHELLS, "help": "which shell's words to print"}),)


def add_to(commands: Commands) -> None:
    """Add `fedpriv completion` to the command's parser."""
    about = "Print what a shell completes fedpriv's command line by."
    add_command(commands, "completion", run_completion, OPTIONS, description=about, epilog=HELP)


def run_completion(options: argparse.Namespace) -> None:
    """Run `fedpriv completion`: print the words of a shell that complete all commands, options and studies."""
    import shtab

    names = " ".join(shipped_studies())
    studies = {"bash": "_fedpriv_studies", "zsh": "_fedpriv_studies", "tcsh": "f"}
    preamble = {
        "bash": f'_fedpriv_studies() {{ compgen -W "{names}" -- "$1"; compgen -f -- "$1"; }}',
        "zsh": f"_fedpriv_studies() {{ _alternative 'studies:study:({names})' 'files:file:_files' }}",
    }
    parser: argparse.ArgumentParser = options.whole()
    kinds = {"STUDY": studies, "DIR": shtab.DIRECTORY, "FILE": shtab.FILE}
    for action in _actions(parser):
        metavar = action.metavar if isinstance(action.metavar, str) else ""
        if metavar in kinds:
            action.complete = kinds[metavar]  # type: ignore[attr-defined] # which shtab looks for
        elif "|" in metavar and action.choices is None:
            action.choices = metavar.split("|")
    print(shtab.complete(parser, shell=options.shell, preamble=preamble.get(options.shell, "")))


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """All options of a command and of the commands below it, to be completed."""
    found = list(parser._actions)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found += [inner for each in action.choices.values() for inner in _actions(each)]
    return found
