"""The worker of a node (`clients.flower.warm`): it loads what answers need, and forks for each message.

A fork has all that is loaded and nothing that an earlier message did: it reads policy, ledger and data, draws its noise
under a key of its own and ends, at its time-out by force. One that crashes or hangs costs one message. The worker ends
with its SuperNode, when its name is another's or gone, or when nobody has asked it for a while.

    python -m clients.flower.warm_worker DIRECTORY NUMBER LISTENER NODE POLICY
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from select import select
from traceback import print_exc

import numpy as np

from clients.flower import answering, warm
from clients.flower._warm_frames import packed_state, received, send, unpacked
from clients.flower.code import code_identity
from clients.flower.place import at_home
from clients.node.own_records import told_at_start, write_log

IDLE = 600.0  # seconds
LOOKS = 2.0  # seconds between two looks at its name
GONE = (OSError, EOFError, KeyboardInterrupt)  # how an answer ends for which nobody waits
REHEARSAL = """
name = "rehearsal"
data = { kind = "Synthetic", records = 4, features = 2, classes = 2, held_out = 2 }
clients = { count = 2, records = 2 }
privacy.mechanism = { kind = "StochasticSign", clip = 1.0, scale = 2.0 }
aggregation.kind = "MajorityVote"
run.rounds = 1
"""


class Worker:
    """A listener, what stands for the node (readable once that has ended), and the forks that are at work."""

    def __init__(self, folder: Path, number: int, listener: socket.socket, node: int) -> None:
        self._name, self._number, self._listener, self._node = folder / warm.NAME, number, listener, node
        self._forks: set[int] = set()

    def look(self, policy: Path) -> None:
        """Have a fork look at the node's data and say in its log how they are, while messages are taken."""
        self._forked(lambda: write_log(told_at_start(policy)), ())

    def serve(self, idle: float = IDLE) -> None:
        """Take a node's messages, a fork for each, until its SuperNode ends, another has the name, or it idles."""
        asked = time.monotonic()
        while True:
            ready = set(select([self._listener.fileno(), self._node], [], [], LOOKS)[0])
            self._forks -= {pid for pid in self._forks if os.waitpid(pid, os.WNOHANG)[0]}
            if self._node in ready:
                break
            if self._listener.fileno() in ready:
                connection, _ = self._listener.accept()
                with connection:
                    if warm.is_own_process(connection):
                        self._forked(partial(answer_message, connection), unsaid=GONE)
            elif not self._named:
                break
            if ready or self._forks:
                asked = time.monotonic()
            elif time.monotonic() > asked + idle:
                break
        if self._named:  # nobody finds it any more
            self._name.unlink(missing_ok=True)
        if self._node in ready:  # else what is at work may finish
            for pid in self._forks:
                os.kill(pid, signal.SIGKILL)

    @property
    def _named(self) -> bool:
        """Whether this worker's socket is the one that its node's messages find: another may have taken the name."""
        try:
            return self._name.stat().st_ino == self._number
        except OSError:
            return False

    def _forked(self, work: Callable[[], None], unsaid: tuple[type[BaseException], ...]) -> None:
        """Have a fork of the worker do some work and end; faults other than `unsaid` stand in the node's log."""
        if pid := os.fork():
            self._forks.add(pid)
            return
        try:
            self._listener.close()
            work()
        except unsaid:
            pass
        except BaseException:
            print_exc()
        finally:
            os._exit(0)


def answer_message(connection: socket.socket) -> None:
    """In a worker's fork: read one message off the socket, answer it as its own process would, and write that back."""
    connection.sendall(code_identity().encode())
    action, content, context = unpacked(received(connection))
    at_home()
    reply, why = answering.answered_message(action, content, context)
    send(connection, [reply, why.encode(errors="replace"), *packed_state(context)])


def load_everything() -> None:
    """Load all that a worker's answers may need; a rehearsed round uses what is loaded by its first use."""
    import clients.flower.masking
    import clients.training.releasing  # noqa: F401
    from clients.node.costs import total_epsilon
    from fedpriv.studies import file as study_file
    from fedpriv.studies import promise as guarantee

    answering.answer_of(None, {})(REHEARSAL, np.zeros(6, np.float32), 1, np.arange(2))
    total_epsilon(guarantee.promised_events(study_file.parsed_study(REHEARSAL), 6), 1e-5)


def main() -> None:
    """The process of a node's worker: load everything, look at the node's data, serve messages until nobody has one."""
    folder, number, listener, node, policy = sys.argv[1:]
    with suppress(KeyboardInterrupt), socket.socket(fileno=int(listener)) as own:
        code_identity()  # of the sources as they are now
        load_everything()
        gc.freeze()  # a fork need not copy what it only looks at
        worker = Worker(Path(folder), int(number), own, int(node))
        worker.look(Path(policy))
        worker.serve()


if __name__ == "__main__":
    main()
