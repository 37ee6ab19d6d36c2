"""What a server and its nodes compare, so that all of them answer by the same code."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import clients
import fedpriv
from fedpriv._base.syntax import code_digest

PROTOCOL = 1  # of what goes between a server and its nodes
BESIDES = ("fedpriv/auditing", "fedpriv/flower")  # what decides no byte of an answer; whatever else is there, may


@cache
def code_identity() -> str:
    """Protocol version and digest of the syntax of all modules an answer depends on: server and nodes compare it.

    Flower may import the client's code from another checkout than the server's. A comment or a docstring changes
    nothing here: a fleet need not be started anew for it.
    """
    folders = [Path(str(package.__file__)).parent for package in (fedpriv, clients)]
    return f"{PROTOCOL}-{code_digest(folders, BESIDES)}"
