"""Where a worker works: in the directory that the run was started from, so that a study's own paths mean the same."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HOME = "FEDPRIV_DIRECTORY"  # the variable that names the directory a run was started from
MODULES = "FEDPRIV_MODULES"  # the variable that names the directory of the study's own modules


def at_home() -> None:
    """Go to the directory the run was started from, where somebody has said which.

    Ray puts the directory it is started in before everything else on its workers' path, so it is started in an empty
    one: code that happens to lie in the person's directory, another checkout's, is not what was meant.
    """
    os.chdir(os.environ.get(HOME, "."))


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
