"""Where modules are that a study names as module:Class: beside its file, and in the directory one is in."""

from __future__ import annotations

import os
import sys
from pathlib import Path

MODULES = "FEDPRIV_MODULES"  # of the environment: the folder, for processes that are started from here
_ADDED: list[str] = []  # to the path, by this module: the folder of the study that was last looked at


def look_for_modules(folder: Path) -> None:
    """Put a study's folder, and the directory one is in, on Python's path when it is read, for its module:Class.

    After all that is installed, here and (by `simulations.flower.surroundings`) in every process that is started from
    here.
    """
    own = str(folder.absolute())
    for earlier in _ADDED:  # another study's modules may have the same names; what was on the path before us stays
        if earlier != own and earlier in sys.path:
            sys.path.remove(earlier)
    _ADDED[:] = [own] if own in _ADDED else []
    os.environ[MODULES] = own  # for whoever goes on with the run
    if own not in sys.path:
        _ADDED.append(own)
        sys.path.append(own)
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def beside_study(name: str) -> Path:
    """A file that a study names: as it stands in the directory one is in, else beside the study that was looked at."""
    own = Path(name)
    beside = Path(os.environ.get(MODULES) or ".") / own
    return own if own.exists() or not beside.exists() else beside
