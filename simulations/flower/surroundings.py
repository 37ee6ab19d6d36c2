"""Where Flower and Ray run: an environment that touches nothing of the user's, a scratch directory, a group."""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, suppress
from pathlib import Path
from typing import IO

from clients.flower.place import HOME
from fedpriv._base.one_thread import usable_cores as usable_cores
from fedpriv.errors import FedprivError, reason

REMEMBERED = ("RAY_AUTH_TOKEN",)  # what Ray reads once a process: a second one started there must be told the same

TOLD = {  # what Flower and Ray are told of every run
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",  # Ray listens on every interface
    "RAY_DEDUP_LOGS": "0",  # what it has to say it says at once
    "RAY_worker_niceness": "0",  # 15 unless told: starved by anything else that runs
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "NO_PROXY": "127.0.0.1,localhost",
}


def end_all(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """Kill Flower's command that leads its group, all that it started, and the group (also if it alone is dead)."""
    if process.poll() is None:
        send_signal(process.pid, signal.SIGSTOP)
    kill_what_it_started(process.pid)
    with suppress(ProcessLookupError, PermissionError):  # nobody is left; macOS says so in the second way
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def kill_what_it_started(pid: int) -> None:
    """Kill all that a process of Flower's started and that these started; executors leave its group."""
    _kill_all(lambda: descendants_of(pid))


def clear_folder(folder: Path) -> bool:
    """Kill every process at home in a scratch folder, with all that it started; whether there was any."""
    return _kill_all(lambda: [each for own in at_home(folder) for each in (own, *descendants_of(own))])


def at_home(folder: Path) -> list[int]:
    """The pids of processes whose working directory or standard output is in a run's scratch folder, by /proc.

    So Ray's are found whatever has become of those that started them: orphans have init for a parent, and the title
    that each gives itself is written over its environment.
    """
    found, within = [], f"{folder.resolve()}/"
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile, or is somebody else's
            if any(f"{os.readlink(place / each)}/".startswith(within) for each in ("cwd", "fd/1")):
                found.append(int(place.name))
    return found


def _kill_all(find: Callable[[], Iterable[int]]) -> bool:
    """Kill the processes that `find` names, until it names no more; whether there was any.

    Each is stopped before others are looked for: what can still fork would leave orphans that nobody finds.
    """
    found: set[int] = set()
    while new := set(find()) - found:
        for each in new:
            send_signal(each, signal.SIGSTOP)
        found |= new
    for each in found:
        send_signal(each, signal.SIGKILL)
    return bool(found)


def send_signal(pid: int, which: signal.Signals) -> None:
    """Send a signal to a process of a run's or a deployment's, which may have ended already."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, which)


def proc_file(pid: int, what: str) -> str:
    """What a file of /proc, such as cmdline, says of a process of Flower's or Ray's; "" where it has ended."""
    try:
        return Path(f"/proc/{pid}/{what}").read_text(errors="replace")
    except OSError:
        return ""


def process_began(pid: int) -> str:
    """When a process began, in its system's words, to tell it from a later one of its pid; "" if it has ended."""
    if Path("/proc/self/stat").exists():
        words = _stat(pid)
        return "" if not words or words[0] == "Z" else words[19]
    shown = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True)
    return shown.stdout.strip()


def descendants_of(pid: int) -> list[int]:
    """The pids of all that a process started, and that these started: what is to be killed with Flower or Ray."""
    if Path("/proc/self/stat").exists():  # which a container has; other systems have ps
        stats = {int(place.name): _stat(int(place.name)) for place in Path("/proc").glob("[0-9]*")}
        parents = {each: int(words[1]) for each, words in stats.items() if words}
    else:
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True).stdout.split()
        parents = dict(zip(map(int, listed[::2]), map(int, listed[1::2]), strict=True))
    found = [pid]
    for own in found:
        found += [child for child, parent in parents.items() if parent == own]
    return found[1:]


def _stat(pid: int) -> list[str]:
    """The words of /proc/PID/stat behind the process's name: state, parent, …; none where the process has ended."""
    return proc_file(pid, "stat").rpartition(")")[2].split()


def flower_environment(scratch: Path) -> dict[str, str]:
    """The environment for Flower and Ray: nothing installed or sent, nothing of the user's touched.

    They are to be started in `scratch / "empty"`.
    """
    (scratch / "empty").mkdir(exist_ok=True)
    return {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"} | {
        **TOLD,
        HOME: os.getcwd(),
        "FLWR_HOME": str(scratch / "flwr"),
        "RAY_TMPDIR": str(scratch),
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),  # this code, from wherever it came
    }


