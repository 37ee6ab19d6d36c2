"""A first run from Python: 1,437 clients of one digit each, a tenth of them attackers, ε ≤ 4 certified beforehand."""

from __future__ import annotations

import tempfile
from math import ceil, floor

import fedpriv as fp

with tempfile.TemporaryDirectory() as place:
    run = fp.run("digits", f"{place}/first", quiet=True)
    cost = run.epsilon
    most, least = (
        ceil(1e4 * cost["upper"]) / 1e4,
        floor(1e4 * cost["lower"]) / 1e4,
    )  # an upper bound is never rounded down
    print(f"accuracy {run.last('accuracy'):.3f}, ε at most {most} and at least {least}")
