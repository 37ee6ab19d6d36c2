"""By which code a run was made: the version that is installed, and the commit of the checkout it lies in."""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
DESCRIBED = ("git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")


@cache
def checkout_commit() -> str | None:
    """The commit of the checkout that runs here, for a run's environment.json, "-dirty" where files differ from it.

    None where fedpriv lies in no checkout, or git is not there to say.
    """
    if not (CHECKOUT / ".git").exists():  # as one installed would find somebody else's further up
        return None
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            DESCRIBED, cwd=CHECKOUT, env=own | {"GIT_OPTIONAL_LOCKS": "0"}, capture_output=True, text=True, timeout=10,
            check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def code_words(directory: Path) -> str:
    """By which code a run in a directory was begun, in words for captions: "fedpriv 1.0.0, commit 0a1b2c3d4e5f"."""
    try:
        found = json.loads((directory / "environment.json").read_text(encoding="utf-8"))
        version, commit = found["fedpriv"], found.get("commit")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return "fedpriv of a version that it does not say"
    return f"fedpriv {version}" + (f", commit {commit}" if commit else "")
