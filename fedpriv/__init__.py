"""Certified-private, Byzantine-robust federated learning: `import fedpriv as fp`.

>>> import fedpriv as fp
>>> curve = fp.mechanisms.StochasticSign(clip=1, scale=10).tradeoff()
>>> low, high = fp.compose([(curve, 10)]).epsilon(1e-5)
>>> low <= high < 3
True

What stands here is the public door: a name is looked up when it is first used, so that `import fedpriv` costs nothing.
Names are studies and what is done with them (`read_study`, `run`, `report`, `audit`, …), the families a study chooses
from (`mechanisms`, `aggregation`, `attacks`, …), and the privacy core (`Tradeoff`, `compose`, `Account`, `Ledger`, …).

Studies are run by `clients/`, `server/` and `simulations/` beside this package; all else needs this one alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedpriv import aggregation, attacks, certified, estimation, flower, mechanisms, tolerance
    from fedpriv.accounting.account import Account
    from fedpriv.accounting.calibration import calibrate
    from fedpriv.accounting.event import Event
    from fedpriv.accounting.ledger import Budget, Ledger
    from fedpriv.curves.compose import compose
    from fedpriv.curves.joint import joint
    from fedpriv.curves.tradeoff import Tradeoff
    from fedpriv.errors import FedprivError
    from fedpriv.studies.file import open_study as read_study
    from fedpriv.studies.plan import Plan
    from fedpriv.studies.study import Study
    from simulations.audit.audited import audit
    from simulations.report.run.runs import read_run as read_run
    from simulations.report.sweep.cells import read_sweep as read_sweep
    from simulations.report.written import report
    from simulations.runs.running import resume, run
    from simulations.sweep.private import sweep_private
    from simulations.sweep.sweeping import sweep

__version__ = "1.0.0"

_NAMES = {  # where each name is defined; without a colon, a module
    "Account": "fedpriv.accounting.account:Account",
    "Budget": "fedpriv.accounting.ledger:Budget",
    "Event": "fedpriv.accounting.event:Event",
    "FedprivError": "fedpriv.errors:FedprivError",
    "Ledger": "fedpriv.accounting.ledger:Ledger",
    "Plan": "fedpriv.studies.plan:Plan",
    "Study": "fedpriv.studies.study:Study",
    "Tradeoff": "fedpriv.curves.tradeoff:Tradeoff",
    "aggregation": "fedpriv.aggregation",
    "attacks": "fedpriv.attacks",
    "audit": "simulations.audit.audited:audit",
    "calibrate": "fedpriv.accounting.calibration:calibrate",
    "certified": "fedpriv.certified",
    "compose": "fedpriv.curves.compose:compose",
    "estimation": "fedpriv.estimation",
    "flower": "fedpriv.flower",
    "joint": "fedpriv.curves.joint:joint",
    "mechanisms": "fedpriv.mechanisms",
    "read_run": "simulations.report.run.runs:read_run",
    "read_sweep": "simulations.report.sweep.cells:read_sweep",
    "read_study": "fedpriv.studies.file:open_study",
    "report": "simulations.report.written:report",
    "resume": "simulations.runs.running:resume",
    "run": "simulations.runs.running:run",
    "sweep": "simulations.sweep.sweeping:sweep",
    "sweep_private": "simulations.sweep.private:sweep_private",
    "tolerance": "fedpriv.tolerance",
}
_BESIDE = ("clients", "server", "simulations")

__all__ = [
    "Account", "Budget", "Event", "FedprivError", "Ledger", "Plan", "Study", "Tradeoff", "__version__", "aggregation",
    "attacks", "audit", "calibrate", "certified", "compose", "estimation", "flower", "joint", "mechanisms", "read_run",
    "read_study", "read_sweep", "report", "resume", "run", "sweep", "sweep_private",
    "tolerance",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """The object behind a public name such as `fp.run`: imported when first asked for, then kept."""
    if name not in _NAMES:
        raise AttributeError(f"module 'fedpriv' has no attribute {name!r}")
    found = globals()[name] = _found(_NAMES[name])
    return found


def __dir__() -> list[str]:
    """The names that `import fedpriv as fp` offers, for `dir` and an editor's completion; no module is loaded."""
    return __all__


def main() -> int:
    """What the console command `fedpriv` starts: its exit code, from `simulations.command_line`; 2 without that."""
    import sys

    from fedpriv.errors import FedprivError

    try:
        command = _found("simulations.command_line:main")
    except FedprivError as error:
        print(f"fedpriv: {error}", file=sys.stderr)
        return 2
    return int(command())


def _found(path: str) -> Any:
    """The object at an import path of a public name; refused where other packages hide clients, server, simulations."""
    from fedpriv._base.loading import loaded_object

    if path.split(".")[0] in _BESIDE:
        _check_beside()
    return loaded_object(path)


def _check_beside() -> None:
    """Refuse to go on where a package of the same name as one of ours comes first: half of it would be another's."""
    from importlib.util import find_spec
    from pathlib import Path

    from fedpriv.errors import FedprivError

    home = Path(__file__).resolve().parent.parent
    for name in _BESIDE:
        spec = find_spec(name)
        found = None if spec is None else Path(spec.origin or next(iter(spec.submodule_search_locations or []), ""))
        if found is None or found.resolve().parent != home / name:
            where = "is not there" if found is None else f"is {found}"
            raise FedprivError(
                f"package {name!r} {where}, where fedpriv needs its own in {home / name}: rename that one, or keep its "
                "folder off the path (run from another directory); what needs no study works as it is"
            )
