"""Where a worker works: in the directory that the run was started from, so that a study's own paths mean the same."""

from __future__ import annotations

import os

HOME = "FEDPRIV_DIRECTORY"  # the variable that names the directory a run was started from


def at_home() -> None:
    """Have a worker of Ray's or Flower's go to the directory its run was started from, where somebody has said which.

    Ray puts the directory it is started in before everything else on its workers' path, so it is started in an empty
    one: code that happens to lie in the person's directory, another checkout's, is not what was meant.
    """
    os.chdir(os.environ.get(HOME, "."))
