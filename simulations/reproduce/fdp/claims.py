"""[F]'s text, claim by claim: numbers that no figure shows, and slips, each with a counter-example and what holds."""

from __future__ import annotations

import csv
import io
import json

from simulations.figures.checks import Claim, check_lines
from simulations.figures.markdown import markdown_table
from simulations.reproduce.fdp._claims_scalar import scalar_claims
from simulations.reproduce.fdp._claims_vector import vector_claims
from simulations.reproduce.fdp._claims_votes import vote_claims

HEAD = ("where", "claim", "as printed", "ours", "verdict")


def fdp_claims() -> list[Claim]:
    """All of them, worked out now: of one coordinate, of votes, of vectors."""
    return [*scalar_claims(), *vote_claims(), *vector_claims()]


def claim_lines(claims: list[Claim]) -> list[str]:
    """For a terminal: each claim in a line behind its place, the slips last with what is right."""
    wide = max(len(claim.where) for claim in claims)
    lines = check_lines([claim.check for claim in claims])
    return [f"{claim.where:<{wide}}  {line}" for claim, line in zip(claims, lines, strict=True)]


def claims_page(claims: list[Claim]) -> str:
    """As Markdown: what holds, and what is a slip."""
    slips, held = ([claim for claim in claims if claim.slip is wrong] for wrong in (True, False))
    rows = {wrong: [_cells(claim) for claim in group] for wrong, group in ((True, slips), (False, held))}
    return "\n\n".join([
        "# fdp-claims: the text of [F], claim by claim",
        "Jin, Su, Zhong, Zhang, Quek, Dai: *On the f-Differential Privacy Guarantees of Discrete-Valued Mechanisms*. "
        "Every number in the columns *ours* and *right* was computed by `fedpriv reproduce fdp-claims`.",
        f"## {len(slips)} slips",
        markdown_table(["where", "claim", "as printed", "ours", "right"],
                       [[*cells[:4], claim.check.why] for claim, cells in zip(slips, rows[True], strict=True)]),
        f"## {len(held)} claims that hold",
        markdown_table(HEAD, rows[False]),
    ]) + "\n"  # fmt: skip


def claims_csv(claims: list[Claim]) -> str:
    """A row each."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([HEAD, *(_cells(claim) for claim in claims)])
    return text.getvalue()


def claims_json(claims: list[Claim]) -> str:
    """An object each, in a list."""
    told = [
        {"where": claim.where, "claim": claim.check.claim, "published": claim.check.published, "ours": claim.check.ours,
         "agrees": claim.check.agrees, "right": claim.check.why or None, "passed": claim.check.passed}
        for claim in claims
    ]  # fmt: skip
    return json.dumps(told, indent=1, ensure_ascii=False) + "\n"


def _cells(claim: Claim) -> list[str]:
    """A claim as a row of the page and of the CSV of `fedpriv reproduce fdp-claims`."""
    check = claim.check
    return [claim.where, check.claim, check.published, check.ours, check.verdict]
