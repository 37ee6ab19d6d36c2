"""Hosts on one machine: network namespaces, each with a cable to a switch that delays, loses and cuts.

    with Wire(["server", "node"], delay=0.02, loss=0.01) as wire:
        subprocess.run([*wire.on("node"), "ping", "-c", "1", wire.address("server")])

Nothing of the machine's own network is touched: cables, addresses and switch are in namespaces that a process of ours
makes, and removes, with whatever still runs there, when its input ends: with the test, however that ends. Delay and
loss are netem's where the kernel has it, and the switch's where not; cuts are the switch's.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from random import Random
from shutil import which

SWITCH, INTERFACE = "switch", "eth0"
NETWORK = 0x40000000  # CLONE_NEWNET
EVERYTHING, OUTGOING = 3, 4  # ETH_P_ALL, PACKET_OUTGOING
SIOCETHTOOL, CHECKSUMS, SEGMENTS = 0x8946, 0x17, 0x1F  # ETHTOOL_STXCSUM, ETHTOOL_STSO
STARTS = 30.0


class Wire:
    """Hosts with addresses of their own, for as long as it is needed."""

    def __init__(self, names: Sequence[str], *, delay: float = 0.0, loss: float = 0.0, seed: int = 1) -> None:
        self._names = list(names)
        told = {"names": self._names, "delay": delay, "loss": loss, "seed": seed, "own": f"fp{os.getpid()}"}
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self._own = told["own"]
        self.shaped_by = self._ask(json.dumps(told))  # netem, or the switch

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=STARTS)

    def address(self, name: str) -> str:
        """Where a host is."""
        return _address(self._names.index(name))

    def on(self, name: str) -> list[str]:
        """What a command begins with that is to run on a host."""
        return ["ip", "netns", "exec", f"{self._own}-{name}"]

    def cut(self, name: str) -> None:
        """Let nothing through to a host or from it."""
        self._ask(f"cut {name}")

    def mend(self, name: str) -> None:
        """Let all through again."""
        self._ask(f"mend {name}")

    def stop(self, name: str) -> None:
        """Kill all that runs on a host, at once, as the end of its power would."""
        for pid in _running(f"{self._own}-{name}"):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _ask(self, words: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{words}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        if not answer:
            raise RuntimeError(f"the switch has ended at {words!r}")
        return answer


def impossible() -> str:
    """Why hosts cannot be made here; nothing where they can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "network namespaces are made by root, on Linux"
    if which("ip") is None:
        return "network namespaces need ip, of iproute2"
    name = f"fp{os.getpid()}-tried"
    try:
        _ip("netns", "add", name)
        try:
            _ip("-n", name, "link", "add", "name", "a", "type", "veth", "peer", "name", "b")
        finally:
            _ip("netns", "del", name)
    except RuntimeError as error:
        return f"no network namespace can be made: {error}"
    return ""


def _address(number: int) -> str:
    return f"10.77.0.{number + 1}"


def _ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def _running(namespace: str) -> list[int]:
    return [int(word) for word in _ip("netns", "pids", namespace).split()]


# --- in the process that makes the hosts and is the switch ------------------------------------------------------------


def main() -> None:
    told = json.loads(sys.stdin.readline())
    spaces = {name: f"{told['own']}-{name}" for name in [*told["names"], SWITCH]}
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        for space in spaces.values():
            _ip("netns", "add", space)
        places = {name: os.open(f"/run/netns/{space}", os.O_RDONLY) for name, space in spaces.items()}
        _enter(places[SWITCH])
        ports = [_cable(number, spaces[name]) for number, name in enumerate(told["names"])]
        for number, name in enumerate(told["names"]):
            _whole_frames(f"port{number}", places[SWITCH])
            _whole_frames(INTERFACE, places[name])
        _enter(places[SWITCH])
        delay, loss, shaped_by = told["delay"], told["loss"], "the switch"
        if all(_netem(spaces[name], delay, loss) for name in told["names"]):
            delay, loss, shaped_by = 0.0, 0.0, "netem"
        print(shaped_by, flush=True)
        Switch(told["names"], ports, delay, loss, Random(told["seed"])).work()
    finally:
        _enter(home)
        for space in spaces.values():
            _remove(space)


