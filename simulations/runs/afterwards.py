"""The process that cleans up after one that was killed: `watched_scratch` starts it, its input's end is the sign.

Ray notices the end of whoever started it in its own time: parts of it after a minute or more, its files never.
"""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path

from simulations.flower.surroundings import clear_folder, kill_what_it_started, process_began, send_signal, wait_until

ENDS = 30.0  # seconds what was killed may take to be gone


def main(scratch: str) -> None:
    """Wait for the end of standard input, on which processes are told; then kill them and remove the scratch."""
    told = sys.stdin.read().split()
    for pid, _, since in (word.partition(":") for word in told):
        if since and process_began(int(pid)) == since:  # else another has that pid now
            kill_what_it_started(int(pid))
            send_signal(int(pid), signal.SIGKILL)
    wait_until(lambda: not clear_folder(Path(scratch)), ENDS)
    shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
