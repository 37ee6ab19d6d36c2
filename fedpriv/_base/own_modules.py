"""Where modules are that a study names as module:Class: beside its file, and in the directory one is in."""

from __future__ import annotations

import os
import sys
from pathlib import Path

MODULES = "FEDPRIV_MODULES"  # of the environment: the folder, for processes that are started from here


def look_for_modules(folder: Path) -> None:
    """Let what a study names as module:Class be found in a folder, its file's, and in the directory one is in.

    After all that is installed, here and (by `simulations.flower.surroundings`) in every process that is started from
    here.
    """
    if (earlier := os.environ.get(MODULES)) in sys.path:
        sys.path.remove(str(earlier))  # another study's modules may have the same names
    os.environ[MODULES] = str(folder.absolute())  # for whoever goes on with the run
    for place in (str(folder.absolute()), os.getcwd()):
        if place not in sys.path:
            sys.path.append(place)
