"""The process that cleans up after one that was killed: `surroundings.watched` starts it, its input's end is the sign.

Ray notices the end of whoever started it in its own time: parts of it after half a minute, its files never.
"""

from __future__ import annotations

import shutil
import signal
import sys

from simulations.surroundings import began, kill_what_it_started, send


def main(scratch: str, *pids: str) -> None:
    """Wait for the end, then kill these processes with all that they started, and remove the scratch directory."""
    sys.stdin.read()
    for pid, _, since in (word.partition(":") for word in pids):
        if began(int(pid)) == since:  # else another has that pid now
            kill_what_it_started(int(pid))
            send(int(pid), signal.SIGKILL)
    shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
