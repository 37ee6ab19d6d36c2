"""Claims of a paper's text, made: a statement that holds, a number as it is printed, a slip with what is right."""

from __future__ import annotations

from simulations.figures.checks import Check, Claim

SAME = 1e-12  # between two routes to one number


def held_claim(where: str, claim: str, ours: str, holds: bool, published: str = "holds") -> Claim:
    """A statement that our numbers should bear out."""
    return Claim(where=where, check=Check(claim=claim, published=published, ours=ours, agrees=bool(holds)))


def printed_number(where: str, claim: str, published: str, ours: float, *, within: float, shown: str = ".6g") -> Claim:
    """A number that ours should be, to the digits that are printed."""
    agrees = bool(abs(ours - float(published)) <= within)
    return Claim(where=where, check=Check(claim=claim, published=published, ours=format(ours, shown), agrees=agrees))


def slip_found(
    where: str,
    claim: str,
    *,
    published: str,
    ours: str,  # the counter-example
    right: str,  # what holds instead
    false: bool,  # whether the counter-example is one
    proved: bool = True,  # whether what is right passes its own check
) -> Claim:
    """A statement that is false as it is printed."""
    check = Check(claim=claim, published=published, ours=ours, agrees=not false, why=right, right=bool(proved))
    return Claim(where=where, check=check)
