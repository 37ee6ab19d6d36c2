"""What a simulation measured of its votes: which came out wrong, beside what was expected, and what they were worth."""

from __future__ import annotations

from typing import Any, NamedTuple

from fedpriv.records import Line
from simulations.report.run.runs import Run


class Descent(NamedTuple):
    """Both sides of docs/proofs/votes.md, section 3, over the rounds that are whole: mean Λ ≤ fall + curvature."""

    rounds: int
    progress: float  # the mean of Λ over them: how much the votes follow the gradient
    fall: float  # (F at their beginning − F at their end)/(η·rounds)
    curvature: float  # L·η·d/2

    @property
    def most(self) -> float:
        """What the mean of Λ is at most."""
        return self.fall + self.curvature


def measured_rounds(run: Run) -> list[Line]:
    """The rounds whose votes were measured."""
    return [line for line in run.rounds if line.get("votes") is not None]


def descent_of(run: Run) -> Descent | None:
    """Both sides of the identity; None where L is not known, or not every round was measured.

    A round's loss is that of the weights it began with, so the last round only says where the others led.
    """
    facts, lines = run.header.get("votes") or {}, measured_rounds(run)
    if facts.get("smoothness") is None or len(lines) != len(run.rounds) or len(lines) < 2:
        return None
    own, rounds, step = [line["votes"] for line in lines], len(lines) - 1, facts["step"]
    return Descent(
        rounds, sum(each["progress"] for each in own[:-1]) / rounds,
        (own[0]["loss"] - own[-1]["loss"]) / (step * rounds), facts["smoothness"] * step * run.header["dimension"] / 2,
    )  # fmt: skip


def votes_summary(run: Run) -> dict[str, Any] | None:
    """The last round measured, and both sides of the identity, as plain data."""
    if not (lines := measured_rounds(run)):
        return None
    descent = descent_of(run)
    sides = None if descent is None else descent._asdict() | {"at_most": descent.most}
    last: dict[str, Any] = lines[-1]["votes"]
    return last | {"judged": run.header.get("judged"), "descent": sides}


def votes_rows(run: Run) -> list[tuple[str, str]]:
    """What came of the votes, in words."""
    rows, lines = list[tuple[str, str]](), measured_rounds(run)
    names = ("against_mean", "expected", "against_gradient")
    known = ([line["votes"][name] for line in lines if line["votes"][name] is not None] for name in names)
    mean, expected, gradient = (sum(own) / len(own) if own else None for own in known)
    if mean is not None:
        counted = f", {expected:.1%} expected" if expected is not None else ""
        of = f"{mean:.1%} of the honest mean{counted}, {gradient:.1%} of the full gradient"
        rows.append(("votes wrong", f"{of} (mean over {len(lines):,} rounds)"))
    if (found := descent_of(run)) is not None:
        parts = f"{found.fall:.4g} of loss + {found.curvature:.4g} of curvature"
        rows.append(
            ("descent", f"mean Λ = {found.progress:.4g}, at most {found.most:.4g} = {parts}, {found.rounds:,} rounds")
        )
    return rows
