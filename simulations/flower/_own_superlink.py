"""A SuperLink of our own, for one run.

The one that `flwr run` would start by itself stays, and Ray's workers import the clients' code from the directory that
it was started in: the next checkout would run with this one's clients. Ours has a port and a FLWR_HOME of its own,
starts in an empty directory, and is killed with everything it started.
"""

from __future__ import annotations

import socket
import ssl
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedpriv.errors import FedprivError
from simulations.flower.surroundings import end_all, flower_environment, started_process, wait_until

HOST = "127.0.0.1"
STARTS = 60.0  # seconds it may take


@contextmanager
def own_superlink(scratch: Path) -> Iterator[dict[str, str]]:
    """While it lasts, a SuperLink for one run by `flwr run`, and the environment in which `here` names it."""
    env, port = flower_environment(scratch), port_of(0)
    home = Path(env["FLWR_HOME"])
    home.mkdir()
    (home / "config.toml").write_text(f'[superlink.here]\naddress = "{HOST}:{port}"\ninsecure = true\n')
    words = f"flower-superlink --insecure --simulation --isolation subprocess --host {HOST} --port {port}"
    with (scratch / "superlink.log").open("w") as log:
        process = started_process([*words.split(), "--disable-runtime-dependency-installation"], scratch, env, log)
    try:
        if not wait_until(lambda: healthy(port) or process.poll() is not None, STARTS) or process.poll() is not None:
            told = (scratch / "superlink.log").read_text(errors="replace").strip().splitlines() or [""]
            raise FedprivError(f"Flower's SuperLink did not start: {told[-1]}")
        yield env
    finally:
        end_all(process)


def healthy(port: int, authority: Path | None = None) -> bool:
    """Whether a SuperLink answers at a port of this machine, with a certificate of `authority` where that is given."""
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if authority is not None:
        trusted = ssl.create_default_context(cafile=str(authority))
        handlers.append(urllib.request.HTTPSHandler(context=trusted))
    scheme = "http" if authority is None else "https"
    try:
        opened = urllib.request.build_opener(*handlers).open(f"{scheme}://{HOST}:{port}/health", timeout=1)
        return bool(opened.status == 200)
    except OSError:
        return False


def port_of(wanted: int) -> int:
    """A port of this machine for a SuperLink or SuperNode: the wanted one if nobody has it, any free one for 0."""
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: what lingers is not in the way
        try:
            taken.bind((HOST, wanted))
        except (OSError, OverflowError) as error:
            raise FedprivError(f"port {wanted} cannot be had ({error}): leave --port out for a free one") from None
        return int(taken.getsockname()[1])
