"""The ledger of a node in a Flower app: a directory of its own below the one that the app names, and its budgets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedpriv.accounting.event import Event
from fedpriv.accounting.ledger import Budget, Ledger
from fedpriv.errors import BudgetExceeded, FedprivError
from fedpriv.node.asks import Ask
from fedpriv.node.own_ledger import FILE, Charge, OwnLedger, charged_events, read_charges
from fedpriv.node.shares import Shares

OWN = Shares("node", 0, False)  # one client a node: all its records are that client's
LEDGER = "fedpriv.ledger"  # of --node-config, or of the run's configuration
EPSILON, DELTA = "fedpriv.epsilon", "fedpriv.delta"  # of --node-config: what the node's owner allows
USUAL = 1e-5  # δ where none is given


@dataclass(frozen=True)
class Home:
    """Where a node's ledger stands, and which partition it is of."""

    folder: Path
    place: tuple[int, int]  # partition p of P

    @staticmethod
    def of(ledger: str | Path | None, node: Mapping[str, Any], run: Mapping[str, Any]) -> Home:
        """A node's home by its owner's --node-config, by what the app says, or by the run's configuration.

        A node without a partition has the directory's one ledger: its id is another each time it is started.
        """
        named = node.get(LEDGER) or ledger or run.get(LEDGER)
        if not isinstance(named, str | Path) or not str(named):
            raise FedprivError(
                f"no ledger: private(…, ledger=DIRECTORY), or {LEDGER} in the node's or run's configuration"
            )
        root = Path(named).expanduser()
        if not root.is_absolute():
            raise FedprivError(
                f"ledger = {str(named)!r} must be a full path, or begin with ~: Flower may start a node anywhere, and "
                "a ledger begun anew forgets what was charged"
            )
        if (own := node.get("partition-id")) is None:
            return Home(root / "node", (0, 1))
        if type(own) is not int or own < 0:
            raise FedprivError(f"--node-config: partition-id must be a whole number from 0 on, got {own!r}")
        all_ = node.get("num-partitions")
        return Home(root / f"node-{own}", (own, all_ if type(all_) is int and all_ > own else own + 1))


def owner_budget(node: Mapping[str, Any]) -> Budget | None:
    """The budget that a node's owner gives in its --node-config; None where there is none."""
    if EPSILON not in node:
        return None
    return Budget(node[EPSILON], node.get(DELTA, USUAL))


def check_budget(budget: object) -> None:
    """Refuse a budget that an app gives as something else, such as a number without its δ."""
    if budget is not None and not isinstance(budget, Budget):
        raise FedprivError(f"budget must be a Budget, as in Budget(epsilon=8.0, delta=1e-5), got {budget!r}")


def charged(ledger: OwnLedger, ask: Ask, event: Event, budgets: list[Budget]) -> None:
    """Charge a node's ledger, on its disk, for an answer that is about to be made; refused past any of the budgets."""
    for budget in budgets:
        try:
            Ledger(ledger.events(), budget).add(event)
        except BudgetExceeded as error:
            raise FedprivError(f"this node's budget: {error}") from None
    ledger.charge(Charge(ask=ask, events=(event,), shares=OWN))


def read_ledgers(directory: str | Path) -> dict[str, Ledger]:
    """What the nodes of this machine have given away, by the name of each one's directory below the app's ledger.

    >>> read_ledgers("examples")
    {}
    """
    found = sorted(Path(directory).expanduser().glob(f"node*/{FILE}"))
    return {file.parent.name: Ledger(charged_events(read_charges(file)[1])) for file in found}
