"""A first run from Python: 1,437 clients of one digit each, a tenth of them attackers, ε ≤ 4 certified beforehand."""

from __future__ import annotations

import tempfile

import fedpriv as fp

with tempfile.TemporaryDirectory() as place:
    run = fp.run("digits", f"{place}/first", quiet=True)
    print(f"accuracy {run.last('accuracy'):.3f}, ε at most {run.epsilon['upper']} and at least {run.epsilon['lower']}")
