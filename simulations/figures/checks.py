"""What a paper says beside what we find."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Check:
    """One claim or number of a paper, ours, and whether they agree; a difference that is understood says why."""

    claim: str  # what the paper says, or what its number is of
    published: str  # as the paper has it
    ours: str
    agrees: bool  # whether the two are the same, to the precision of what is published
    why: str = ""  # the reason for which they differ; "" where they should agree
    right: bool = True  # whether ours is what an independent route gives

    @property
    def passed(self) -> bool:
        """Whether a paper's claim is as expected: ours is right, and differs from it only for a stated reason."""
        return self.right and self.agrees == (not self.why)

    @property
    def verdict(self) -> str:
        """Whether a paper's claim passed, in words for `fedpriv reproduce`: ok, differs and why, or FAILED.

        >>> Check(claim="δ(1.67)", published="0.039", ours="0.00526", agrees=False, why="another l").verdict
        'differs (another l)'
        """
        if not self.right:
            return "FAILED: ours is not what an independent route gives"
        if self.agrees:
            return "ok" if not self.why else f"FAILED: agrees, where it should differ ({self.why})"
        return f"differs ({self.why})" if self.why else "FAILED: differs, and nobody knows why"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim of a paper's text at its place, checked."""

    where: str
    check: Check

    @property
    def slip(self) -> bool:
        """Whether the paper is wrong there."""
        return bool(self.check.why)


def check_lines(checks: list[Check]) -> list[str]:
    """The checks of a paper's claims as `fedpriv reproduce` prints them: claim, published, ours, verdict."""
    wide = [
        max(len(text) for text in column)
        for column in zip(*((c.claim, c.published, c.ours) for c in checks), strict=True)
    ]
    return [
        f"{c.claim:<{wide[0]}}  published {c.published:<{wide[1]}}  ours {c.ours:<{wide[2]}}  {c.verdict}"
        for c in checks
    ]
