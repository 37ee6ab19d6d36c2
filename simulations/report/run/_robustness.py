"""What `fedpriv certify` found of a run, where it was asked: certified accuracy, and accuracy under attack."""

from __future__ import annotations

import json
from typing import Any

from fedpriv.errors import FedprivError
from simulations.report.run.runs import Run

Rows = list[tuple[str, str]]
MOST = 4  # radii in a row


def summaries(run: Run) -> list[dict[str, Any]]:
    """What each `fedpriv certify` of a run came to, from the JSON files in its directory, for its report."""
    found = []
    for file in sorted((run.directory / "certify").glob("*.json")):
        try:
            own = json.loads(file.read_text(encoding="utf-8"))
            rows(own)
        except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise FedprivError(
                f"{file}: holds no summary ({error}): remove it, fedpriv certify writes it anew"
            ) from None
        found.append(own)
    return found


def rows(summary: dict[str, Any]) -> Rows:
    """Rows of a run's report on one `fedpriv certify`: how much was certified, and how much right under attack."""
    kind, norm = summary["smoothing"], "ℓ2" if summary["norm"] == "l2" else "ℓ∞"
    own, certified = summary["accuracy"], summary["certified"]
    shown = certified[1 :: max(1, -(-(len(certified) - 1) // MOST))]
    radii = ", ".join(f"{row['accuracy']:.1%} within {row['radius']:g}" for row in shown)
    name = f"{kind['kind']} {summary['drawn'][0]:.3g}, {summary['draws']:,} draws"
    said = [(name, f"{own['smoothed']:.1%} of {summary['images']:,} images certified; {norm}: {radii or 'no radius'}")]
    return said + [
        (f"attacked by {row['size']:g}", f"{row['all']['accuracy']:.1%} under the worst of four, "
         f"{row['certified']:.1%} certified there (ℓ∞)")
        for row in summary.get("attacked", [])
    ]  # fmt: skip