def _remove(space: str) -> None:
    """A namespace, and whatever still runs there."""
    with suppress(RuntimeError):  # it was never made
        until = time.monotonic() + STARTS
        while (left := _running(space)) and time.monotonic() < until:
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        _ip("netns", "del", space)


def _enter(space: int) -> None:
    """Be in another namespace from now on."""
    if ctypes.CDLL(None, use_errno=True).setns(space, NETWORK):
        raise OSError(ctypes.get_errno(), "setns")


def _cable(number: int, host: str) -> socket.socket:
    """A host's interface, up and with an address; the switch's end of its cable."""
    port = f"port{number}"
    _ip("link", "add", "name", port, "type", "veth", "peer", "name", INTERFACE, "netns", host)
    _ip("link", "set", port, "up")
    for name in ("lo", INTERFACE):
        _ip("-n", host, "link", "set", name, "up")
    _ip("-n", host, "address", "add", f"{_address(number)}/24", "dev", INTERFACE)
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(EVERYTHING))
    end.bind((port, 0))
    end.setblocking(False)
    return end


def _whole_frames(interface: str, space: int) -> None:
    """Let the kernel cut segments and fill in checksums itself: what goes through the switch is looked at by nobody."""
    _enter(space)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for what in (CHECKSUMS, SEGMENTS):
            value = array("I", [what, 0])
            fcntl.ioctl(any_socket, SIOCETHTOOL, struct.pack("16sP", interface.encode(), value.buffer_info()[0]))


def _netem(host: str, delay: float, loss: float) -> bool:
    """Delay and loss by the kernel, if it can."""
    how = ["netem", "delay", f"{1000 * delay:g}ms", "loss", f"{100 * loss:g}%"]
    words = ["tc", "-n", host, "qdisc", "add", "dev", INTERFACE, "root", *how]
    return which("tc") is not None and subprocess.run(words, capture_output=True).returncode == 0


class Switch:
    """Frames from port to port, late or not at all."""

    def __init__(self, names: list[str], ports: list[socket.socket], delay: float, loss: float, rng: Random) -> None:
        self._names, self._ports, self._delay, self._loss, self._rng = names, ports, delay, loss, rng
        self._cut: set[int] = set()
        self._known: dict[bytes, int] = {}  # at which port a hardware address is
        self._late: list[tuple[float, int, int, bytes]] = []  # when, in which order, to which port
        self._count = 0
        self._said = b""

    def work(self) -> None:
        """Until the input ends."""
        with selectors.DefaultSelector() as ready:
            for number, port in enumerate(self._ports):
                ready.register(port, selectors.EVENT_READ, number)
            ready.register(0, selectors.EVENT_READ, None)
            while True:
                wait = max(0.0, self._late[0][0] - time.monotonic()) if self._late else None
                for key, _ in ready.select(wait):
                    if key.data is not None:
                        self._take(key.data)
                    elif not self._told():
                        return
                self._pass_on()

    def _told(self) -> bool:
        """Do as the input says; whether it goes on."""
        content = os.read(0, 4096)
        *lines, self._said = (self._said + content).split(b"\n")
        for verb, name in (line.decode().split() for line in lines):
            {"cut": self._cut.add, "mend": self._cut.discard}[verb](self._names.index(name))
            print("done", flush=True)
        return bool(content)

    def _take(self, number: int) -> None:
        """All frames that wait at a port."""
        for frame, kind in _frames(self._ports[number]):
            if kind == OUTGOING or len(frame) < 14:
                continue
            self._known[frame[6:12]] = number
            to = self._known.get(frame[:6])
            others = [each for each in range(len(self._ports)) if each != number] if to is None else [to]
            for each in others:
                if not {number, each} & self._cut and not self._rng.random() < self._loss:
                    self._count += 1
                    heapq.heappush(self._late, (time.monotonic() + self._delay, self._count, each, frame))

    def _pass_on(self) -> None:
        """All frames whose time has come."""
        while self._late and self._late[0][0] <= time.monotonic():
            _, _, number, frame = heapq.heappop(self._late)
            if number not in self._cut:
                with suppress(OSError):  # a cable that is full loses what it is given
                    self._ports[number].send(frame)


def _frames(port: socket.socket) -> Iterator[tuple[bytes, int]]:
    with suppress(BlockingIOError):
        while True:
            frame, about = port.recvfrom(65536)
            yield frame, about[2]


if __name__ == "__main__":
    main()
