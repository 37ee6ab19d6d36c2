"""What `fedpriv audit RUN` has left in a run's directory, as data and in a row."""

from __future__ import annotations

import json
from typing import Any

from fedpriv.errors import FedprivError
from simulations.report.run.audit_words import audit_rows, in_a_line, without_curves
from simulations.report.run.runs import Run

Found = dict[str, Any]
FILE = ("audit", "audit.json")


def found_of(run: Run) -> Found | None:
    """What `fedpriv audit` found of a run, from its audit.json; None without one, or of another study."""
    path = run.directory.joinpath(*FILE)
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["study"] != run.header["study"]:
            return None
        audit_rows(found)  # which asks for all there is
        [float(value) for value in found["curves"]["trials"]["alpha"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FedprivError(
            f"{path}: not what fedpriv audit writes ({error!r}): fedpriv audit {run.directory}"
        ) from None
    return dict(found)


def audit_row(run: Run) -> list[tuple[str, str]]:
    """The row on the audit in `fedpriv report`'s table of a run; none where it was not audited."""
    found = found_of(run)
    return [] if found is None else [("audited", in_a_line(found))]


def audit_summary(run: Run) -> dict[str, Any]:
    """What the audit of a run found, for `fedpriv report --json`, without curves; {} where there is none."""
    found = found_of(run)
    return {} if found is None else {"audit": without_curves(found)}