def started_process(
    words: Sequence[str], scratch: Path, env: Mapping[str, str], log: IO[str]
) -> subprocess.Popen[bytes]:
    """Start a command of Flower's in a group of its own, in the scratch's empty directory, all it says in a log."""
    return subprocess.Popen(
        words, cwd=scratch / "empty", env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
    )


def reach_ray(workers: int, address: str | None) -> Callable[[], None]:
    """Start Ray here, or join the cluster at an address, or say in a line why not; what it returns lets go of it."""
    if address == "":
        raise FedprivError("--ray needs an address, such as 127.0.0.1:6379 or auto, got none")
    host, colon, port = (address or "").rpartition(":")
    try:
        if colon and port.isdigit() and "/" not in host:  # Ray itself would try for minutes
            socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
        return start_ray(workers, address or "local")
    except (AssertionError, ImportError, OSError, OverflowError, RuntimeError, ValueError) as error:
        at = f"at {address} " if address else ""
        raise FedprivError(f"Ray {at}cannot be reached: {reason(error)}") from None


def start_ray(workers: int, address: str = "local") -> Callable[[], None]:
    """Start Ray in this process for the direct driver and sweeps, or join a cluster; what it returns ends it.

    All but its store of facts are killed then, for Ray would wait a second for them.
    """
    if address != "local":
        import ray

        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        return ray.shutdown
    path = _scratch()
    told = flower_environment(path) | {name: os.environ[name] for name in REMEMBERED if name in os.environ}
    told = {name: text for name, text in told.items() if name[:4] == "RAY_" or name in (HOME, "PYTHONPATH")}
    before = {name: os.environ.get(name) for name in told if name not in REMEMBERED}
    os.environ.update(told)
    watch = watched_scratch(path)  # before there is anything to end: Ray takes seconds to start
    others = set(descendants_of(os.getpid()))
    try:
        with chdir(path / "empty"):
            init_ray(workers)
        # these are to be ended, too: not every system says where a process is at home
        ours = "".join(f"{pid}:{process_began(pid)}\n" for pid in set(descendants_of(os.getpid())) - others)
        assert watch.stdin is not None
        watch.stdin.write(ours)
        watch.stdin.flush()
    except BaseException:
        _restore(before)
        watch.communicate()
        raise

    def end() -> None:
        """Kill the Ray started here, shut its client down, and put the environment back as it was."""
        import ray

        for pid in set(descendants_of(os.getpid())) - others:
            if proc_file(pid, "comm").strip() not in ("gcs_server", ""):
                send_signal(pid, signal.SIGKILL)
        ray.shutdown()
        _restore(before)
        watch.communicate()

    return end


def _restore(before: Mapping[str, str | None]) -> None:
    """Put environment variables back to what they were before Ray was told others; None removes one."""
    for name, text in before.items():
        os.environ.pop(name, None)
        os.environ.update({} if text is None else {name: text})


def watched_scratch(scratch: Path) -> subprocess.Popen[str]:
    """Start a watcher that, when this process ends or is killed, ends all at home in a scratch and removes it.

    Its input ends with this process. Where it is closed before, that is the end, too.
    """
    words = [sys.executable, "-P", "-m", "simulations.runs.afterwards", str(scratch)]
    return subprocess.Popen(words, stdin=subprocess.PIPE, text=True, start_new_session=True)


def init_ray(workers: int) -> None:
    """Start Ray on this machine with so many cores; half of the free shared memory is its store, 2 GB at most."""
    import ray

    shared = Path("/dev/shm")
    free = shutil.disk_usage(shared).free if shared.is_dir() else 2 << 30
    ray.init(
        address="local",  # never a cluster that happens to be there
        num_cpus=workers,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        object_store_memory=max(min(free // 2, 2 << 30), 80 << 20),  # 2 GB at most; 80 MB is Ray's least
    )


def wait_until(done: Callable[[], bool], seconds: float | None) -> bool:
    """Ask `done` every tenth of a second until it is true, or so many seconds are over; whether it was in time."""
    until = None if seconds is None else time.monotonic() + seconds
    while not (met := done()) and (until is None or time.monotonic() < until):
        time.sleep(0.1)
    return met


@contextmanager
def scratch_directory() -> Iterator[Path]:
    """While it lasts, a scratch directory of a Flower run, with a short name, for Ray's sockets are in it."""
    path = _scratch()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _scratch() -> Path:
    """A new temporary directory for Flower and Ray, with a short name, as Ray's sockets need it."""
    return Path(tempfile.mkdtemp(prefix="fp-", dir="/tmp" if os.access("/tmp", os.W_OK) else None))
