"""The ledger of a node in a Flower app: a directory of its own below the one that the app names, and its budgets."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedpriv.accounting.event import Event
from fedpriv.accounting.ledger import Budget, Ledger
from fedpriv.errors import BudgetExceeded, FedprivError, nearest_hint
from fedpriv.node.asks import Ask
from fedpriv.node.own_ledger import FILE, Charge, OwnLedger, charged_events, read_charges
from fedpriv.node.shares import Shares

OWN = Shares("node", 0, False)  # one client a node: all its records are that client's
LEDGER = "fedpriv.ledger"  # of --node-config, or of the run's configuration
MECHANISM = "fedpriv.mechanism"  # of the run's configuration
EPSILON, DELTA = "fedpriv.epsilon", "fedpriv.delta"  # of --node-config: what the node's owner allows
USUAL = 1e-5  # δ where none is given
Word = str | os.PathLike[str]


@dataclass(frozen=True)
class Home:
    """Where a node's ledger stands, which partition it is of, and what may be charged to it."""

    folder: Path
    place: tuple[int, int]  # partition p of P
    budgets: tuple[Budget, ...]  # the app's and the owner's

    @staticmethod
    def of(ledger: Word | None, budget: Budget | None, node: Mapping[str, Any], run: Mapping[str, Any]) -> Home:
        """A node's home by its owner's --node-config, by what the app says, or by the run's configuration.

        A node without a partition has the directory's one ledger: its id is another each time it is started.
        """
        _check_names("--node-config", node, (LEDGER, EPSILON, DELTA))
        _check_names("the run's configuration", run, (LEDGER, MECHANISM))
        budgets = tuple(each for each in (budget, owner_budget(node)) if each is not None)
        named = node.get(LEDGER, ledger)
        if named is None and budgets and LEDGER in run:
            raise FedprivError(
                f"a budget is of one ledger, and this run's configuration names it, so another run may name another: "
                f"{LEDGER} in the owner's --node-config, or private(…, ledger=DIRECTORY)"
            )
        if named is None and LEDGER not in run:
            raise FedprivError(
                f"no ledger: private(…, ledger=DIRECTORY), or {LEDGER} in the node's or run's configuration"
            )
        root = full_path("ledger", run[LEDGER] if named is None else named)
        if (own := node.get("partition-id")) is None:
            return Home(root / "node", (0, 1), budgets)
        if type(own) is not int or own < 0:
            raise FedprivError(f"--node-config: partition-id must be a whole number from 0 on, got {own!r}")
        all_ = node.get("num-partitions")
        if type(all_) is int and all_ > own:
            _check_partitions(root, all_)
        return Home(root / f"node-{own}", (own, all_ if type(all_) is int and all_ > own else own + 1), budgets)


def full_path(name: str, given: object) -> Path:
    """A setting as a full path, ~ expanded, for what must be found again wherever a process starts; else refused."""
    if not isinstance(given, str | os.PathLike) or not (word := str(given)) or "\0" in word:
        raise FedprivError(f"{name} must be the name of a place, as in '~/ledgers', got {given!r}")
    try:
        found = Path(given).expanduser()
    except RuntimeError as error:
        raise FedprivError(f"{name} = {word!r}: {str(error).rstrip('.')}") from None
    if not found.is_absolute():
        raise FedprivError(
            f"{name} = {word!r} must be a full path, or begin with ~: Flower may start a process anywhere, and "
            "a ledger begun anew forgets what was charged"
        )
    return found


def _check_names(where: str, config: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Refuse a configuration with a name that looks like fedpriv's and is none: a mistyped budget would be none."""
    for name in config:
        if name.lower().replace("_", ".").replace("-", ".").startswith("fedpriv.") and name not in known:
            hint = nearest_hint(name, known)
            raise FedprivError(f"{where}: {name!r} is unknown here{hint}; names: {', '.join(known)}")


def _check_partitions(root: Path, own: int) -> None:
    """Refuse a directory with ledgers of nodes of another number: they count the same records, divided otherwise."""
    with suppress(OSError):  # such as of a name that is too long: opening it says so
        for file in root.glob(f"node-*/{FILE}"):
            try:
                with file.open(encoding="utf-8") as lines:
                    was = json.loads(lines.readline())["place"][1]
            except (OSError, ValueError, KeyError, IndexError, TypeError):  # its own node says what is wrong with it
                continue
            if was != own:
                raise FedprivError(
                    f"ledger = {str(root)!r} holds {file.parent.name} of {was} partitions, and this node is of {own}: "
                    "records divided anew are told of in both, and no ledger alone counts that. Name another "
                    "directory; where the records are the same, what the ledgers of both say adds up"
                )
            return  # all are of one number


def owner_budget(node: Mapping[str, Any]) -> Budget | None:
    """The budget that a node's owner gives in its --node-config; None where there is none."""
    if EPSILON not in node:
        if DELTA in node:
            raise FedprivError(f"--node-config: {DELTA} without {EPSILON} is no budget: give both")
        return None
    return Budget(node[EPSILON], node.get(DELTA, USUAL))


def check_budget(budget: object) -> None:
    """Refuse a budget that an app gives as something else, such as a number without its δ."""
    if budget is not None and not isinstance(budget, Budget):
        raise FedprivError(f"budget must be a Budget, as in Budget(epsilon=8.0, delta=1e-5), got {budget!r}")


def charged(ledger: OwnLedger, ask: Ask, event: Event, budgets: Iterable[Budget]) -> None:
    """Charge a node's ledger, on its disk, for an answer that is about to be made; refused past any of the budgets."""
    for budget in budgets:
        try:
            Ledger(ledger.events(), budget).add(event)
        except BudgetExceeded as error:
            raise FedprivError(f"this node's budget: {error}") from None
    ledger.charge(Charge(ask=ask, events=(event,), shares=OWN))


def read_ledgers(directory: Word) -> dict[str, Ledger]:
    """What the nodes of this machine have given away, by the name of each one's directory below the app's ledger.

    >>> read_ledgers("examples")
    {}
    """
    if not isinstance(directory, str | os.PathLike) or not (root := Path(os.path.expanduser(directory))).is_dir():
        raise FedprivError(f"{str(directory)[:200]!r} is no directory: read_ledgers takes that of private(…, ledger=…)")
    found = sorted(root.glob(f"node*/{FILE}"))
    return {file.parent.name: Ledger(charged_events(read_charges(file)[1])) for file in found}
