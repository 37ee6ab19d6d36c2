"""A deployed node's worker: a process that has loaded everything, which the process of each message has answer for it.

Flower starts a process for every message, and most of what ours would do is load torch and the rest. So the first one
starts a worker, and each hands its message over, by a Unix socket in the ledger's directory, which is its user's alone.
The worker forks for every message (`clients.flower.warm_worker`): whatever a message does ends with it. Where no
worker can be had, a message is answered where it is, to the same bytes.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from flwr.app import Context, RecordDict

from clients.flower._warm_frames import exactly, packed, received, send, unpacked_state
from clients.flower.answering import Outcome

NAME = "worker"  # of the socket
LEDGER = "ledger"  # the directory it is in, where the policy names no other
ENDED = "the process that worked on it has ended"
WAITING = 64  # messages that may wait to be taken
NOWHERE = (OSError, EOFError, ValueError, KeyError)  # why there may be no worker


def answered_by_worker(code: str, action: str, content: RecordDict, context: Context) -> Outcome | None:
    """A node's answer to one message by its worker of the same code; None where none is, and nothing was asked."""
    connection, config = None, context.node_config
    with suppress(*NOWHERE):  # a worker that waits for a message, else a new one: there is none, or one of other code
        folder = _folder(config)
        connection = _greeted(_connected, folder, code) or _greeted(partial(_started, config=config), folder, code)
    if connection is None:
        return None
    with connection:
        try:
            send(connection, packed(action, content, context))
            context.state.clear()  # used up, whatever happens now
            reply, why, *state = received(connection)
        except (OSError, EOFError):
            return b"", ENDED
    context.state.update(unpacked_state(state))
    return reply, why.decode()


def begin_worker(config: Mapping[str, Any]) -> bool:
    """Start a node's worker where there is none, to load while it waits for its first round. Whether one is there."""
    with suppress(*NOWHERE):
        folder = _folder(config)
        try:
            _connected(folder).close()
        except OSError:
            _started(folder, config).close()
        return True
    return False


def is_own_process(connection: socket.socket) -> bool:
    """Whether the other end of a node's socket to its worker is a process of this user's: no other is served."""
    there = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return bool(struct.unpack("3i", there)[1] == os.geteuid())


def _greeted(connect: Callable[[Path], socket.socket], folder: Path, code: str) -> socket.socket | None:
    """A connection to a node's worker that has said that it runs this code; None where there is no such worker."""
    with suppress(OSError, EOFError):
        connection = connect(folder)
        if is_own_process(connection) and exactly(connection, len(code)) == code.encode():
            return connection
        connection.close()
    return None


def _folder(config: Mapping[str, Any]) -> Path:
    """The directory of a node's ledger, where its worker's socket is; OSError where anybody else may look into it."""
    if not hasattr(os, "pidfd_open") or not hasattr(socket, "SO_PEERCRED"):
        raise OSError("this system does not say whose process is at the other end")
    policy = Path(str(config["policy"]))
    folder = policy.parent / str(tomllib.loads(policy.read_text(encoding="utf-8-sig")).get("ledger", LEDGER))
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    about = folder.stat()
    if about.st_uid != os.geteuid() or about.st_mode & 0o077:
        raise PermissionError(f"{folder} is not this user's alone")
    return folder


def _connected(folder: Path) -> socket.socket:
    """A connection to the worker that a node has; OSError where it has none."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        with _short(folder) as place:
            connection.connect(f"{place}/{NAME}")
        return connection
    except BaseException:
        connection.close()
        raise


def _started(folder: Path, config: Mapping[str, Any]) -> socket.socket:
    """A connection to a node's new worker. It takes the socket's name of any other, and whose name is taken ends.

    It is told of this process's parent, Flower's that starts one for each message and ends with its SuperNode.
    """
    node = os.pidfd_open(os.getppid())
    try:
        with socket.socket(socket.AF_UNIX) as listener, _short(folder) as place:
            listener.bind(mine := f"{place}/{NAME}-{os.getpid()}")
            os.chmod(mine, 0o600)
            listener.listen(WAITING)
            number = os.stat(mine).st_ino
            os.replace(mine, f"{place}/{NAME}")
            words = map(str, (folder.absolute(), number, listener.fileno(), node, config["policy"]))
            path = os.pathsep.join(each or os.getcwd() for each in sys.path)  # this code, from wherever it came
            one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # a fork would not have the others
            subprocess.Popen(
                [sys.executable, "-P", "-m", "clients.flower.warm_worker", *words],
                pass_fds=(listener.fileno(), node), stdin=subprocess.DEVNULL,
                env=os.environ | {"PYTHONPATH": path} | one_thread,
            )  # fmt: skip
            return _connected(folder)
    finally:
        os.close(node)


@contextmanager
def _short(folder: Path) -> Iterator[str]:
    """A context with the ledger's directory by a name that fits into a socket's address (107 bytes), however deep."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{number}"
    finally:
        os.close(number)
