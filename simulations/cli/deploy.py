"""`fedpriv deploy`: a SuperLink and SuperNodes on this machine, for trying what runs on many."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fedpriv.errors import FedprivError, whole
from simulations.cli._command import JSON, Commands, add_command, flag, option
from simulations.cli._words import show_found

HELP = """\
Separate processes on loopback: a SuperLink, and N SuperNodes with a policy and a ledger each. With --tls they prove who
they are, by certificates and keys that are made for it. A study's clients are divided evenly over the nodes, and their
data are those that the study names. docs/deploy.md is about real hosts.

`up` where a deployment stands starts again what has ended of it, and touches nothing else. `check` is for any node: it
looks at a policy and its data, as the node does when it starts.

examples:
  fedpriv deploy up --nodes 3 --tls
  fedpriv run digits --superlink local --set run.rounds=5
  fedpriv deploy status
  fedpriv deploy down
  fedpriv deploy check /srv/fedpriv/policy.toml
"""
POLICY = """\
# What this node's clients allow: its owner's, for trying. docs/deploy.md says what each line means.
studies = "any"
mechanisms = "any"
unit = "record"            # the budget is a record's: of what is released of clients, too
budget = {{ epsilon = 1000.0, delta = 1e-5 }}
trust = "simulated"        # for trying: where a study wants sums alone to be seen, the server is believed
contributors = 1000000
attacks = true             # for trying: clients play the attackers that a study asks for
reruns = true              # each run of a study is answered anew, and charged anew
noise = "{noise}"{why}
"""
# what follows `noise` in the policy of a node whose noise is seeded
WHY = "           # for trying: the simulation's own bits, and who knows the study's seed can subtract it"


NODES = option("--nodes", "N", "how many SuperNodes (default 2)", type=int, default=2)
TLS = flag("--tls", "certificates, and keys that the SuperLink knows nodes by")
PORT = option("--port", "P", "the SuperLink's (default: any free one, or the one it has)", type=int, default=0)
SEEDED = flag("--seeded", "nodes' policies allow seeded noise: a run has the simulation's bits")
WHERE = option("--directory", "DIR", "where it is kept (default: ~/.local/state/fedpriv/deployment)", type=Path)
NODE = option("policy", "POLICY", "the node's policy.toml", type=Path)


def add_to(commands: Commands) -> None:
    """Add `fedpriv deploy up`, `status`, `down` and `check` to the command's parser."""
    command = commands.add_parser(
        "deploy", description=HELP, help="start and stop a local deployment",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    verbs = command.add_subparsers(dest="verb", metavar="up|status|down|check", required=True)
    about = "start it, or what has ended of it"
    add_command(verbs, "up", deploy_up, (NODES, TLS, PORT, SEEDED, WHERE, JSON), help=about)
    about = "say what runs: exit code 0 when all does, 1 when not"
    add_command(verbs, "status", deploy_status, (WHERE, JSON), help=about)
    about = "end every process it started; policies and ledgers stay"
    add_command(verbs, "down", deploy_down, (WHERE, JSON), help=about)
    about = "look at a node's policy and data before it starts: exit code 2 says what"
    add_command(verbs, "check", deploy_check, (NODE,), help=about)


def deploy_up(options: argparse.Namespace) -> int:
    """Run `fedpriv deploy up`: start a deployment on this machine, or what has ended of it; `status`'s exit code."""
    from simulations.flower import deploy_processes

    whole(nodes=options.nodes)
    directory = _directory(options)
    policy = POLICY.format(noise="seeded" if options.seeded else "cryptographic", why=WHY if options.seeded else "")

    def say(words: str) -> None:
        """Tell on standard error what goes on while a deployment starts."""
        print(words, file=sys.stderr)

    deploy_processes.start_deployment(directory, options.nodes, options.tls, options.port, policy, say)
    return deploy_status(options)


def deploy_status(options: argparse.Namespace) -> int:
    """Run `fedpriv deploy status`: print each process and whether it runs; 0 where all of them do, else 1."""
    from simulations.flower.deploy_state import HOME, NAME, Deployment, default_directory

    directory = _directory(options)
    found = Deployment.load(directory)
    home = directory / HOME
    if found is None:
        show_found({"directory": str(directory), "runs": False, "processes": []}, "nothing is deployed", options.json)
        return 1
    broken = found.broken
    processes = [vars(each) | {"runs": each not in broken, "directory": str(directory / each.name)}
                 for each in found.processes]  # fmt: skip
    told = {"directory": str(directory), "runs": found.ready and not broken,
            "nodes": found.nodes, "tls": found.tls, "port": found.port, "flwr_home": str(home),
            "processes": processes}  # fmt: skip
    words = [f"{each.name}  pid {each.pid}, port {each.port}, in {directory / each.name}"
             + (f"  {each.fault}" if each in broken else "")
             for each in found.processes]  # fmt: skip
    words += ["fedpriv deploy up starts again what has ended"] if broken else []
    words.append(f"FLWR_HOME={home} flwr run . {NAME} --stream")
    own = "" if directory == default_directory() else f"FLWR_HOME={home} "
    words.append(f"{own}fedpriv run STUDY --superlink {NAME}")
    show_found(told, "\n".join(words), options.json)
    return 0 if told["runs"] else 1


def deploy_down(options: argparse.Namespace) -> int:
    """Run `fedpriv deploy down`: end every process of a deployment on this machine; policies and ledgers stay."""
    from simulations.flower import deploy_processes

    directory = _directory(options)
    ended = deploy_processes.end_deployment(directory)
    told = f"{ended} processes ended; policies and ledgers stay in {directory}" if ended else "nothing was running"
    show_found({"directory": str(directory), "ended": ended}, told, options.json)
    return 0


def deploy_check(options: argparse.Namespace) -> int:
    """Run `fedpriv deploy check`: refuse a node whose policy or data on this machine allow no answer."""
    from clients.node.own_records import wrong_with_data

    if wrong := wrong_with_data(options.policy):
        raise FedprivError(f"{options.policy}: this node's data allow no answer: {wrong}")
    print(f"{options.policy}: the policy and its data are in order")
    return 0


def _directory(options: argparse.Namespace) -> Path:
    """The directory that a command's deployment is kept in: --directory's, or the default one of this user."""
    from simulations.flower.deploy_state import default_directory

    return Path(options.directory or default_directory()).expanduser().absolute()
